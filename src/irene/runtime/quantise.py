"""Cascades in 8-bit integers: members quantised, thresholds set again on what they answer now, the loss told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from irene.bank import Bank
from irene.calibration.fit import fit_policy
from irene.calibration.selection import Fitter, learns
from irene.calibration.targets import Target
from irene.cascade import Cascade
from irene.errors import CalibrationError
from irene.halting.policies import Never
from irene.halting.policy import Policy
from irene.halting.quality import quality
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.models.adapters import as_batch
from irene.point import TRAINED, OperatingPoint
from irene.runtime.backend import Backend, backend_class
from irene.types import Prediction, Task

MAX_LOSS = 0.01


@dataclass(frozen=True, kw_only=True)
class Change:
    """Answers of one cascade before and after, on held-out samples.

    No member was trained on them, but they set ranges and thresholds: on new samples the loss may be a little larger.
    """

    figure: str  # accuracy, or mse for regression
    before: float
    after: float
    loss: float  # accuracy lost; for regression the relative growth of the squared error
    agreement: float | None  # share of samples with the same label; None for regression
    cost_before: float  # mean members
    cost_after: float

    def check(self, most: float, what: str) -> None:
        """Refuse a loss above the limit."""
        if self.loss > most + 1e-12:
            raise CalibrationError(
                f"int8 costs {what} {self.loss:.2%} of its {self.figure} on held-out samples (from {self.before:.4g} "
                f"to {self.after:.4g}) and at most {most:.2%} was allowed: allow more, or stay with fp32"
            )


def change(before: Prediction, after: Prediction, targets: Tensor) -> Change:
    """What became of the answers to the same samples."""
    task = before.task
    was, now = (float(quality(one.outputs[:, None], targets, task).mean()) for one in (before, after))
    if task == "classification":
        figure, loss = "accuracy", was - now
        agreement = float((before.labels == after.labels).double().mean())
    else:
        figure, was, now, agreement = "mse", -was, -now, None
        loss = now / max(was, torch.finfo(torch.float64).tiny) - 1
    return Change(
        figure=figure,
        before=was,
        after=now,
        loss=loss,
        agreement=agreement,
        cost_before=float(before.cost.mean()),
        cost_after=float(after.cost.mean()),
    )


def as_trained(policy: Policy, aggregation: Aggregation, task: Task) -> OperatingPoint:
    """The way a cascade stops as an operating point of which nothing was asked."""
    return OperatingPoint(
        name=TRAINED,
        task=task,
        policy=policy,
        aggregation=aggregation,
        members=tuple(range(len(aggregation.weights))),
        asked={},
        expected={},
        data={},
        why=f"{policy.name}: as the run was trained",
        scores=torch.empty(0),
    )


def recalibrate(point: OperatingPoint, before: Bank, after: Bank) -> OperatingPoint:
    """The point with a threshold that gives on the outputs after quantisation what was asked of it before.

    Where nothing was asked, that is the mean number of members it ran before. Costs are those that the point was
    calibrated with. What the policy has learned stays, unless what was asked needs samples it has not learned from:
    then it learns again, from a part of the samples.
    """
    chosen = list(point.members)
    if isinstance(point.policy, Never) or len(chosen) == 1:
        return point
    asked: Mapping[str, Any] = point.asked
    if not asked:
        ran = replay(point, before)
        asked = {"cost": float(ran.cost_in(before.members(chosen).costs, "members").mean()), "unit": "members"}
    try:
        found = fit_policy(
            after.members(chosen),
            _as_asked(point.policy, Target(**asked)),
            aggregation=point.aggregation,
            name=point.name,
            **asked,
        )
    except CalibrationError as error:
        raise CalibrationError(f"operating point {point.name} with int8 members: {error}") from error
    return replace(
        found,
        asked=point.asked,
        members=tuple(chosen[i] for i in found.members),
        why=f"{point.why}; threshold set again on int8 outputs",
        version=point.version,
    )


def _as_asked(policy: Policy, target: Target) -> Policy | str | Fitter:
    """The policy as `fit_policy` must get it, so that what needs fresh samples is judged on such."""
    if target.promises and isinstance(policy, Selector):
        raise CalibrationError("its selector was fitted on the very samples that a promise needs: use another policy")
    if learns(policy.name) and (target.promises or target.max_drop is not None):
        return policy.name
    return (lambda bank, aggregation, unit: policy) if target.promises else policy


def replay(point: OperatingPoint, bank: Bank) -> Prediction:
    """What the cascade at a point would have answered, from a bank of all members."""
    return bank.members(point.members).replay(point.policy, point.aggregation)


@dataclass(frozen=True, kw_only=True)
class Quantised:
    """A cascade of quantised members, ready for `Cascade.predict` or, with its backends, for an engine."""

    cascade: Cascade
    backends: tuple[Backend, ...]
    whole: Change  # of the whole ensemble
    stopping: Change  # of the cascade that stops, at the threshold set again


def quantise(
    cascade: Cascade,
    inputs: Tensor | NDArray[Any],
    targets: Tensor | NDArray[Any],
    *,
    backend: str = "onnx",
    asked: Mapping[str, Any] | None = None,
    max_loss: float = MAX_LOSS,
) -> Quantised:
    """A cascade in 8-bit integers, calibrated on labelled samples that no member was trained on.

        fast = quantise(cascade, heldout_inputs, heldout_labels)
        engine = Engine(fast.cascade, heldout_inputs[:1], backends=fast.backends)

    `asked` is what the threshold was set for, as `fit_policy` takes it, such as {"cost": 1.3}; by default the mean
    number of members stays. A loss above `max_loss` is an error.
    """
    rows = as_batch(inputs)
    kind = backend_class(backend)
    backends = tuple(kind.load(member, rows, precision="int8") for member in cascade.members)
    before = Bank.of(cascade, rows, targets)
    after = Bank.of(Cascade([one.run for one in backends], costs=cascade.costs, task=cascade.task), rows, targets)
    own = as_trained(cascade.rule.policy, cascade.rule.aggregation, cascade.task)
    own = replace(own, asked=dict(asked or {}))
    whole = change(before.replay(None, own.aggregation), after.replay(None, own.aggregation), before.targets)
    whole.check(max_loss, "the whole ensemble")
    point = recalibrate(own, before, after)
    stopping = change(replay(own, before), replay(point, after), before.targets)
    stopping.check(max_loss, "the cascade")
    return Quantised(
        cascade=point.cascade([one.run for one in backends], cascade.costs),
        backends=tuple(backends[i] for i in point.members),
        whole=whole,
        stopping=stopping,
    )
