"""What every picture has in common: axes whose numbers can be read."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from matplotlib.figure import Figure

from irene.evaluation.page import inline_svg
from irene.evaluation.report_pictures import learning_curves
from irene.pictures import COLOURS, logarithmic, rendered, styled
from irene.training.methods import METHODS


@styled
def line(values: list[float], *text: Callable[[float], str]) -> Figure:
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot(values)
    logarithmic(axes, *text)
    return figure


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.parametrize(
    ("values", "some"),
    [
        ([0.15, 6.0], {"0.2", "1", "2", "6"}),
        ([1e-5, 1e4], {"0.0001", "1", "10000"}),
        ([2.18, 2.19], {"2.184", "2.188"}),
    ],
)
def test_a_logarithmic_axis_says_its_numbers_plainly(values: list[float], some: set[str]) -> None:
    for svg in (inline_svg(line(values), "p"), rendered(line(values), "svg").decode()):
        said = texts(svg)
        assert some <= set(said)
        assert not [text for text in said if re.search(r"[^-+.e0-9]", text)]


def test_numbers_of_a_logarithmic_axis_may_have_a_form() -> None:
    said = texts(rendered(line([0.15, 1.2], "{:.0%}".format), "svg").decode())
    assert {"20%", "100%"} <= set(said)


def test_learning_curves_of_unequal_losses_have_no_formula_for_a_number() -> None:
    runs = {name: {"member-1": [6.0, 1.5], "member-2": [0.3, 0.15]} for name in "abcd"}
    assert "math" not in inline_svg(learning_curves(runs), "p")


def test_each_method_can_have_a_colour_of_its_own() -> None:
    assert len(set(COLOURS)) >= len(METHODS)
