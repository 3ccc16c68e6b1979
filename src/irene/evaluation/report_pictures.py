"""The pictures of a report: one function each, plain values in, a matplotlib Figure out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import ArrayLike

from irene.pictures import COLOURS, INK, WIDTH, logarithmic, panels, styled

BINS = 10
FEWEST = 5  # samples that a bin needs to say something
LINE = 0.21  # inches that a line of a legend takes


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points of accuracy (or error) against cost: a line, or a dot when there is one point."""

    name: str
    cost: Sequence[float]
    quality: Sequence[float]
    colour: str
    dashed: bool = False


@styled
def frontier(series: Sequence[Series], *, quality: str) -> Figure:
    """Accuracy (or error) against mean cost: lines sweep the threshold, dots are runs as they were trained."""
    figure = Figure(figsize=(WIDTH, height(4.0, len(series))))
    axes = figure.add_subplot()
    for one in series:
        if len(one.cost) == 1:
            axes.plot(one.cost, one.quality, "o", ms=9, color=one.colour, mec="none", label=one.name, zorder=3)
        else:
            style = (0, (3, 2)) if one.dashed else "-"
            axes.plot(one.cost, one.quality, color=one.colour, ls=style, label=one.name, alpha=0.85)
    axes.set_xlabel("mean cost, members a sample")
    axes.set_ylabel(quality)
    if quality == "accuracy":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_ylim(*accuracy_limits([value for one in series for value in one.quality]))
    figure.legend(loc="outside right upper")
    return figure


def height(least: float, lines: int) -> float:
    """The height of a picture, in inches, with room for so many lines of a legend at its side."""
    return max(least, 0.3 + LINE * lines)


def accuracy_limits(values: Sequence[float]) -> tuple[float, float]:
    """Limits of an axis of accuracy: close around the values, but at least a point apart and hardly above 100 %."""
    low, high = min(values), max(values)
    room = max(0.15 * (high - low), 0.005)
    return max(low - room, 0.0), min(high + room, 1.0 + room / 10)


@styled
def members_used(shares: Mapping[str, Sequence[float]]) -> Figure:
    """What share of the samples used one member, two, three, and so on: one bar a run."""
    figure = Figure(figsize=(WIDTH, 0.75 + 0.48 * len(shares)))
    axes = figure.add_subplot()
    most = max(len(share) for share in shares.values())
    names = list(shares)
    left = np.zeros(len(names))
    for count in range(most):
        width = np.array([share[count] if count < len(share) else 0.0 for share in shares.values()])
        strength = 0.3 + 0.7 * (count + 1) / most
        bars = axes.barh(names, width, left=left, color=COLOURS[0], alpha=strength, height=0.62)
        written = [f"{value:.0%}" if value >= 0.06 else "" for value in width]
        axes.bar_label(bars, written, label_type="center", color="white" if strength > 0.6 else INK)
        bars.set_label(str(count + 1))
        left += width
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(False)
    axes.set_xlabel("share of samples")
    figure.legend(loc="outside right upper", title="members used")
    return figure


@styled
def reliability(answers: Mapping[str, tuple[ArrayLike, ArrayLike]], colours: Sequence[str]) -> Figure:
    """How often answers of a given confidence are right: on the diagonal, confidence means what it says.

    `answers` holds for each run the confidence of its answers and whether they are right. A dot's area grows
    with the number of samples in its bin.
    """
    figure = Figure(figsize=(WIDTH, height(4.4, len(answers))))
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color=INK, lw=0.8, alpha=0.5, ls=(0, (4, 3)))
    for (name, (confidence, right)), colour in zip(answers.items(), colours, strict=True):
        mean, share, count = reliability_bins(confidence, right)
        axes.plot(mean, share, color=colour, label=name, alpha=0.8)
        axes.scatter(mean, share, s=12 + 220 * count / max(count.sum(), 1), color=colour, alpha=0.8, lw=0)
    axes.set_xlabel("confidence of the answer")
    axes.set_ylabel("share that is right")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlim(0, 1.03)
    axes.set_ylim(0, 1.03)
    axes.set_box_aspect(1)
    axes.set_anchor("W")
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0))
    return figure


def reliability_bins(confidence: ArrayLike, right: ArrayLike) -> tuple[Any, Any, Any]:
    """Mean confidence, share right and number of samples of each bin (low, high] with enough samples."""
    confidences, rights = np.asarray(confidence, dtype=float), np.asarray(right, dtype=float)
    place = np.clip(np.ceil(confidences * BINS).astype(int) - 1, 0, BINS - 1)
    count = np.bincount(place, minlength=BINS)
    some = count >= FEWEST
    mean, share = (np.bincount(place, values, BINS)[some] / count[some] for values in (confidences, rights))
    return mean, share, count[some]


@styled
def predicted_against_true(answers: Mapping[str, tuple[ArrayLike, ArrayLike]], colours: Sequence[str]) -> Figure:
    """Predicted values over true ones: on the diagonal, the prediction is exact."""
    figure = Figure(figsize=(WIDTH, height(4.4, len(answers))))
    axes = figure.add_subplot()
    for (name, (predicted, true)), colour in zip(answers.items(), colours, strict=True):
        axes.scatter(true, predicted, s=14, color=colour, alpha=0.6, lw=0, label=name)
    low, high = np.min([axes.get_xlim(), axes.get_ylim()]), np.max([axes.get_xlim(), axes.get_ylim()])
    axes.plot([low, high], [low, high], color=INK, lw=0.8, alpha=0.5, ls=(0, (4, 3)))
    axes.set_xlabel("true value")
    axes.set_ylabel("predicted value")
    axes.set_box_aspect(1)
    axes.set_anchor("W")
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0))
    return figure


@styled
def learning_curves(runs: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """The training loss of every stage of every run, epoch by epoch: one panel a run."""
    figure, grid = panels(len(runs), 2 if len(runs) == 4 else min(3, len(runs)), sharey=True)
    for axes, (name, stages) in zip(grid, runs.items(), strict=True):
        _learning_panel(axes, name, stages)
    figure.supylabel("training loss", size=10)
    return figure


def _learning_panel(axes: Axes, name: str, stages: Mapping[str, Sequence[float]]) -> None:
    for index, (stage, losses) in enumerate(stages.items()):
        colour = COLOURS[index % len(COLOURS)]
        mark = "o" if len(losses) == 1 else None  # no line, which could be seen
        axes.plot(range(1, len(losses) + 1), losses, color=colour, lw=1.3, marker=mark, ms=4, label=stage)
    axes.set_title(name)
    logarithmic(axes)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5, min_n_ticks=1))
    if 0 < len(stages) <= 4:
        axes.legend(fontsize=8, loc="upper right", handlelength=1.2)
