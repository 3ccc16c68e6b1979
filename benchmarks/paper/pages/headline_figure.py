"""The README's picture: what a cascade that starts small reaches, beside one large network and three averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from names import in_short, seeds, title, trained

from irene.pictures import COLOURS, INK, WIDTH, styled
from pages.rows import Row, best_cascades, mean_of, networks, taught_alone

NAME = "headline.svg"
TICKS = (0.2, 0.3, 0.5, 1, 2, 3)


def drawn(study: dict[str, Any], datasets: Sequence[str]) -> dict[str, Figure]:
    """The picture by its file name, if there is a cascade that was trained on all of these data sets."""
    best = best_cascades(study["small_first"], datasets)
    return {NAME: panels([*best[:1], *best[1:][-1:]], study)} if best else {}


@styled
def panels(trainings: Sequence[Sequence[Row]], study: dict[str, Any]) -> Figure:
    """A panel for each data set: the cascade that was taught longest, and the one of independent members."""
    datasets = [cascade["dataset"] for cascade in trainings[0]]
    figure = Figure(figsize=(WIDTH, 4.2))
    all_axes = figure.subplots(1, len(datasets), squeeze=False)[0]
    for axes, dataset, cascades in zip(all_axes, datasets, zip(*trainings, strict=True), strict=True):
        for colour, cascade in zip(COLOURS[2::-2], cascades, strict=False):
            line(axes, cascade, colour)
        for widest in taught_alone(study, cascades[0])[-1:]:
            name = f"{in_short([widest['backbone']])} of the first, alone"
            axes.plot(widest["flops"], widest["accuracy"], "X", color=COLOURS[2], mec=INK, ms=8, label=name, ls="")
        large(axes, cascades[0], study["rows"])
        axes.set_title(title(dataset))
        axes.set_xscale("log")
        axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0 if dataset == "cifar100" else 1))
        axes.set_xlabel("mean cost, FLOPs of one ResNet-18")
    all_axes[0].set_ylabel(f"test accuracy, {seeds(trainings[0][0]['seeds'])}")
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower left", fontsize=8.5)
    return figure


def line(axes: Axes, cascade: Row, colour: str) -> None:
    """What a cascade reaches at each cost, by the learned selector, with 95 % intervals."""
    points = cascade["policies"]["selector"]
    cost = [float(value) for value in points]
    name = f"cascade {in_short(cascade['members'])}: {trained(cascade['training'])}"
    axes.plot(cost, [point["accuracy"] for point in points.values()], color=colour, marker="o", ms=4, label=name)
    ends = ([point[end] for point in points.values()] for end in ("low", "high"))
    axes.fill_between(cost, *ends, color=colour, alpha=0.1, lw=0)


def large(axes: Axes, cascade: Row, rows: Sequence[Row]) -> None:
    """One large network and three averaged, and how high they are where a cascade costs less."""
    for cost, method, name in ((1, "single", "one ResNet-18"), (3, "average", "three averaged")):
        accuracy = mean_of(networks(rows, cascade, "resnet18", method), "accuracy")
        axes.plot([0.2, cost], [accuracy] * 2, color=INK, lw=1, ls=(0, (2, 2)), alpha=0.6)
        axes.plot(cost, accuracy, "D", color=INK, ms=6)
        axes.annotate(name, (cost, accuracy), xytext=(0, -15), textcoords="offset points", ha="right")
