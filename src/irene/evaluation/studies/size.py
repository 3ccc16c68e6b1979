"""What more members buy: accuracy and utility against the size of the ensemble, for each way to make one (Fig. 4b)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from irene import metrics
from irene.bank import Bank
from irene.errors import RunError
from irene.evaluation.evaluate import Evaluation, check_same_samples
from irene.evaluation.experiment import Variant
from irene.evaluation.studies.study import Findings, Own, Study, about, check_alike, of_method
from irene.evaluation.table import Spread
from irene.evaluation.utility import REFERENCE_MEMBERS, prefix_accuracy
from irene.halting.policies import Confidence
from irene.pictures import COLOURS, INK, WIDTH, logarithmic, styled
from irene.run import Run
from irene.training.methods.woc import choose_threshold
from irene.types import Task

METHODS = ("average", "snapshot", "fge", "woc", "irene")
# Of a larger ensemble of these, the first members are the smaller ensemble, trained step for step the same.
NESTED = ("average", "fge", "woc")

LEAST = 1e-3  # of a utility in the picture: far below one, how far says nothing

Point = tuple[float, float]  # accuracy and cost


def variants(members: int, own: Own) -> list[Variant]:
    nested = [Variant(method=name, members=members, own=own.get(name)) for name in ("average", "fge")]
    each = [
        Variant(method=name, members=count, own=own.get(name))
        for name in ("snapshot", "irene")
        for count in range(2, members + 1)
    ]
    return nested + each


def check(task: Task, members: int) -> None:
    """Refuse what has no utility."""
    if task != "classification" or members < REFERENCE_MEMBERS:
        raise RunError(
            f"utility is measured against the accuracy of an average ensemble of at least {REFERENCE_MEMBERS} members, "
            f"got {task} with {members}: give classes and more members, or take the study members"
        )


def measure(runs: Sequence[Run]) -> Findings:
    """Accuracy, cost and utility of each method at each size, over seeds."""
    averages = of_method(runs, "average")
    others = {method: _of(runs, method) for method in METHODS if method not in ("average", "woc")}
    everything = [*averages, *chain.from_iterable(others.values())]
    check_same_samples(everything)
    check_alike([one.run for one in everything], but=("members",))
    check(averages[0].bank.task, min(one.bank.steps for one in averages))
    single, average = (
        Spread.of(prefix_accuracy(one, count) for one in averages).mean for count in (1, REFERENCE_MEMBERS)
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for method in METHODS:
        sizes: dict[int, list[Point]] = {}
        for one in others.get(method, averages):
            for count, point in _points(one, method):
                sizes.setdefault(count, []).append(point)
        found[method] = [_figures(count, sizes[count], single, average) for count in sorted(sizes)]
    return {**about(everything), "single": single, "average": average, "methods": found}


def _of(runs: Sequence[Run], method: str) -> list[Evaluation]:
    """The runs of a method, those with as many members of one kind; of nested ones the largest of each seed."""
    by_count: dict[int, list[Run]] = {}
    for run in runs:
        if run.method == method:
            by_count.setdefault(len(run.manifest["backbones"]), []).append(run)
    found = [one for count in sorted(by_count) for one in of_method(by_count[count], method)]
    return list({one.seed: one for one in found}.values()) if method in NESTED else found


def _points(one: Evaluation, method: str) -> Iterable[tuple[int, Point]]:
    """The sizes that a run tells about, with what it gives at each."""
    if method not in NESTED:
        yield one.bank.steps, (one.figures["accuracy"], one.figures["cost"])
        return
    for count in range(1, one.bank.steps + 1):
        bank = one.bank.members(range(count))
        if method == "woc":
            yield count, _stopped(bank, one.run.bank("heldout").members(range(count)))
        else:
            yield count, (prefix_accuracy(one, count), float(count))


def _stopped(bank: Bank, heldout: Bank) -> Point:
    """What the confidence cascade gives, with the threshold that `woc` would choose on the held-out samples."""
    threshold = choose_threshold(heldout.trajectory(Confidence()), heldout.targets)
    prediction = bank.replay(Confidence(threshold))
    return metrics.accuracy(prediction.outputs, bank.targets), float(prediction.cost.mean())


def _figures(count: int, points: Sequence[Point], single: float, average: float) -> dict[str, Any]:
    accuracy, cost = (Spread.of(values) for values in zip(*points, strict=True))
    return {
        "members": count,
        "accuracy": vars(accuracy),
        "cost": vars(cost),
        "utility": metrics.utility(accuracy.mean, cost.mean, single=single, average=average),
    }


@styled
def draw(found: Findings) -> Figure:
    """Accuracy and utility against the number of members."""
    figure = Figure(figsize=(WIDTH, 3.6))
    left, right = figure.subplots(1, 2)
    for index, (method, points) in enumerate(found["methods"].items()):
        if points:
            _draw_method(left, right, method, points, COLOURS[index], aside=0.06 * (index - 2))
    left.axhline(found["single"], color=INK, lw=0.8, alpha=0.5, ls=(0, (4, 3)), label="one model")
    left.set_ylabel("accuracy, ± deviation over seeds" if _has_spread(found) else "accuracy")
    left.yaxis.set_major_formatter(PercentFormatter(1.0))
    right.axhline(1, color=INK, lw=0.8, alpha=0.5, ls=(0, (4, 3)))
    right.set_ylabel(f"utility, log scale from {LEAST:g} or less")
    logarithmic(right)
    for axes in (left, right):
        axes.set_xlabel("members")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(*left.get_legend_handles_labels(), loc="outside right upper")
    return figure


def _has_spread(found: Findings) -> bool:
    return any(point["accuracy"]["spread"] is not None for points in found["methods"].values() for point in points)


def _draw_method(
    left: Axes, right: Axes, method: str, points: Sequence[dict[str, Any]], colour: str, *, aside: float
) -> None:
    count = [point["members"] for point in points]
    left.errorbar(
        [number + aside for number in count],
        [point["accuracy"]["mean"] for point in points],
        yerr=[point["accuracy"]["spread"] or 0.0 for point in points],
        fmt="-o",
        color=colour,
        ms=4,
        elinewidth=0.8,
        label=method,
    )
    utility = [math.nan if point["utility"] is None else max(point["utility"], LEAST) for point in points]
    right.plot(count, utility, "-o", ms=4, color=colour)


STUDY = Study(
    name="size",
    description="accuracy and utility against the size of the ensemble (Fig. 4b)",
    members=5,
    variants=variants,
    measure=measure,
    draw=draw,
    check=check,
)
