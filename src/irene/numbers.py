"""Numbers as people read them."""

from __future__ import annotations

import math

NONE = "-"


def plain(value: float | None) -> str:
    """A number in few digits, a dash where there is none."""
    if value is None or math.isnan(value):
        return NONE
    return f"{value:.2f}" if value == 0 or 0.01 <= abs(value) < 1000 else f"{value:.3g}"


def percent(value: float | None) -> str:
    """A share in percent, a dash where there is none."""
    if value is None or not math.isfinite(value):
        return NONE
    return f"{value:.2%}" if abs(value) < 100 else f"{100 * value:.3g}%"


def milliseconds(value: float | None) -> str:
    """A time, a dash where it was not measured."""
    return NONE if not value or math.isnan(value) else f"{value:.3g}"


def share(value: float) -> str:
    """A share that somebody asked for, in percent and with all its digits."""
    return f"{100 * value:.10g}%"


def si(value: float | None, digits: int = 3) -> str:
    """A large number with its thousands as K, M, G or T, a dash for what was not measured."""
    if not value or math.isnan(value):
        return NONE
    for unit in ("", "K", "M", "G"):
        if abs(value) < 1000 - 0.5 * 10 ** (3 - digits):
            return f"{value:.{digits}g}{unit}"
        value /= 1000
    return f"{value:.{digits}g}T"
