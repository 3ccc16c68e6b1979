"""The four things one can ask of a cascade, and the threshold on a frontier that gives each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from irene.calibration.frontier import Frontier
from irene.calibration.guarantees import last_passing, lowest_rate, mean_p_value, most_events
from irene.errors import CalibrationError, OptionError
from irene.halting.trajectory import nearest
from irene.numbers import share
from irene.point_words import possible, wanted
from irene.types import CostUnit, Task

SLOW_SHARE = 0.01  # a 99th percentile is kept when at most this share of samples takes longer
_COST_TOLERANCE = 0.01  # how far, of the asked cost, tied scores may keep the realised one away


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is asked for: exactly one of a mean cost, a drop, a 99th percentile of latency, or a risk.

    `cost`: this mean cost, in `unit`. With `guaranteed` the true mean cost is at most this, with `confidence`.
    `max_drop`: the cheapest threshold that loses at most this much of the whole ensemble's accuracy (0.005 is half
        a point) on the data at hand; for regression, that raises its squared error by at most this share.
    `p99`: the most accurate threshold at which at most 1 % of samples take longer than this many ms, with `confidence`;
        a sample takes as long as the costs of the bank say: `irene.measure_latency` gives them for one at a time.
    `risk`: the cheapest threshold at which the true share of samples that the whole ensemble gets right and the
        cascade gets wrong is at most this, with `confidence`.
    """

    cost: float | None = None
    max_drop: float | None = None
    p99: float | None = None
    risk: float | None = None
    unit: CostUnit = "members"
    confidence: float = 0.9
    guaranteed: bool = False

    def __post_init__(self) -> None:
        if len(self._given) != 1:
            found = ", ".join(self._given) or "none"
            raise OptionError(f"ask for exactly one of cost, max_drop, p99 and risk; got {found}")
        (value,) = self._given.values()
        for name, number in ((self.kind, value), ("confidence", self.confidence)):
            if not isinstance(number, Real) or not math.isfinite(number):
                raise OptionError(f"{name} must be a finite number, got {number!r}")
        if self.kind != "max_drop" and value <= 0:
            raise OptionError(f"{self.kind} must be above 0, got {value:g}")
        if self.risk is not None and self.risk >= 1:
            raise OptionError(f"risk is a share of samples, such as 0.005 for 0.5 %; got {self.risk:g}")
        if not 0 < self.confidence < 1:
            raise OptionError(f"confidence must lie between 0 and 1, such as 0.9 for 90 %; got {self.confidence:g}")
        if self.guaranteed and self.cost is None:
            raise OptionError(
                f"guaranteed is for cost, got {self.kind}: p99 and risk are always promises, and max_drop never is"
            )

    @property
    def _given(self) -> dict[str, float]:
        asked = {"cost": self.cost, "max_drop": self.max_drop, "p99": self.p99, "risk": self.risk}
        return {kind: value for kind, value in asked.items() if value is not None}

    @property
    def kind(self) -> str:
        return next(iter(self._given))

    @property
    def promises(self) -> bool:
        """Whether the answer must hold with a confidence, and not only on the data at hand."""
        return self.guaranteed or self.kind in ("p99", "risk")

    def check_task(self, task: Task) -> None:
        """Refuse what cannot be asked for in this task."""
        if task == "classification" and self.max_drop is not None and self.max_drop >= 1:
            raise OptionError(f"max_drop is a share of samples, such as 0.005 for half a point; got {self.max_drop:g}")
        if task == "regression" and self.kind not in ("cost", "max_drop"):
            raise OptionError(f"{self.kind} needs right and wrong answers: for regression ask for cost or max_drop")

    def to_dict(self) -> dict[str, Any]:
        given = {kind: float(value) for kind, value in self._given.items()}  # numpy's numbers are no JSON
        asked: dict[str, Any] = {**given, "unit": "ms" if self.p99 is not None else self.unit}
        if self.promises:
            asked["confidence"] = float(self.confidence)
        return asked | ({"guaranteed": True} if self.guaranteed else {})


def p99_of(ms_N: Tensor) -> float:
    """The 99th percentile of some times: all but 1 % of them are at most this."""
    return float(ms_N.sort().values[math.ceil((1 - SLOW_SHARE) * len(ms_N)) - 1])


def rounded_up(value: float) -> float:
    """The value rounded up to four digits, so that what an error calls possible is possible."""
    return float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(value)))


def can_cost(frontier: Frontier, asked: float) -> bool:
    """Whether some threshold has the asked mean cost, but for a hundredth of it and for what one sample is of it."""
    cost_M = frontier.cost_M
    finest = float(frontier.costs_NT.max() - frontier.costs_NT.min()) / len(frontier)
    return abs(float(cost_M[nearest(cost_M, asked)]) - asked) <= _COST_TOLERANCE * asked + finest


def threshold_for_cost(frontier: Frontier, asked: float, unit: CostUnit) -> int:
    """Index of the threshold whose mean cost is nearest to the one asked for."""
    cost_M = frontier.cost_M
    index = nearest(cost_M, asked)
    if not can_cost(frontier, asked):
        within = float(cost_M[0]) < asked < float(cost_M[-1])
        shared = f"too many of the {len(frontier)} samples share a score"
        reason = shared if within else f"{_span(frontier, unit)} {unit} can be reached"
        reason += _first_step(frontier) if float(frontier.costs_NT.min()) < asked < float(cost_M[-1]) else ""
        raise CalibrationError(
            f"a mean cost of {wanted(asked, unit)} cannot be met: {reason}; "
            f"the nearest possible is {possible(float(cost_M[index]), unit)}"
        )
    return index


def threshold_for_guaranteed_cost(frontier: Frontier, asked: float, confidence: float, unit: CostUnit) -> int:
    """Index of the dearest threshold whose true mean cost is at most the asked one, with this confidence."""
    low, high = float(frontier.costs_NT.min()), float(frontier.costs_NT.max())
    if asked >= high:
        return len(frontier.thresholds_M) - 1
    samples, delta = len(frontier), 1 - confidence
    lowest = low + (high - low) * lowest_rate(samples, delta)
    if asked < lowest:
        raise CalibrationError(
            f"a mean cost of {wanted(asked, unit)} cannot be promised with {share(confidence)} confidence from "
            f"{samples} samples: the nearest possible is {possible(rounded_up(lowest), unit)}, more samples bring it "
            f"toward {possible(low, unit)}"
        )
    means_M = (frontier.cost_M - low) / (high - low)
    passed_M = mean_p_value(means_M, samples, (asked - low) / (high - low)) <= delta
    index = last_passing(passed_M)
    if index < 0:
        raise CalibrationError(
            f"a mean cost of {wanted(asked, unit)} cannot be promised: the cheapest threshold of this policy costs "
            f"{possible(float(frontier.cost_M[0]), unit)} on these samples"
        )
    return index


def threshold_for_drop(frontier: Frontier, asked: float) -> int:
    """Index of the cheapest threshold that loses at most the asked drop on these samples."""
    good_M = frontier.drop_M <= asked + 1e-12
    if not bool(good_M.any()):
        raise CalibrationError(
            f"a drop of at most {share(asked)} cannot be met: the nearest possible is "
            f"{100 * float(frontier.drop_M.min()):.4g}%"
        )
    return int(good_M.to(torch.uint8).argmax())  # cost rises with the threshold


def threshold_for_risk(frontier: Frontier, asked: float, confidence: float) -> int:
    """Index of the cheapest threshold whose true risk is at most the asked one, with this confidence."""
    samples, delta = len(frontier), 1 - confidence
    allowed = most_events(samples, asked, delta)
    if allowed < 0:
        raise CalibrationError(
            f"a risk of {share(asked)} cannot be promised with {share(confidence)} confidence from {samples} samples: "
            f"the nearest possible is {rounded_up(100 * lowest_rate(samples, delta)):g}%"
        )
    harmed_NT = frontier.full_N[:, None] > frontier.quality_NT
    passed_M = frontier.count(harmed_NT) <= allowed
    index = len(passed_M) - 1 - last_passing(passed_M.flip(0))  # the safest threshold is the highest
    if index == len(passed_M):
        raise CalibrationError(
            f"a risk of {share(asked)} cannot be promised: at every threshold samples with an infinite score stop "
            "early and wrong; let the policy give finite scores"
        )
    return index


def thresholds_for_latency(frontier: Frontier, ms_NT: Tensor, asked: float, confidence: float) -> Tensor:
    """(M,) which thresholds keep all but 1 % of samples within the asked ms, with this confidence."""
    late_NT = ms_NT > asked
    if not bool(late_NT.any()):  # certain, whatever the samples
        return torch.ones_like(frontier.thresholds_M, dtype=torch.bool)
    passed_M = frontier.count(late_NT) <= most_events(len(frontier), SLOW_SHARE, 1 - confidence)
    return passed_M.to(torch.int64).cumprod(0).to(torch.bool)


def _first_step(frontier: Frontier) -> str:
    """Words for an error where all samples have the same score after the first member; else none."""
    first_N = frontier.trajectory.scores_NT[:, 0]
    if not bool((first_N == first_N[0]).all()):
        return ""
    alike = ", as all samples have the same score after the first member"
    if frontier.trajectory.task == "classification":
        return alike
    return f"{alike} (in regression one with a single head has nothing to compare: give it two heads)"


def _span(frontier: Frontier, unit: CostUnit) -> str:
    least, most = (possible(float(cost), unit) for cost in frontier.cost_M[[0, -1]])
    return f"only {most}" if least == most else f"{least} to {most}"
