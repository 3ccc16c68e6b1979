"""Cost-to-go: stops a sample when what the remaining members can be expected to gain is not worth their cost."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from irene.errors import OptionError
from irene.halting.features import FEATURES, check_features, feature_table, start_features, step_features
from irene.halting.linear import least_squares
from irene.halting.policy import Policy, State, Step
from irene.halting.quality import quality
from irene.halting.rule import Aggregation
from irene.types import Task

_PRICES = 24  # prices each side of zero at which stopping is solved


class CostToGo(Policy):
    """Optimal stopping by backward induction: the score is minus the price at which going on just pays.

    At a price of lambda for a unit of cost, going on pays when the expected gain (share of right answers, or fall
    of the squared error) is above lambda times the expected cost, each later step deciding by the same rule. `fit`
    solves this for a ladder of prices, by least squares on the features of each step; a sample's score is minus the
    price at which its advantage crosses zero. So a threshold of -lambda stops what is not worth lambda, and sweeping
    the threshold moves along lambda.
    """

    name: ClassVar[str] = "cost-to-go"

    def __init__(
        self,
        threshold: float = 0.0,
        *,
        steps: int,
        features: tuple[str, ...] | list[str] | None = None,
        task: Task = "classification",
    ) -> None:
        super().__init__(threshold)
        self.steps = steps
        self.features = check_features(features or FEATURES[task], task)
        self.task: Task = task
        prices = 2 * _PRICES + 1
        self.prices_L: Tensor
        self.weight_TLF: Tensor
        self.bias_TL: Tensor
        self.register_buffer("prices_L", torch.zeros(prices))
        self.register_buffer("weight_TLF", torch.zeros(steps - 1, prices, len(self.features)))
        self.register_buffer("bias_TL", torch.zeros(steps - 1, prices))

    def options(self) -> dict[str, Any]:
        return {"steps": self.steps, "features": list(self.features), "task": self.task}

    @classmethod
    @torch.no_grad()
    def fit(
        cls,
        outputs_NTHK: Tensor,
        targets: Tensor,
        aggregation: Aggregation,
        costs_T: Tensor,
        *,
        task: Task = "classification",
    ) -> Self:
        """Learn from saved outputs of all members, on labelled samples that no member was trained on."""
        policy = cls(steps=outputs_NTHK.shape[1], task=task)
        table_NTF, means_NTK = feature_table(policy.features, outputs_NTHK, aggregation, task)
        quality_NT = quality(means_NTK, targets, task)
        prices_L = price_ladder(quality_NT, costs_T)
        policy.prices_L.copy_(prices_L)
        payoff_NL = quality_NT[:, -1:].expand(-1, len(prices_L))  # of following the rule from the next step on
        for t in reversed(range(policy.steps - 1)):
            stop_N1 = quality_NT[:, t : t + 1]
            advantage_NL = payoff_NL - prices_L * costs_T[t + 1] - stop_N1
            weight_LF, bias_L = least_squares(table_NTF[:, t], advantage_NL)
            policy.weight_TLF[t] = weight_LF
            policy.bias_TL[t] = bias_L
            goes_on_NL = table_NTF[:, t].to(torch.float64) @ weight_LF.T + bias_L > 0
            payoff_NL = torch.where(goes_on_NL, stop_N1 + advantage_NL, stop_N1)
        return policy

    def start(self, batch: int, steps: int, device: torch.device) -> State:
        if steps > self.steps:
            raise OptionError(f"this cost-to-go was fitted for {self.steps} members, got {steps}: fit it again")
        return start_features(self.task, batch, steps, device)

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        if step.task != self.task:
            raise OptionError(f"this cost-to-go was fitted for {self.task} and the cascade is for {step.task}")
        features_BF, state = step_features(self.features, step, state)
        if step.index + 1 == self.steps:  # after the last member there is nothing to gain
            return torch.zeros_like(features_BF[:, 0]), state
        weight_LF, bias_L = self.weight_TLF[step.index], self.bias_TL[step.index]
        advantage_BL = (features_BF[:, None] * weight_LF).sum(2) + bias_L
        return -break_even(advantage_BL, self.prices_L), state


def price_ladder(quality_NT: Tensor, costs_T: Tensor) -> Tensor:
    """(L,) prices from minus to plus the largest gain per cost, dense near zero, where policies differ.

    Below zero going on is rewarded: such prices order the samples that gain nothing by how little they lose.
    """
    gains = quality_NT.diff(dim=1).abs().flatten().tolist()  # none with one member
    largest = max([1e-9, *gains]) / float(costs_T.min())
    above = torch.logspace(-5, 0, _PRICES, dtype=torch.float64, device=quality_NT.device) * largest
    return torch.cat([-above.flip(0), above.new_zeros(1), above])


def break_even(advantage_BL: Tensor, prices_L: Tensor) -> Tensor:
    """(B,) the price up to which the advantage is above zero, linear between ascending prices with 0 among them."""
    above_BL, size_BL = advantage_BL.relu(), advantage_BL.abs()
    share_BL = (above_BL[:, :-1] + above_BL[:, 1:]) / (size_BL[:, :-1] + size_BL[:, 1:]).clamp_min(1e-30)
    below_L = (prices_L[:-1] < 0).to(share_BL)  # counted back from zero, to keep small prices exact
    return ((share_BL - below_L) * prices_L.diff()).sum(1)
