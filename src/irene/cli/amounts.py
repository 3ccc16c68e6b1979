"""Amounts as people write them: 0.5%, 8ms, 250M."""

from __future__ import annotations

from irene.cli.options import fraction, number, one_of, plain_number
from irene.errors import OptionError
from irene.types import COST_UNITS, CostUnit

_LARGE_SHARE = 0.1  # a share from here on, written without %, is more likely a forgotten %


def share(text: str | None, flag: str, *, large: bool = False) -> float | None:
    """A share such as 0.5% or 0.005; one that looks like a forgotten % is refused unless `large` ones are usual."""
    if text is None:
        return None
    try:
        value = fraction(text.strip())
    except ValueError:
        raise OptionError(f"{flag} takes a share such as 0.5% or 0.005, got {text!r}") from None
    if not text.strip().endswith("%") and abs(value) >= (1 if large else _LARGE_SHARE):
        raise OptionError(f"{flag} {text} would be {value:.0%}: write {text}% if that is what you mean, or {value:.0%}")
    return value


def milliseconds(text: str | None, flag: str) -> float | None:
    """A time such as 8ms, 0.5s or 8, which is 8 ms."""
    if text is None:
        return None
    word = text.strip().lower()
    suffix, factor = next((s, f) for s, f in (("ms", 1.0), ("s", 1000.0), ("", 1.0)) if word.endswith(s))
    try:
        return plain_number(word.removesuffix(suffix).strip(), factor)
    except ValueError:
        raise OptionError(f"{flag} takes a time such as 8ms, got {text!r}") from None


def is_time(text: str) -> bool:
    """Whether a cost is written as a time, such as 3ms."""
    return text.strip().lower().endswith("s")


def cost(text: str | None, unit: str | None) -> tuple[float | None, CostUnit]:
    """A mean cost such as 1.3, 250M or 3ms, and its unit: the one given, what the text ends in, or members."""
    known = one_of("members" if unit is None else unit, COST_UNITS, "--cost-unit")
    if text is None:
        return None, known
    if is_time(text):
        if unit not in (None, "ms"):
            raise OptionError(f"--cost {text} is a time and --cost-unit is {unit}: leave one of the two out")
        return milliseconds(text, "--cost"), "ms"
    try:
        return number(text.strip()), known
    except ValueError:
        raise OptionError(f"--cost takes a number such as 1.3, 250M or 3ms, got {text!r}") from None
