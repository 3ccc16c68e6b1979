"""What a run achieves on a split: its answers, replayed from the bank, and their figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from irene import metrics
from irene.bank import Bank
from irene.calibration.frontier import frontier
from irene.data import Data, Loader
from irene.data.evenly import evenly
from irene.errors import DataError, RunError
from irene.evaluation.banks import as_run_expects, unseen_samples
from irene.halting.policy import Stopper
from irene.run import Run
from irene.types import Prediction, Task

_BATCH = 1024
_MOST_POINTS = 200  # of a line in a picture


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """A run with its answers on one split, as it was trained or at an operating point, and the figures of them."""

    run: Run
    split: str
    point: str | None = None
    bank: Bank
    prediction: Prediction
    figures: dict[str, Any]

    @property
    def seed(self) -> int:
        """The seed that its run was trained with."""
        return int(self.run.manifest["seed"])

    @property
    def stops_early(self) -> bool:
        """Whether some sample was spared a member."""
        return bool(self.figures["cost"] < self.bank.steps)


@dataclass(frozen=True, kw_only=True)
class OnData:
    """The figures of a run on data that was read for it: on `all` of it, or on its `test` samples."""

    split: str
    samples: int
    figures: dict[str, Any]


def evaluate(run: Run, split: str = "test", *, point: str | None = None) -> Evaluation:
    """Replay a run's own policy, or one of its operating points, on the bank of a split; no model is run."""
    bank = run.bank(split)
    if point is None:
        prediction = bank.replay(run.policy(), run.aggregation)
    else:
        calibrated = run.point(point)
        bank = bank.members(calibrated.members)
        prediction = bank.replay(calibrated.policy, calibrated.aggregation)
    return Evaluation(
        run=run,
        split=split,
        point=point,
        bank=bank,
        prediction=prediction,
        figures=metrics.figures_of(prediction, bank.targets, bank.costs, run.gate_cost),
    )


def evaluate_on(
    run: Run,
    data: Data,
    device: torch.device | str = "cpu",
    *,
    point: str | None = None,
    test_only: bool = False,
    readers: int = 0,
) -> OnData:
    """The figures of a run on data that looks like what it was trained on.

    All samples count, or its test samples alone: where the run was trained or the point calibrated on the others, and
    with `test_only`. `readers` processes read samples that are not in memory, in place of this one.
    """
    predictor = run.predictor(device, point=point)
    data = as_run_expects(run, data)
    split, judged = ("test", (data.test,)) if test_only else unseen_samples(run, data, point)
    loaders = [Loader(part, batch_size=_BATCH, device=device, shuffle=False, readers=readers) for part in judged]
    parts = [predictor.predict(batch.inputs) for loader in loaders for batch in loader.epoch(0)]
    if not parts:
        raise DataError(f"{data.name} has no test samples to evaluate on: use data with a test part")
    targets = torch.cat([samples.targets for samples in judged])
    figures = metrics.figures_of(Prediction.cat(parts).cpu(), targets, predictor.costs, run.gate_cost)
    return OnData(split=split, samples=len(targets), figures=figures)


def quality_name(task: Task) -> str:
    """The figure that runs of a task are compared by."""
    return "accuracy" if task == "classification" else "rmse"


def frontier_points(evaluation: Evaluation, policy: Stopper | None = None) -> tuple[list[float], list[float]]:
    """Cost in members and quality at thresholds of a policy, from end to end: the run's own unless another is given."""
    run = evaluation.run
    curve = frontier(evaluation.bank, policy or run.policy(), run.aggregation)
    quality_M = curve.quality_M if run.task == "classification" else (-curve.quality_M).sqrt()
    kept = evenly(len(quality_M), _MOST_POINTS)
    return curve.cost_M[kept].tolist(), quality_M[kept].tolist()


def labels(evaluations: Sequence[Evaluation]) -> list[str]:
    """A short name for each run: its method, its folder where two have the same method, or else its path."""
    runs = [evaluation.run for evaluation in evaluations]
    methods = Counter(run.method for run in runs)
    names = [run.method if methods[run.method] == 1 else run.path.name for run in runs]
    shared = Counter(names)
    return [name if shared[name] == 1 else str(run.path) for name, run in zip(names, runs, strict=True)]


def same_data(one: Evaluation, other: Evaluation) -> bool:
    """Whether two runs are of one data set."""
    return bool(one.run.manifest["data"]["fingerprint"] == other.run.manifest["data"]["fingerprint"])


def same_samples(one: Evaluation, other: Evaluation) -> bool:
    """Whether two runs were evaluated on the very same samples, so that their figures can be compared."""
    return same_data(one, other) and torch.equal(one.bank.ids, other.bank.ids)


def check_same_samples(evaluations: Sequence[Evaluation]) -> None:
    """Refuse runs on different test samples; held-out ones differ by seed, and need only be of one data set."""
    first = evaluations[0]
    alike = same_samples if first.split == "test" else same_data
    for other in evaluations[1:]:
        if not alike(first, other):
            raise RunError(
                f"{first.run.path} and {other.run.path} were not evaluated on the same samples: "
                "compare runs of one data set"
            )


def reference(evaluations: Sequence[Evaluation], like: Evaluation) -> Evaluation | None:
    """The average ensemble on the samples `like` was evaluated on, if there is one: that of its seed before others."""
    fitting = [other for other in evaluations if other.run.method == "average" and same_samples(other, like)]
    same_seed = (other for other in fitting if other.seed == like.seed)
    return next(same_seed, fitting[0] if fitting else None)
