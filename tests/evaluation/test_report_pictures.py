"""Pictures show the values they are given, and leave matplotlib as they found it."""

from __future__ import annotations

import sys

import matplotlib
import numpy as np
import pytest

from irene.evaluation import report_pictures
from irene.evaluation.report_pictures import Series
from irene.pictures import rendered


def line(name: str, cost: list[float], quality: list[float]) -> Series:
    return Series(name=name, cost=cost, quality=quality, colour="#123456")


def test_the_frontier_draws_lines_and_dots() -> None:
    series = [line("swept", [1.0, 2.0, 3.0], [0.8, 0.9, 0.91]), line("trained", [1.3], [0.88])]
    figure = report_pictures.frontier(series, quality="accuracy")
    (axes,) = figure.axes
    drawn = {drawing.get_label(): drawing for drawing in axes.get_lines()}
    assert list(drawn["swept"].get_xdata()) == [1, 2, 3]
    assert drawn["trained"].get_marker() == "o"
    assert axes.get_ylabel() == "accuracy"


def test_many_runs_have_room() -> None:
    names = [f"average-t3-s{number}" for number in range(25)]
    series = [line(f"{name}, stopped by margin", [1.0, 3.0], [0.8, 0.9]) for name in names]
    answers = {name: ([0.9] * 10, [1.0] * 10) for name in names}
    colours = ["#123456"] * len(names)
    for figure in (
        report_pictures.frontier([*series, *(line(name, [1.3], [0.9]) for name in names)], quality="accuracy"),
        report_pictures.reliability(answers, colours),
        report_pictures.predicted_against_true(answers, colours),
    ):
        figure.draw_without_rendering()
        (axes,) = figure.axes
        legend = figure.legends[0] if figure.legends else axes.get_legend()
        assert legend is not None
        shown = legend.get_window_extent()
        assert shown.y0 >= 0
        assert shown.x1 <= figure.bbox.x1
        assert axes.get_window_extent().width > figure.bbox.width / 2


@pytest.mark.parametrize("values", [[0.9860, 0.9861], [1.0], [0.0, 0.2], [0.5, 0.99]])
def test_an_accuracy_axis_holds_its_values_and_ends_at_all(values: list[float]) -> None:
    low, high = report_pictures.accuracy_limits(values)
    assert 0 <= low <= min(values)
    assert max(values) <= high <= 1.01
    assert high - low >= 0.005


def test_bars_add_up() -> None:
    shares = {"one": [1.0], "three": [0.5, 0.3, 0.2]}
    (axes,) = report_pictures.members_used(shares).axes
    widths = np.array([[bar.get_width() for bar in bars] for bars in axes.containers])
    np.testing.assert_allclose(widths.T, [[1.0, 0.0, 0.0], [0.5, 0.3, 0.2]])


def test_reliability_bins() -> None:
    confidence = np.array([0.55] * 10 + [0.95] * 20 + [0.1] * 4)
    right = np.array([1] * 5 + [0] * 5 + [1] * 19 + [0] + [0] * 4)
    mean, share, count = report_pictures.reliability_bins(confidence, right)
    assert mean == pytest.approx([0.55, 0.95])  # four samples are too few to say anything
    assert share == pytest.approx([0.5, 0.95])
    assert count.tolist() == [10, 20]


def test_reliability_bins_hold_their_upper_edge() -> None:
    mean, _, count = report_pictures.reliability_bins(np.repeat([0.0, 0.1, 0.5, 1.0], 5), np.ones(20))
    assert mean == pytest.approx([0.05, 0.5, 1.0])
    assert count.tolist() == [10, 5, 5]


def test_reliability_without_enough_samples_is_an_empty_picture() -> None:
    figure = report_pictures.reliability({"few": ([0.9], [True])}, ["#123456"])
    (axes,) = figure.axes
    diagonal, line = axes.lines
    assert np.asarray(diagonal.get_xydata()).tolist() == [[0, 0], [1, 1]]
    assert np.asarray(line.get_xydata()).size == 0
    assert [np.asarray(dots.get_offsets()).size for dots in axes.collections] == [0]


def test_every_run_has_a_panel() -> None:
    curves = {f"run {number}": {"member-1": [2.0, 1.0]} for number in range(4)}
    figure = report_pictures.learning_curves(curves)
    shown = [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()]
    assert shown == list(curves)


def test_a_single_epoch_is_a_dot_at_a_whole_number() -> None:
    (axes,) = report_pictures.learning_curves({"snapshot": {"cycle-1": [2.0], "cycle-2": [1.5]}}).axes
    assert [drawing.get_marker() for drawing in axes.get_lines()] == ["o", "o"]
    low, high = axes.get_xlim()
    assert [place for place in axes.get_xticks() if low <= place <= high] == [1]
    (longer,) = report_pictures.learning_curves({"average": {"member-1": [2.0, 1.0]}}).axes
    assert [drawing.get_marker() for drawing in longer.get_lines()] == ["None"]


def test_values_are_scattered() -> None:
    figure = report_pictures.predicted_against_true({"run": ([1.0, 2.0], [1.5, 2.5])}, ["#123456"])
    (points,) = figure.axes[0].collections
    assert np.asarray(points.get_offsets()).tolist() == [[1.5, 1.0], [2.5, 2.0]]


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_a_picture_is_the_same_bytes_every_time(kind: str) -> None:
    written = []
    for _ in range(2):
        # Lines that are clipped at the axes, and markers: matplotlib draws ids for both.
        figure = report_pictures.frontier(
            [line("swept", [1.0, 2.0], [0.8, 0.9]), line("one", [1.3], [0.88])], quality="rmse"
        )
        written += [rendered(figure, kind), rendered(figure, kind)]
    assert len(set(written)) == 1


def test_settings_of_the_program_around_stay() -> None:
    before = dict(matplotlib.rcParams)
    report_pictures.members_used({"one": [1.0]})
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
