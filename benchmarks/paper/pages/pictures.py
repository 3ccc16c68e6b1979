"""Every picture of the results page by its file name, drawn from the committed JSON files."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from names import DATASETS, INDEPENDENT, IRENE, file_name, in_short, seeds, title, trained

from irene.evaluation import studies
from irene.pictures import COLOURS, INK, WIDTH, styled
from pages import headline_figure, latency_figure
from pages.rows import (
    deviation,
    grouped,
    mean_of,
    most_worth_showing,
    of_most_seeds,
    of_slug,
    select,
    taught,
    taught_alone,
    utility_of,
)

STUDY = Path(__file__).resolve().parents[1]
SMALL_FIRST = "small-first"
CAPTIONS = {
    SMALL_FIRST: "Small members first: accuracy against FLOPs of one ResNet-18",
    "members": "Accuracy against the number of members, and how many an image needs (Fig. 1)",
    "pareto": "Accuracy against cost (Fig. 4a)",
    "size": "Accuracy and utility against the number of members (Fig. 4b)",
    "ablation": "What each part of IRENE is worth (Fig. 5)",
    "curves": "Learning curves of IRENE (Fig. 6)",
}


def picture_name(study: str, slug: str) -> str:
    return file_name(f"{study}-{slug}.svg")


def drawn() -> dict[str, Figure]:
    """Every figure that the JSON files have data for, by its file name."""
    study = json.loads((STUDY / "results.json").read_text())
    pictures = json.loads((STUDY / "figures.json").read_text())
    found = {picture_name(SMALL_FIRST, dataset): small_first(data) for dataset, data in headline_data(study).items()}
    for name, by_setting in pictures.items():
        draw = studies.find_study(name).draw
        if name == "size":
            by_setting = {slug: of_all_counts(data, slug, study["rows"]) for slug, data in by_setting.items()}
        found |= {picture_name(name, slug): draw(data) for slug, data in by_setting.items()}
    return found | headline_figure.drawn(study, DATASETS) | latency_figure.drawn()


def of_all_counts(data: dict[str, Any], slug: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What a figure of sizes shows, with the rows of runs that have other numbers of members."""
    setting = of_slug(slug, rows)
    methods = {}
    for method, points in data["methods"].items():
        label = IRENE if method == "irene" else method
        other = [row for row in setting if row["method"] == f"{label} of {row['members']}"]
        more = [
            {
                "members": count,
                "accuracy": {"mean": mean_of(alike, "accuracy"), "spread": deviation(alike, "accuracy")},
                "cost": {"mean": mean_of(alike, "cost"), "spread": deviation(alike, "cost")},
                "utility": utility_of(alike, setting),
            }
            for (count,), alike in grouped(other, "members").items()
            if count not in {point["members"] for point in points}
        ]
        methods[method] = sorted([*points, *more], key=lambda point: point["members"])
    return {**data, "methods": methods}


def headline_data(study: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By data set: the cascades, and independent single networks and ensembles of as many epochs."""
    found: dict[str, dict[str, Any]] = {}
    for (dataset,), cascades in grouped(most_worth_showing(study["small_first"]), "dataset").items():
        epochs = cascades[0]["epochs"]
        members = list(dict.fromkeys(name for one in cascades for name in one["members"]))
        both = {
            backbone: [select(study["rows"], dataset, backbone, epochs, method) for method in ("single", "average")]
            for backbone in members
        }
        both = {backbone: rows for backbone, rows in both.items() if all(rows)}  # some networks were only taught
        others = other_networks([row for row in study["rows"] if row["dataset"] == dataset], list(both), epochs)
        large = max(mean_of(one, "flops") for one, _ in both.values())
        longest = max(cascades, key=lambda one: (taught(one), one["seeds"], len(one["training"])))
        for one in taught_alone(study, longest):
            others[f"{in_short([one['backbone']])}, taught"] = large * one["flops"], one["accuracy"]
        found[dataset] = {
            "cascades": of_most_seeds(cascades),
            "networks": {
                title(backbone): [(mean_of(rows, "flops"), mean_of(rows, "accuracy")) for rows in single_and_average]
                for backbone, single_and_average in both.items()
            },
            "others": others,
        }
    return found


def other_networks(rows: list[dict[str, Any]], shown: list[str], epochs: int) -> dict[str, tuple[float, float]]:
    """FLOPs and accuracy of single networks of other sizes than those shown, and of MIMO, trained as long."""
    found = [
        (f"{title('mimo')} " * (row["method"] == "mimo") + in_short([row["backbone"]]), row)
        for row in rows
        if row["epochs"] == epochs
        and (row["method"] == "mimo" or (row["method"] == "single" and row["backbone"] not in shown))
    ]
    alike = {name: [row for other, row in found if other == name] for name, _ in found}
    return {name: (mean_of(those, "flops"), mean_of(those, "accuracy")) for name, those in alike.items()}


@styled
def small_first(data: dict[str, Any]) -> Figure:
    """Lines are cascades by learned halting, solid for independent members; other marks are networks by themselves."""
    figure = Figure(figsize=(WIDTH, 4.8))
    axes = figure.add_subplot()
    kinds = list(dict.fromkeys(in_short(cascade["members"]) for cascade in data["cascades"]))
    taught = [cascade["training"] for cascade in data["cascades"] if cascade["training"] != INDEPENDENT]
    styles = {INDEPENDENT: "-"} | dict(zip(dict.fromkeys(taught), itertools.cycle(("--", ":", "-."))))
    for cascade in data["cascades"]:
        _cascade(axes, cascade, COLOURS[kinds.index(in_short(cascade["members"]))], styles[cascade["training"]])
    unit = max(points[0][0] for points in data["networks"].values())
    for index, (name, points) in enumerate(data["networks"].items()):
        flops, accuracy = zip(*points, strict=True)
        axes.plot(
            [one / unit for one in flops],
            accuracy,
            ls=(0, (2, 2)),
            lw=1,
            marker="sD^v"[index % 4],
            ms=6,
            color=INK,
            alpha=0.75,
            label=f"{name}: one, three averaged",
        )
    for name, (work, right) in data["others"].items():
        axes.plot(work / unit, right, "x", color=INK, ms=6)
        axes.annotate(name, (work / unit, right), xytext=(6, -3), textcoords="offset points", fontsize=8.5)
    axes.set_xscale("log")
    ticks = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 2, 3)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("mean cost, FLOPs of one ResNet-18 (log scale)")
    axes.set_ylabel("accuracy")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))
    length = f"{data['cascades'][0]['epochs']} epochs"
    text = {"title": length, "alignment": "left", "title_fontsize": 8.5, "fontsize": 8.5}
    figure.legend(loc="outside lower left", handlelength=3, **text)
    return figure


def _cascade(axes: Axes, cascade: dict[str, Any], colour: str, style: str) -> None:
    points = cascade["policies"]["selector"]
    cost = [float(value) for value in points]
    accuracy, low, high = ([point[key] for point in points.values()] for key in ("accuracy", "low", "high"))
    axes.plot(
        cost,
        accuracy,
        color=colour,
        ls=style,
        marker="o",
        ms=4,
        label=f"{in_short(cascade['members'])}: {trained(cascade['training'])}, {seeds(cascade['seeds'])}",
    )
    axes.fill_between(cost, low, high, color=colour, alpha=0.1, lw=0)
