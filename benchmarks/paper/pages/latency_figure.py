"""Accuracy against FLOPs, and beside it against measured time, of cascades and of single networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from names import in_short, title

from irene.pictures import COLOURS, INK, WIDTH, styled
from pages.latency_text import POLICIES, Latency, epochs_of, figure_name, large, load_files, several
from pages.rows import Row, grouped, mean_of

PANELS = {"flops": ("flops", "FLOPs of one {}"), "ms": ("time_median", "measured time of one {}")}
AXES_HEIGHT, LINE_HEIGHT = 3.6, 0.18  # inches: the two panels, and a line of the legend
TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 2, 3)


def drawn(files: Latency | None = None) -> dict[str, Figure]:
    """A figure for each machine and data set that was measured, by its file name."""
    found = {}
    for machine, content in (load_files() if files is None else files).items():
        for (dataset,), rows in grouped(content["rows"], "dataset").items():
            networks = [one for one in content["networks"] if one["dataset"] == dataset]
            found[figure_name(machine, dataset)] = panels(rows, networks)
    return found


def lines(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each line by its label: all policies on one backend, or the learned one on each of several."""
    backends = {row["backend"] for row in rows}
    found: dict[str, list[Row]] = {}
    for (_, backend), here in grouped(rows, "kind", "backend").items():
        epochs = f", {epochs_of(here[0]['run'])} epochs"
        name = f"{in_short(here[0]['backbones'])}, {here[0]['training']}{epochs}"
        by_policy = grouped(here, "policy")
        learned = next((policy for policy in POLICIES if (policy,) in by_policy), None)
        for (policy,), points in by_policy.items():
            if len(backends) == 1:
                found.setdefault(f"{name}: {POLICIES[policy]}", []).extend(points)
            elif policy == learned:
                found.setdefault(f"{name}: {backend}", []).extend(points)
    return found


@styled
def panels(rows: Sequence[Row], networks: Sequence[Row]) -> Figure:
    """Lines are cascades, asked for a cost in the unit of the panel; other marks are networks without stopping."""
    figure = Figure(figsize=(WIDTH, 4.6))
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, (unit, (key, label)) in zip((left, right), PANELS.items(), strict=True):
        for number, (name, points) in enumerate(lines(rows).items()):
            found = grouped(points, "unit", "asked")
            own = [same for (asked_in, _), same in found.items() if asked_in == unit]
            shown = own if len(own) > 1 else found.values()  # one alone would be no line
            at = sorted((mean_of(same, key), mean_of(same, "accuracy")) for same in shown)
            axes.plot(*zip(*at, strict=True), marker="o", ms=4, color=COLOURS[number % len(COLOURS)], label=name)
        marks(axes, networks, "time" if unit == "ms" else "flops")
        axes.set_xscale("log")
        axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axes.minorticks_off()
        axes.set_xlabel(label.format(large(networks[0])) + " (log scale)")
    left.set_ylabel("accuracy")
    left.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))
    handles, labels = left.get_legend_handles_labels()
    figure.set_figheight(AXES_HEIGHT + LINE_HEIGHT * len(labels))
    figure.legend(handles, labels, loc="outside lower left", fontsize=8)
    return figure


def marks(axes: Axes, networks: Sequence[Row], key: str) -> None:
    """Large networks by how they were trained, one and so many averaged, and first members that are smaller."""
    networks = [one for one in networks if one["backend"] == networks[0]["backend"]]
    style: dict[str, Any] = {"color": INK, "alpha": 0.75, "ms": 6, "lw": 1, "ls": (0, (2, 2))}
    for number, ((trained,), here) in enumerate(grouped(networks, "large_training").items()):
        about = here[0]
        accuracy = [mean_of(here, "single"), mean_of(here, "ensemble")]
        name = f"one {large(about)}, {several(about)}, {trained}"
        axes.plot([1, about["networks"]], accuracy, marker="sP*"[number % 3], label=name, **style)
    first = [one["members"][0] for one in networks if one["members"][0]["flops"] < 1]
    for number, ((backbone,), small) in enumerate(grouped(first, "backbone").items()):
        at = [mean_of(small, key)], [mean_of(small, "accuracy")]
        axes.plot(*at, marker="^vD"[number % 3], label=f"one {title(backbone)}", **style)
