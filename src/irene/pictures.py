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
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

INK = "#010203"
COLOURS = (  # one for each method
    *("#3d85c6", "#e07b39", "#3fa66b", "#9a6fd0", "#d4575f", "#27a3a6", "#bd9425", "#868c96"),
    *("#e07ab8", "#8a5a3c", "#93b52f", "#4a5fb0"),
)
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


class _PlainLog(LogFormatter):
    """The numbers of a logarithmic axis as 0.2 and 2: matplotlib writes formulas, which the style leaves undrawn."""

    def __init__(self, text: Callable[[float], str]) -> None:
        super().__init__()
        self._text = text

    def __call__(self, x: float, pos: int | None = None) -> str:
        return self._text(x) if super().__call__(x, pos) else ""


P = ParamSpec("P")


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw in the house style, without touching the settings of the program around."""

    @wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with matplotlib.rc_context(STYLE):
            return draw(*args, **kwargs)

    return styled


def panels(count: int, columns: int, **options: Any) -> tuple[Figure, list[Axes]]:
    """A picture of so many panels in so many columns; the options are those of `Figure.subplots`."""
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH, 0.4 + 2.3 * rows))
    grid = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure, grid[:count]


def logarithmic(axes: Axes, text: Callable[[float], str] = "{:g}".format) -> None:
    """Let the y axis show the logarithm, with plain numbers at its ticks, in a form of one's own."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(_PlainLog(text))
    axes.yaxis.set_minor_formatter(_PlainLog(text))


def rendered(figure: Figure, kind: str) -> bytes:
    """A picture as the bytes of a file, the same every time."""
    buffer = BytesIO()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "irene"}):
        figure.savefig(buffer, format=kind, dpi=200, facecolor="white", metadata=undated.get(kind, {}))
    return buffer.getvalue()
