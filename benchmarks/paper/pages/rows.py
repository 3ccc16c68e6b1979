"""Rows of results: put into groups, averaged over seeds, and picked by setting or cascade."""

from __future__ import annotations

import json
import statistics
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from names import ALL_IMAGES, INDEPENDENT, IRENE, WARM, in_short, parts_of

from irene.metrics import utility

Row = dict[str, Any]
WIDTH = 120  # of a line of text
PAPER = Path(__file__).resolve().parents[1] / "paper.json"


@cache
def load_paper() -> list[Row]:
    """The rows of the paper's two tables: top-1 in %, cost in members, utility, and spreads where it prints them."""
    rows: list[Row] = json.loads(PAPER.read_text())
    return rows


def in_paper(dataset: str, backbone: str, method: str = IRENE) -> Row | None:
    """The paper's row of a method that is called so here, if it has one."""
    where = (dataset, backbone, "irene" if method in (IRENE, WARM) else method)
    return next((row for row in load_paper() if (row["dataset"], row["backbone"], row["method"]) == where), None)


def grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in keys)].append(row)
    return groups


def mean_of(rows: Sequence[Row], key: str) -> float:
    return statistics.fmean(row[key] for row in rows)


def deviation(rows: Sequence[Row], key: str) -> float | None:
    """The standard deviation over seeds; None for one seed."""
    return statistics.stdev(row[key] for row in rows) if len(rows) > 1 else None


def written(mean: float, spread: float | None, digits: int = 2) -> str:
    """A mean with its spread, unless that is nothing."""
    return f"{mean:.{digits}f}" + (f" ± {spread:.{digits}f}" if round(spread or 0.0, digits) else "")


def spread(rows: Sequence[Row], key: str, scale: float = 1.0, digits: int = 2) -> str:
    """Mean and standard deviation over seeds."""
    one = deviation(rows, key)
    return written(scale * mean_of(rows, key), None if one is None else scale * one, digits)


def utility_of(rows: Sequence[Row], setting: Sequence[Row]) -> float | None:
    """Utility of the mean accuracy at the mean cost, against the mean single and average of the setting."""
    single, average = (of_method(setting, name) for name in ("single", "average"))
    if not single or not average:
        return None
    reference = {"single": mean_of(single, "accuracy"), "average": mean_of(average, "accuracy")}
    return utility(mean_of(rows, "accuracy"), mean_of(rows, "cost"), **reference)


def of_setting(rows: Sequence[Row], dataset: str, backbone: str, epochs: int) -> list[Row]:
    """The rows of all methods in a setting with a held-out slice."""
    return [
        row
        for row in rows
        if (row["dataset"], row["backbone"], row["epochs"]) == (dataset, backbone, epochs)
        and row["images"] < ALL_IMAGES
    ]


def of_slug(slug: str, rows: Sequence[Row]) -> list[Row]:
    """The rows of a setting by its name."""
    dataset, backbone, epochs, _ = parts_of(slug)
    return of_setting(rows, dataset, backbone, epochs)


def select(rows: Sequence[Row], dataset: str, backbone: str, epochs: int, method: str) -> list[Row]:
    """The rows of a method in a setting with a held-out slice."""
    return of_method(of_setting(rows, dataset, backbone, epochs), method)


def of_method(setting: Sequence[Row], method: str) -> list[Row]:
    return [row for row in setting if row["method"] == method]


def networks(rows: Sequence[Row], cascade: Row, backbone: str, method: str) -> list[Row]:
    """The rows of a method on independent networks of one kind, trained as long as a cascade and of its seeds."""
    found = select(rows, cascade["dataset"], backbone, cascade["epochs"], method)
    return [row for row in found if row["seed"] in cascade["which_seeds"]]


def taught_alone(study: Row, cascade: Row) -> list[Row]:
    """The small networks of a cascade that learned from its large ones, by themselves: their FLOPs and accuracy."""
    like = [cascade[key] for key in ("dataset", "epochs", "training")]
    alike = {
        part: [one for one in study[part] if [one[key] for key in ("dataset", "epochs", "training")] == like]
        for part in ("taught", "small_first")
    }
    flops = {one["members"][0]: one["small_flops"] for one in alike["small_first"]}
    found = [{"backbone": one["backbone"], **one["alone"]} for one in alike["taught"]]
    return sorted(({**one, "flops": flops[one["backbone"]]} for one in found), key=lambda one: one["flops"])


def in_lines(text: str) -> str:
    """A paragraph as it stands in a document."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def sums_up(cascade: Row) -> bool:
    """Whether sentences and pictures are of it: two small members before three large ones, or all of a distillation."""
    small, large = cascade["members"][0], cascade["members"][-1]
    return bool(cascade["whole_run"] if taught(cascade) else cascade["members"] == [small] * 2 + [large] * 3)


def taught(cascade: Row) -> bool:
    """Whether members learned from others."""
    return bool(cascade["training"] != INDEPENDENT)


def worth_showing(cascade: Row) -> tuple[int, int]:
    """What a cascade is chosen by: most seeds, up to three, and of these the longest training."""
    return min(cascade["seeds"], 3), cascade["epochs"]


def most_worth_showing(cascades: Sequence[Row]) -> list[Row]:
    """Those that sum up what there is on each data set, and of these the ones of each training most worth showing."""
    return worthiest(cascades, "dataset", "training")


def of_most_seeds(cascades: Sequence[Row]) -> list[Row]:
    """Of cascades of the same members, however these were trained, the ones of most seeds."""
    most: dict[tuple[str, str], int] = {}
    for one in cascades:
        kind = one["dataset"], in_short(one["members"])
        most[kind] = max(one["seeds"], most.get(kind, 0))
    return [one for one in cascades if one["seeds"] == most[one["dataset"], in_short(one["members"])]]


def best_cascades(cascades: Sequence[Row], datasets: Sequence[str]) -> list[list[Row]]:
    """Of each training the first cascade that is most worth showing, on every data set, the longest taught first.

    A training is left out where it has fewer seeds or epochs than others on one of the data sets.
    """
    first: dict[str, dict[str, Row]] = {}
    for one in worthiest(cascades, "dataset"):
        first.setdefault(one["training"], {}).setdefault(one["dataset"], one)
    found = [[by_dataset[name] for name in datasets] for by_dataset in first.values() if {*datasets} <= {*by_dataset}]
    return sorted(found, key=lambda alike: (taught(alike[0]), len(alike[0]["training"])), reverse=True)


def worthiest(cascades: Sequence[Row], *keys: str) -> list[Row]:
    """Those that sum up what there is and, of all that have these keys in common, are most worth showing."""
    found = [one for one in cascades if sums_up(one)]
    best = {which: max(map(worth_showing, alike)) for which, alike in grouped(found, *keys).items()}
    return [one for one in found if worth_showing(one) == best[tuple(one[key] for key in keys)]]
