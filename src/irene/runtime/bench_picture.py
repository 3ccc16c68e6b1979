"""The picture of a bench: how many samples a second, and how near to the limit, at each batch size."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from irene.pictures import COLOURS, INK, WIDTH, logarithmic, styled
from irene.runtime.bench import Row

MODES = {
    "single": "one member",
    "full": "whole ensemble, exits only counted",
    "plain": "plain loop",
    "engine": "engine",
    "stream": "stream",
}


@styled
def bench_picture(rows: Sequence[Row]) -> Figure:
    """One row of panels a backend: samples a second, and the ratio of speed-up and limit, against the batch size."""
    backends = list(dict.fromkeys(row["backend"] for row in rows))
    figure = Figure(figsize=(WIDTH, 0.5 + 2.7 * len(backends)))
    panels = figure.subplots(len(backends), 2, squeeze=False)
    for (speed, ratio), backend in zip(panels, backends, strict=True):
        _panel(speed, [row for row in rows if row["backend"] == backend], "images_per_s", MODES)
        _panel(ratio, [row for row in rows if row["backend"] == backend], "ratio", ("plain", "engine", "stream"))
        speed.set_title(f"{backend}: samples a second")
        logarithmic(speed, "{:,.12g}".format)
        ratio.set_title(f"{backend}: speed-up / limit")
        ratio.axhline(1, color=INK, lw=0.8, alpha=0.5, ls=(0, (4, 3)))
        ratio.set_ylim(0, None)
    lines, names = panels[0][0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=3)
    return figure


@styled
def growth_picture(rows: Sequence[Row]) -> Figure:
    """Time against the number of members and of samples: straight lines through the measured points."""
    figure = Figure(figsize=(WIDTH, 3.2))
    for axes, axis in zip(figure.subplots(1, 2), ("members", "samples"), strict=True):
        for colour, mode in zip(COLOURS, ("full", "stream"), strict=False):
            points = [(row[axis], row["seconds"]) for row in rows if row["axis"] == axis and row["mode"] == mode]
            axes.plot(*zip(*points, strict=True), "o-", ms=4, color=colour, label=_GROWTH[mode])
        axes.set_xlabel(axis)
        axes.set_ylabel("seconds")
        axes.set_xlim(0, None)
        axes.set_ylim(0, None)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


_GROWTH = {"full": "no sample stops early", "stream": "samples stop early"}


def _panel(axes: Axes, rows: Sequence[Row], value: str, modes: Sequence[str] | dict[str, str]) -> None:
    for colour, mode in zip(COLOURS, MODES, strict=False):
        points = [(row["batch"], row[value]) for row in rows if row["mode"] == mode]
        if mode in modes and points:
            axes.plot(*zip(*points, strict=True), "o-", ms=4, color=colour, label=MODES[mode])
    batches = sorted({row["batch"] for row in rows})
    axes.set_xscale("log")
    axes.set_xticks(batches, [f"{batch:,}" for batch in batches])
    axes.minorticks_off()
    axes.set_xlabel("batch")
