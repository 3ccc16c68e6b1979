"""The one step of members in order: aggregate the new member's output, score it, decide which samples stop.

The plain loop, the replay of a bank and the engines all call `Rule.step`; the exported loader repeats it in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from irene.errors import OptionError
from irene.halting.policy import Policy, State, Step, Stopper, check_stopper
from irene.types import Task, check_width, not_finite


@dataclass(frozen=True)
class Aggregation:
    """How members are averaged: a weight each, and a temperature that divides its logits first."""

    weights: tuple[float, ...]
    temperatures: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.temperatures) or not self.weights:
            raise OptionError(
                f"aggregation needs one weight and one temperature a member, "
                f"got {len(self.weights)} weights and {len(self.temperatures)} temperatures"
            )
        if not all(0 < temperature < math.inf for temperature in self.temperatures):
            raise OptionError(f"temperatures must be above 0 and finite, got {self.temperatures}")
        if not (self.weights[0] > 0 and all(0 <= weight < math.inf for weight in self.weights)):
            raise OptionError(f"weights must be finite, the first above 0 and others at least 0, got {self.weights}")

    @classmethod
    def equal(cls, members: int) -> Aggregation:
        """The plain mean of the members used (Eq. 7)."""
        return cls((1.0,) * members, (1.0,) * members)

    def members(self, order: Iterable[int]) -> Aggregation:
        """The aggregation of some of the members, in this order."""
        columns = list(order)
        return Aggregation(tuple(self.weights[i] for i in columns), tuple(self.temperatures[i] for i in columns))

    def observe(self, t: int, output_BHK: Tensor, sum_BK: Tensor, task: Task) -> tuple[Step, Tensor]:
        """Add the raw output of member t (counted from 0) to the weighted sum; what a policy sees, and the new sum."""
        heads_BHK = output_BHK.float()
        if task == "classification":
            heads_BHK = torch.softmax(heads_BHK / self.temperatures[t], dim=2)
        sum_BK = sum_BK + self.weights[t] * heads_BHK[:, 0]
        mean_BK = sum_BK / sum(self.weights[: t + 1])
        return Step(t, len(self.weights), task, heads_BHK, mean_BK), sum_BK

    def to_dict(self) -> dict[str, Any]:
        return {"weights": list(self.weights), "temperatures": list(self.temperatures)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Aggregation:
        return cls(tuple(values["weights"]), tuple(values["temperatures"]))


def sound_scores(score_B: Tensor, mean_BK: Tensor) -> Tensor:
    """The scores, minus infinity where a score or the answer so far is not a finite number: these do not stop early.

    So a trace is NaN where a member was not run, and nowhere else.
    """
    return score_B.masked_fill(not_finite(mean_BK) | score_B.isnan(), -torch.inf)


@dataclass(frozen=True)
class Outcome:
    """What one step decided."""

    mean_BK: Tensor  # the ensemble's answer so far
    score_B: Tensor  # the policy's halting score, never NaN
    halt_B: Tensor  # which samples stop here; at the last step, all of them


@dataclass(frozen=True)
class Rule:
    """A policy, an aggregation and the task: all that decides when a sample stops, where members run in order."""

    policy: Policy
    aggregation: Aggregation
    task: Task

    @classmethod
    def of(cls, stopper: Stopper, aggregation: Aggregation, task: Task) -> Rule:
        """The rule of a policy; a router, which knows no fixed order of members, is refused."""
        check_stopper(stopper)
        if not isinstance(stopper, Policy):
            raise OptionError(
                f"the {stopper.name} policy chooses the next member of each sample, so it cannot run members in a "
                "fixed order: use Cascade.predict, or replay it on a bank"
            )
        return cls(stopper, aggregation, task)

    @property
    def steps(self) -> int:
        return len(self.aggregation.weights)

    def start(self, batch: int, outputs: int, device: torch.device) -> State:
        """The memory of `batch` samples before the first member runs."""
        check_width(outputs, self.task)
        state = self.policy.start(batch, self.steps, device)
        return {**state, "sum": torch.zeros(batch, outputs, device=device)}

    def step(self, t: int, output_BHK: Tensor, state: State) -> tuple[Outcome, State]:
        """Take in the raw output of member t (counted from 0) for the samples still running."""
        outputs, expected = output_BHK.shape[2], state["sum"].shape[1]
        if outputs != expected:
            raise OptionError(f"member {t + 1} gave {outputs} outputs a sample and the first one {expected}")
        rows, samples = len(output_BHK), len(state["sum"])
        if rows != samples:
            raise OptionError(f"member {t + 1} gave {rows} rows for {samples} samples: return one for each")
        policy_state = {key: value for key, value in state.items() if key != "sum"}
        seen, sum_BK = self.aggregation.observe(t, output_BHK, state["sum"], self.task)
        score_B, policy_state = self.policy.score(seen, policy_state)
        score_B = sound_scores(score_B, seen.mean_BK)
        halt_B = score_B >= self.policy.threshold
        if t + 1 == self.steps:
            halt_B = torch.ones_like(halt_B)
        return Outcome(seen.mean_BK, score_B, halt_B), {**policy_state, "sum": sum_BK}
