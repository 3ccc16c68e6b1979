"""How every picture looks, and how one becomes a file.

Text and axes are drawn in INK, which a page turns into the colour of what is around them, so that a picture is readable
on light and on dark. Series keep their colours on both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from io import BytesIO
from typing import Any, ParamSpec

import matplotlib
from matplotlib.axis import Axis
from matplotlib.figure import Figure

INK = "#010203"
COLOURS = ("#3d85c6", "#e07b39", "#3fa66b", "#9a6fd0", "#d4575f", "#27a3a6", "#bd9425", "#868c96")
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titlecolor": INK,
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.size": 10,
    "grid.alpha": 0.15,
    "grid.color": INK,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "text.color": INK,
    "text.parse_math": False,  # names come from users: a dollar sign is a dollar sign
    "xtick.color": INK,
    "ytick.color": INK,
}
WIDTH = 8.4

P = ParamSpec("P")


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw in the house style, without touching the settings of the program around."""

    @wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with matplotlib.rc_context(STYLE):
            return draw(*args, **kwargs)

    return styled


def in_plain_numbers(axis: Axis, text: Callable[[float], str] = "{:g}".format) -> None:
    """Label a log axis with 2 and not 2 x 10^0: powers of ten, and 2, 3 and 5 of each where it spans little more."""

    def between(value: float, _: float) -> str:
        low, high = axis.get_view_interval()
        return text(value) if high < 30 * low and f"{value:e}"[0] in "235" else ""

    axis.set_major_formatter(lambda value, _: text(value))
    axis.set_minor_formatter(between)


def rendered(figure: Figure, kind: str) -> bytes:
    """A picture as the bytes of a file, the same every time."""
    buffer = BytesIO()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "irene"}):
        figure.savefig(buffer, format=kind, dpi=200, facecolor="white", metadata=undated.get(kind, {}))
    return buffer.getvalue()
