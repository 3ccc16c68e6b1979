"""The table of a comparison: every method's figures over its seeds, and what it gains on a reference."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from irene import metrics
from irene.errors import OptionError, RunError
from irene.evaluation import evaluate
from irene.evaluation.evaluate import Evaluation
from irene.evaluation.facts import flatten
from irene.evaluation.utility import utility
from irene.halting.quality import quality
from irene.run import Run
from irene.types import Task

FIGURES: dict[Task, tuple[str, ...]] = {
    "classification": ("accuracy", "cost", "flops", "ms", "nll", "ece"),
    "regression": ("rmse", "mae", "r2", "cost", "flops", "ms"),
}
# What the files say beyond what is shown: top-5 where there are five classes, AUROC of error detection and so on.
MORE: dict[Task, tuple[str, ...]] = {"classification": ("top5", "brier", "error_auroc"), "regression": ("mse",)}
HIGHER_IS_BETTER = frozenset({"accuracy", "r2", "utility"})
UNRANKED = frozenset({"ms"})  # timed once a run, often while others train beside it: runs differ by chance


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A figure over seeds: its mean, its standard deviation (NaN for one seed) and the values.

    Where the figure is not known for some seed, such as the AUROC of errors without an error or FLOPs that were not
    measured, mean and spread are NaN.
    """

    mean: float
    spread: float
    by_seed: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        found = tuple(values)
        mean = statistics.fmean(found)
        spread = statistics.stdev(found) if len(found) > 1 and not math.isnan(mean) else math.nan
        return cls(mean=mean, spread=spread, by_seed=found)


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Accuracy won on the reference, or squared error saved as a share of the reference's; with a 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method, with one kind of options, over the seeds there are runs of."""

    name: str
    method: str
    members: int
    seeds: tuple[int, ...]
    runs: tuple[str, ...]
    figures: dict[str, Spread]
    used: tuple[float, ...]  # share of samples that used 1, 2, ... members, averaged over seeds
    utility: float  # of the mean accuracy at the mean cost; NaN where it is not defined
    gain: Gain | None  # None for the reference itself, and where that has no error of which a share could be saved


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows to be compared, with the best of each column."""

    data: str
    task: Task
    split: str
    samples: int
    reference: str  # the name of the row that the others are compared with
    rows: list[Row]

    def best(self, figure: str) -> set[str]:
        """The names of the rows that are best in a figure; equal ones are all best, and in ms none is."""
        if figure in UNRANKED:
            return set()
        values = {row.name: row.utility if figure == "utility" else row.figures[figure].mean for row in self.rows}
        values = {name: value for name, value in values.items() if not math.isnan(value)}
        choose = max if figure in HIGHER_IS_BETTER else min
        return {name for name, value in values.items() if math.isclose(value, choose(values.values()), rel_tol=1e-12)}

    @property
    def columns(self) -> tuple[str, ...]:
        """The figures shown: utility among them where some row has one."""
        some = any(not math.isnan(row.utility) for row in self.rows)
        return (*FIGURES[self.task], *("utility",) * some)


def refuse_twice(runs: Sequence[Run]) -> None:
    """Refuse a run that is given twice, by whatever path: it would count as another one."""
    known: set[Path] = set()
    for run in runs:
        if run.path.resolve() in known:
            raise OptionError(f"{run.path} is given twice: name each run once")
        known.add(run.path.resolve())


def make_table(runs: Sequence[Run], *, points: Sequence[str] = (), reference: str | None = None) -> Table:
    """Compare runs on the same test samples; runs that differ in their seed alone make one row.

    Runs that have operating points of the names in `points` get a row more for each. The reference is a row or a
    method; by default the average ensemble or, without one, the first row.
    """
    if not runs:
        raise RunError("there is nothing to compare: give at least one run")
    refuse_twice(runs)
    for point in points:
        if not any(point in run.points for run in runs):
            raise OptionError(f"none of the runs has an operating point {point!r}: make it with `irene calibrate`")
    evaluations = [
        evaluate.evaluate(run, point=point)
        for point in (None, *points)
        for run in runs
        if point is None or point in run.points
    ]
    evaluate.check_same_samples(evaluations)
    first = evaluations[0]
    groups = group(evaluations)
    wanted = reference or "average"
    against = next((name for name, ones in groups.items() if wanted in (name, ones[0].run.method)), None)
    if against is None and reference is not None:
        raise OptionError(f"no run is of the reference {reference!r} (there are: {', '.join(groups)})")
    against = against or next(iter(groups))
    kinds = (groups[against], *groups.values())
    rows = [_row(name, ones, None if name == against else groups[against], kinds) for name, ones in groups.items()]
    return Table(
        data=first.run.manifest["data"]["data"],
        task=first.bank.task,
        split=first.split,
        samples=len(first.bank),
        reference=against,
        rows=rows,
    )


def group(evaluations: Sequence[Evaluation]) -> dict[str, list[Evaluation]]:
    """Evaluations by what was trained, whatever the seed; named by the method and, if need be, how it differs.

    Those at an operating point are apart from the others. Two of one kind with one seed are an error.
    """
    found: dict[tuple[str, str | None], list[Evaluation]] = {}
    for one in evaluations:
        about = one.run.manifest
        key = json.dumps([about["method"], about["backbones"], about["options"], _heldout(one.run)], sort_keys=True)
        ones = found.setdefault((key, one.point), [])
        twin = next((other for other in ones if other.seed == one.seed), None)
        if twin is not None:
            raise RunError(
                f"{twin.run.path} and {one.run.path} are of one kind and one seed, {one.seed}, and would count as "
                "two seeds: leave one of them out"
            )
        ones.append(one)
    named: dict[str, list[Evaluation]] = {}
    for name, ones in zip(_names([ones[0].run for ones in found.values()]), found.values(), strict=True):
        name += "" if ones[0].point is None else f" at {ones[0].point}"
        other = named.setdefault(name, ones)
        if other is not ones:
            paths = f"{other[0].run.path} and {ones[0].run.path}"
            raise RunError(f"{paths} differ and would both be called {name!r}: compare them one at a time")
    return named


def _names(runs: Sequence[Run]) -> list[str]:
    """The method of each run, with the options in which runs of that method differ."""
    names = []
    for run in runs:
        like = [settings(other) for other in runs if other.method == run.method]
        mine = settings(run)
        differ = [key for key in mine if any(other.get(key) != mine[key] for other in like)]
        names.append(" ".join([run.method, *(f"{key.removeprefix('method.')}={mine[key]}" for key in differ)]))
    return names


def settings(run: Run) -> dict[str, str]:
    """What decides how its members are trained, but for the method and the seed, as text."""
    backbones = run.manifest["backbones"]
    kinds = backbones if len(set(backbones)) > 1 else backbones[:1]
    known = {"members": str(len(backbones)), "backbones": "+".join(kinds), "heldout": str(_heldout(run))}
    return known | flatten(run.manifest["options"])


def _heldout(run: Run) -> int:
    """How many samples its members did not see."""
    return int(run.manifest["data"]["sizes"].get("heldout", 0))


def _row(
    name: str,
    ones: Sequence[Evaluation],
    against: Sequence[Evaluation] | None,
    kinds: Sequence[Sequence[Evaluation]],
) -> Row:
    task = ones[0].bank.task
    known = [figure for figure in (*FIGURES[task], *MORE[task]) if figure in ones[0].figures]
    return Row(
        name=name,
        method=ones[0].run.method,
        members=max(one.bank.steps for one in ones),
        seeds=tuple(one.seed for one in ones),
        runs=tuple(str(one.run.path) for one in ones),
        figures={figure: Spread.of(one.figures[figure] for one in ones) for figure in known},
        used=tuple(map(statistics.fmean, zip_longest(*(one.figures["used"] for one in ones), fillvalue=0.0))),
        utility=utility(ones, kinds),
        gain=None if against is None else gain(ones, against),
    )


def gain(ones: Sequence[Evaluation], others: Sequence[Evaluation]) -> Gain | None:
    """What some runs gain on others, by a bootstrap over samples, each averaged over the seeds that both have.

    None for regression where the others have no error: there is nothing to save a share of.
    """
    common = {one.seed for one in ones} & {one.seed for one in others}
    mine_N, theirs_N = (_quality([one for one in side if not common or one.seed in common]) for side in (ones, others))
    if ones[0].bank.task == "classification":
        mean, low, high = metrics.paired_bootstrap(mine_N, theirs_N)
        return Gain(mean=mean, low=low, high=high)
    # What the share is taken of is a mean of these samples too: its chance counts, to first order (delta method).
    whole = float(-theirs_N.mean())
    if whole == 0:
        return None
    share = float((mine_N - theirs_N).mean()) / whole
    _, low, high = metrics.paired_bootstrap(mine_N, (1 - share) * theirs_N)
    return Gain(mean=share, low=share + low / whole, high=share + high / whole)


def _quality(ones: Sequence[Evaluation]) -> Tensor:
    """(N,) right or wrong, or minus the squared error, averaged over runs."""
    return torch.stack(
        [quality(one.prediction.outputs[:, None], one.bank.targets, one.bank.task)[:, 0] for one in ones]
    ).mean(0)


def as_dict(table: Table) -> dict[str, Any]:
    """The table as JSON values."""
    return {
        "data": table.data,
        "task": table.task,
        "split": table.split,
        "samples": table.samples,
        "reference": table.reference,
        "rows": [
            {
                "name": row.name,
                "method": row.method,
                "members": row.members,
                "seeds": list(row.seeds),
                "runs": list(row.runs),
                **{name: vars(value) for name, value in row.figures.items()},
                "used": list(row.used),
                "utility": row.utility,
                "gain": None if row.gain is None else vars(row.gain),
                "best": [figure for figure in table.columns if row.name in table.best(figure)],
            }
            for row in table.rows
        ],
    }
