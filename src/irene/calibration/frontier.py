"""The frontier: what every threshold of a policy costs, and how good it is, on the samples of a bank."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from irene.bank import Bank
from irene.halting.policies import Never
from irene.halting.policy import Stopper
from irene.halting.quality import drop, quality
from irene.halting.rule import Aggregation
from irene.halting.trajectory import Trajectory, nearest
from irene.types import CostUnit, cost_vector


@dataclass(frozen=True)
class Frontier:
    """Cost and quality of N samples at every step and, averaged, at each of M thresholds; these and costs ascend."""

    trajectory: Trajectory
    costs_NT: Tensor  # what a sample has cost when it stops at each step
    quality_NT: Tensor  # right or wrong, or minus the squared error
    full_N: Tensor  # quality of the whole ensemble's answer, what a drop is measured from

    def __len__(self) -> int:
        return len(self.costs_NT)

    @cached_property
    def thresholds_M(self) -> Tensor:
        return self.trajectory.cuts()

    @cached_property
    def cost_M(self) -> Tensor:
        return self.mean(self.costs_NT)

    @cached_property
    def quality_M(self) -> Tensor:
        return self.mean(self.quality_NT)

    @cached_property
    def drop_M(self) -> Tensor:
        """Accuracy lost against the whole ensemble; for regression the relative growth of the squared error."""
        full = self.full_N.mean()
        return drop(full - self.quality_M, full, self.trajectory.task)

    def mean(self, values_NT: Tensor) -> Tensor:
        """(M,) mean of a value at the step where each sample stops."""
        return self.trajectory.sweep(self.thresholds_M, values_NT)

    def count(self, events_NT: Tensor) -> Tensor:
        """(M,) number of samples for which something holds at the step where they stop."""
        return (self.mean(events_NT) * len(self)).round().to(torch.int64)

    def at(self, threshold: float, values_NT: Tensor) -> Tensor:
        """(N,) a value at the step where each sample stops at this threshold."""
        return values_NT.gather(1, self.trajectory.halting_steps(threshold)[:, None] - 1)[:, 0]

    def threshold_for(self, cost: float) -> float:
        """The threshold whose mean cost is nearest to the one asked for."""
        return float(self.thresholds_M[nearest(self.cost_M, cost)])

    def quality_at(self, cost: float) -> Tensor:
        """(N,) quality of each sample's answer at exactly this mean cost.

        Between the costs of two neighbouring thresholds a sample counts for both, so that policies can be compared at
        exactly the same costs; beyond the ends it is that of the end.
        """
        above = int(torch.searchsorted(self.cost_M, cost).clamp(max=len(self.cost_M) - 1))
        below = max(above - 1, 0)
        width = float(self.cost_M[above] - self.cost_M[below])
        share = min(max((cost - float(self.cost_M[below])) / width, 0.0), 1.0) if width > 0 else 1.0
        low_N, high_N = (self.at(float(self.thresholds_M[index]), self.quality_NT) for index in (below, above))
        return (1 - share) * low_N + share * high_N


def frontier(
    bank: Bank, policy: Stopper, aggregation: Aggregation, unit: CostUnit = "members", *, depth: int | None = None
) -> Frontier:
    """Follow a policy over a bank; with `depth` only the first members are used, against the whole ensemble."""
    full_N = None
    if depth is not None and depth < bank.steps:
        whole = bank.trajectory(Never(), aggregation).means_NTK[:, -1:]
        full_N = quality(whole, bank.targets, bank.task)[:, 0]
        bank = bank.members(range(depth))
        aggregation = aggregation.members(range(depth))
    trajectory = bank.trajectory(policy, aggregation)
    quality_NT = quality(trajectory.means_NTK, bank.targets, bank.task)
    costs_NT = trajectory.costs(cost_vector(bank.costs, unit))
    return Frontier(trajectory, costs_NT, quality_NT, quality_NT[:, -1] if full_N is None else full_N)
