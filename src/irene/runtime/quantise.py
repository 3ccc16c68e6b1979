"""Cascades in 8-bit integers: members quantised, thresholds set again on what they answer now, the loss told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from numpy.typing import NDArray
from torch import Tensor

from irene.bank import Bank
from irene.calibration.wishes import Wish
from irene.cascade import Cascade
from irene.errors import CalibrationError, OptionError
from irene.halting.quality import drop, quality
from irene.models.adapters import as_batch
from irene.runtime.backend import Backend, backend_class
from irene.runtime.recalibrate import as_trained, recalibrate, replay
from irene.types import Prediction

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

    def check(self, most: float, what: str) -> Self:
        """Refuse a loss above the limit."""
        if self.loss > most + 1e-12:
            raise CalibrationError(
                f"int8 costs {what} {self.loss:.2%} of its {self.figure} on held-out samples (from {self.before:.4g} "
                f"to {self.after:.4g}) and at most {most:.2%} was allowed: allow more, or stay with fp32"
            )
        return self


def change(before: Prediction, after: Prediction, targets: Tensor) -> Change:
    """Compare the answers to the same samples before and after."""
    task = before.task
    was, now = (quality(one.outputs[:, None], targets, task).mean() for one in (before, after))
    loss = float(drop(was - now, was, task))
    if task == "classification":
        figure, agreement = "accuracy", float((before.labels == after.labels).double().mean())
    else:
        figure, was, now, agreement = "mse", -was, -now, None
    return Change(
        figure=figure,
        before=float(was),
        after=float(now),
        loss=loss,
        agreement=agreement,
        cost_before=float(before.cost.mean()),
        cost_after=float(after.cost.mean()),
    )


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
    number of members stays. A loss above `max_loss` is an error, and so is a promise of a policy that has learned: it
    may have learned from these very samples.
    """
    unknown = set(asked or ()) - {known.name for known in fields(Wish)}
    if unknown:
        raise OptionError(f"asked holds what fit_policy takes, such as cost, max_drop or risk, got {sorted(unknown)}")
    rows = as_batch(inputs)
    kind = backend_class(backend)
    backends = tuple(kind.load(member, rows, precision="int8") for member in cascade.members)
    before = Bank.of(cascade, rows, targets)
    after = Bank.of(Cascade([one.run for one in backends], costs=cascade.costs, task=cascade.task), rows, targets)
    own = as_trained(cascade.policy, cascade.aggregation, cascade.task)
    own = replace(own, asked=dict(asked or {}))
    whole = change(before.replay(None, own.aggregation), after.replay(None, own.aggregation), before.targets)
    whole.check(max_loss, "the whole ensemble")
    point = recalibrate(own, before, after)
    return Quantised(
        cascade=point.cascade([one.run for one in backends], cascade.costs),
        backends=tuple(backends[i] for i in point.members),
        whole=whole,
        stopping=change(replay(own, before), replay(point, after), before.targets).check(max_loss, "the cascade"),
    )
