"""Pictures: what is written at their axes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from matplotlib.figure import Figure

from irene.pictures import in_plain_numbers, rendered, styled


@styled
def on_a_log_axis(low: float, high: float, text: Callable[[float], str] | None = None) -> Figure:
    figure = Figure()
    axes = figure.add_subplot()
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    in_plain_numbers(axes.yaxis, *([] if text is None else [text]))
    return figure


def labels(figure: Figure) -> list[str]:
    """What is written at the ticks that are seen, from the lowest to the highest."""
    rendered(figure, "svg")
    axis = figure.axes[0].yaxis
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    low, high = axis.get_view_interval()
    seen = sorted((tick.get_loc(), tick.label1.get_text()) for tick in ticks if low <= tick.get_loc() <= high)
    return [text for _, text in seen if text]


@pytest.mark.parametrize(
    ("low", "high", "written"),
    [
        (0.15, 4.0, ["0.2", "0.3", "0.5", "1", "2", "3"]),
        (0.04, 0.6, ["0.05", "0.1", "0.2", "0.3", "0.5"]),
        (0.9, 2000.0, ["1", "10", "100", "1000"]),
    ],
)
def test_a_log_axis_has_plain_numbers(low: float, high: float, written: list[str]) -> None:
    assert labels(on_a_log_axis(low, high)) == written


def test_numbers_of_an_axis_may_have_a_form() -> None:
    assert labels(on_a_log_axis(0.4, 1.2, "{:.0%}".format)) == ["50%", "100%"]
