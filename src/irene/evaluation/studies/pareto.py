"""What every policy gives at every cost, with thresholds set on held-out samples (Fig. 4a)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from torch import Tensor

from irene import metrics
from irene.bank import Bank
from irene.calibration.frontier import frontier
from irene.calibration.selection import fit_named
from irene.calibration.weights import fit_aggregation
from irene.errors import RunError
from irene.evaluation.evaluate import Evaluation, check_same_samples
from irene.evaluation.experiment import Variant
from irene.evaluation.studies.members import prefix_quality
from irene.evaluation.studies.study import Findings, Own, Study, about, check_alike, of_method
from irene.halting.policy import Stopper
from irene.halting.rule import Aggregation
from irene.pictures import COLOURS, INK, WIDTH, styled
from irene.run import Run
from irene.types import Task

LEVELS = 13
EVERY = 4  # of the costs, one shows the interval of a line
IRENE, PREFIX = "IRENE", "first members"
# What stops the members of the average ensemble: a policy, and whether each member gets a temperature.
POLICIES: dict[Task, dict[str, tuple[str, bool]]] = {
    "classification": {
        "confidence (WoC)": ("confidence", False),
        "margin, temperature": ("margin", True),
        "change predictor": ("change", True),
    },
    "regression": {"spread": ("spread", False), "cost to go": ("cost-to-go", False)},
}


@dataclass(frozen=True)
class Point:
    """One policy at one threshold on the test samples, averaged over runs."""

    asked: float
    cost: float
    quality_N: Tensor


def variants(members: int, own: Own) -> list[Variant]:
    return [Variant(method=name, members=members, own=own.get(name)) for name in ("average", "irene")]


def check(task: Task, members: int) -> None:
    """Refuse what has one cost only."""
    if members < 2:
        raise RunError(f"costs differ where members may be left out, got {members} member: give two or more")


def measure(runs: Sequence[Run]) -> Findings:
    """Quality at each mean cost that is asked for, with bootstrap intervals, and the gain on the plainest policy."""
    averages, irenes = (of_method(runs, method) for method in ("average", "irene"))
    check_same_samples([*averages, *irenes])
    check_alike([one.run for one in (*averages, *irenes)])
    task = averages[0].bank.task
    steps = averages[0].bank.steps
    check(task, steps)
    asked = (1 + (steps - 1) * torch.linspace(0, 1, LEVELS, dtype=torch.float64).square()).tolist()
    curves = {IRENE: _curve(irenes, asked, lambda run, heldout: (run.policy(), run.aggregation))}
    for name, (policy, temperature) in POLICIES[task].items():
        curves[name] = _curve(averages, asked, _fitted(policy, temperature))
    plainest = curves[next(iter(POLICIES[task]))]
    prefix_NT = torch.stack([prefix_quality(one.bank) for one in averages]).mean(0)
    return {
        **about([*averages, *irenes]),
        "plainest": next(iter(POLICIES[task])),
        "curves": {
            name: [_figures(point, other, task) for point, other in zip(curve, plainest, strict=True)]
            for name, curve in curves.items()
        },
        PREFIX: [_figures(Point(t + 1.0, t + 1.0, prefix_NT[:, t]), None, task) for t in range(steps)],
    }


Fit = Callable[[Run, Bank], tuple[Stopper, Aggregation]]


def _fitted(name: str, temperature: bool) -> Fit:
    def fit(run: Run, heldout: Bank) -> tuple[Stopper, Aggregation]:
        aggregation = fit_aggregation(heldout, temperature=temperature)
        return fit_named(name, heldout, aggregation, "members"), aggregation

    return fit


def _curve(evaluations: Sequence[Evaluation], asked: Sequence[float], fit: Fit) -> list[Point]:
    """A policy at the thresholds that cost so much on held-out samples, over the runs of a method."""
    by_run = []
    for one in evaluations:
        heldout = one.run.bank("heldout")
        policy, aggregation = fit(one.run, heldout)
        known, seen = (frontier(bank, policy, aggregation) for bank in (heldout, one.bank))
        thresholds = [known.threshold_for(cost) for cost in asked]
        by_run.append(
            [(float(seen.at(value, seen.costs_NT).mean()), seen.at(value, seen.quality_NT)) for value in thresholds]
        )
    return [
        Point(cost, sum(run[0] for run in level) / len(level), torch.stack([run[1] for run in level]).mean(0))
        for cost, level in zip(asked, zip(*by_run, strict=True), strict=True)
    ]


def _figures(point: Point, other: Point | None, task: Task) -> dict[str, Any]:
    """A point as JSON values; for regression quality is the root mean squared error."""
    values = metrics.paired_bootstrap(point.quality_N, torch.zeros_like(point.quality_N))
    mean, low, high = values if task == "classification" else ((-value) ** 0.5 for value in (values[0], *values[:0:-1]))
    found: dict[str, Any] = {"asked": point.asked, "cost": point.cost, "quality": mean, "low": low, "high": high}
    if other is not None:
        gained = metrics.paired_bootstrap(point.quality_N, other.quality_N)
        found["gain"] = dict(zip(("mean", "low", "high"), gained, strict=True))
    return found


@styled
def draw(found: Findings) -> Figure:
    """Quality against cost, and below it what each policy gains on the plainest one at the same asked cost."""
    figure = Figure(figsize=(WIDTH, 5.4))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[1.7, 1])
    classes = found["task"] == "classification"
    for index, (name, points) in enumerate(found["curves"].items()):
        colour = COLOURS[index]
        _line(upper, points, name, colour, index)
        if name != found["plainest"]:
            _gains(lower, points, colour, 100.0 if classes else 1.0)
    whole = found[PREFIX]
    upper.errorbar(
        [point["cost"] for point in whole],
        [point["quality"] for point in whole],
        yerr=[[abs(point["quality"] - point[end]) for point in whole] for end in ("low", "high")],
        fmt="s",
        color=INK,
        ms=4.5,
        elinewidth=0.8,
        alpha=0.75,
        label="first members, no policy",
    )
    upper.set_ylabel(f"{'accuracy' if classes else 'RMSE'}, 95 % intervals")
    if classes:
        upper.yaxis.set_major_formatter(PercentFormatter(1.0))
    lower.axhline(0, color=INK, lw=0.8, alpha=0.5)
    _cheap_end_first(lower, whole[-1]["cost"])
    lower.set_xlabel("mean cost, members a sample")
    lower.set_ylabel(f"{'points' if classes else 'squared error saved'}\nagainst {found['plainest'].split()[0]}, 95 %")
    figure.legend(loc="outside right upper")
    return figure


def _cheap_end_first(axes: Axes, most: float) -> None:
    """Costs by the root of what exceeds one member, as policies differ where little more than one is run."""
    axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x - 1, 0)), lambda y: 1 + np.square(y)))
    ticks = [tick for tick in (1, 1.02, 1.1, 1.25, 1.5, 2, *range(3, 50)) if tick <= most]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(1, most)


def _line(axes: Axes, points: Sequence[dict[str, Any]], name: str, colour: str, order: int) -> None:
    """A line with intervals, each line's at other costs, as they would hide each other."""
    cost, quality = ([point[key] for point in points] for key in ("cost", "quality"))
    axes.errorbar(
        cost,
        quality,
        yerr=[[abs(point["quality"] - point[end]) for point in points] for end in ("low", "high")],
        errorevery=(order + 1, EVERY),
        color=colour,
        marker="o",
        ms=3.5,
        elinewidth=1.2,
        label=name,
        zorder=4 - order / 10,
        clip_on=False,
    )


def _gains(axes: Axes, points: Sequence[dict[str, Any]], colour: str, unit: float) -> None:
    cost = [point["cost"] for point in points]
    mean, low, high = ([unit * point["gain"][key] for point in points] for key in ("mean", "low", "high"))
    axes.plot(cost, mean, color=colour, marker="o", ms=3.5, clip_on=False)
    axes.fill_between(cost, low, high, color=colour, alpha=0.12, lw=0)


STUDY = Study(
    name="pareto",
    description="accuracy against cost of IRENE and of policies on the average ensemble (Fig. 4a)",
    members=3,
    variants=variants,
    measure=measure,
    draw=draw,
    check=check,
)
