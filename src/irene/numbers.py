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


def si(value: float | None) -> str:
    """A large number with its thousands as K, M, G or T, a dash for what was not measured."""
    if not value or math.isnan(value):
        return NONE
    for unit in ("", "K", "M", "G"):
        if abs(value) < 999.5:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}T"
