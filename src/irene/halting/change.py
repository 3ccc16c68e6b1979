"""The change predictor: stops a sample when its answer will probably not change any more."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from irene.errors import OptionError
from irene.halting.features import (
    FEATURES,
    already_final,
    check_features,
    feature_table,
    start_features,
    step_features,
)
from irene.halting.linear import logistic
from irene.halting.policy import Policy, State, Step, needs_classes
from irene.halting.rule import Aggregation


class ChangePredictor(Policy):
    """Stops when the ensemble's answer will stay as it is: the score is the probability that it will.

    One logistic regression a step, fitted by `fit` on "is this already the whole ensemble's answer?". That
    question needs no labels, so any inputs of the kind met in use will do.
    """

    name: ClassVar[str] = "change"

    def __init__(
        self, threshold: float = 0.9, *, steps: int, features: tuple[str, ...] | list[str] | None = None
    ) -> None:
        super().__init__(threshold)
        self.steps = steps
        self.features = check_features(features or FEATURES["classification"], "classification")
        self.weight_TF: Tensor
        self.bias_T: Tensor
        self.register_buffer("weight_TF", torch.zeros(steps - 1, len(self.features)))
        self.register_buffer("bias_T", torch.zeros(steps - 1))

    def options(self) -> dict[str, Any]:
        return {"steps": self.steps, "features": list(self.features)}

    @classmethod
    @torch.no_grad()
    def fit(cls, outputs_NTHK: Tensor, aggregation: Aggregation) -> Self:
        """Learn from saved outputs of all members, on samples that no member was trained on."""
        policy = cls(steps=outputs_NTHK.shape[1])
        table_NTF, means_NTK = feature_table(policy.features, outputs_NTHK, aggregation, "classification")
        stays_NT = already_final(means_NTK)
        for t in range(policy.steps - 1):
            weight_F, bias = logistic(table_NTF[:, t], stays_NT[:, t])
            policy.weight_TF[t] = weight_F
            policy.bias_T[t] = bias
        return policy

    def start(self, batch: int, steps: int, device: torch.device) -> State:
        if steps > self.steps:
            raise OptionError(f"this change predictor was fitted for {self.steps} members, got {steps}: fit it again")
        return start_features("classification", batch, steps, device)

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        needs_classes(self.name, step.task)
        features_BF, state = step_features(self.features, step, state)
        if step.index + 1 == self.steps:  # after the last member nothing can change
            return torch.ones_like(features_BF[:, 0]), state
        logit_B = (features_BF * self.weight_TF[step.index]).sum(1) + self.bias_T[step.index]
        return logit_B.sigmoid(), state
