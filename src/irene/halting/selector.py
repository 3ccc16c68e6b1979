"""The selector of IRENE: a tiny LSTM, shared by all steps, that gives the probability to halt now."""

from __future__ import annotations

from functools import reduce
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from irene.errors import OptionError
from irene.halting.features import FEATURES, check_features, start_features, step_features
from irene.halting.linear import logistic
from irene.halting.policy import Policy, State, Step
from irene.types import Task


class Selector(Policy):
    """Learned halting: features of each step go through an LSTM that answers h_t, the probability to halt now.

    A linear path beside the LSTM (`skip`) starts it off as an honest baseline: a threshold on the margin, or, where
    saved outputs are there to learn from, a change predictor. Without it the selector is the paper's.
    The hidden state starts at zero (A.1.1). The score is the logit of h_t, which unlike h_t itself never rounds
    to a tie at one; a threshold of 0 is h_t = 0.5. Nothing is drawn at random, so the same input always stops
    at the same step.
    """

    name: ClassVar[str] = "selector"

    def __init__(
        self,
        threshold: float = 0.0,
        *,
        features: tuple[str, ...] | list[str] | None = None,
        hidden: int = 8,
        skip: bool = True,
        task: Task = "classification",
    ) -> None:
        super().__init__(threshold)
        if hidden < 1:
            raise OptionError(f"the selector needs at least one hidden unit, got {hidden}")
        self.features = check_features(FEATURES[task] if features is None else features, task)
        self.hidden = hidden
        self.task: Task = task
        self.mean_F: Tensor
        self.std_F: Tensor
        self.register_buffer("mean_F", torch.zeros(len(self.features)))
        self.register_buffer("std_F", torch.ones(len(self.features)))
        self.cell = nn.LSTMCell(len(self.features), hidden)
        self.out = nn.Linear(hidden, 1)
        self.skip: nn.Linear | None = None
        if skip:
            self.skip = nn.Linear(len(self.features), 1, bias=False)
            self._start_from_threshold(self.skip)

    def options(self) -> dict[str, Any]:
        return {
            "features": list(self.features),
            "hidden": self.hidden,
            "skip": self.skip is not None,
            "task": self.task,
        }

    @torch.no_grad()
    def standardise(self, features_NTF: Tensor) -> None:
        """Set the mean and spread that features are scaled by, from samples no member was trained on."""
        rows_MF = features_NTF.flatten(0, 1)
        mean_F, std_F = rows_MF.mean(0), rows_MF.std(0, correction=0)
        # A feature without spread here may have some later: divided by next to nothing it would drown the others.
        varies_F = std_F > 1e-6 * mean_F.abs()
        self.mean_F.copy_(mean_F)
        self.std_F.copy_(torch.where(varies_F, std_F, torch.ones_like(std_F)))

    @torch.no_grad()
    def start_as_change_predictor(self, features_NTF: Tensor, stays_NT: Tensor) -> None:
        """Begin as a logistic regression, one for all steps, on whether the answer is already the whole ensemble's.

        Wants features that `standardise` has seen. Where no answer changes there is nothing to learn this from.
        """
        before_N = stays_NT[:, :-1].flatten()
        if self.skip is None or bool(before_N.all()):
            return
        scaled_NTF = (features_NTF - self.mean_F) / self.std_F
        weight_F, bias = logistic(scaled_NTF[:, :-1].flatten(0, 1), before_N)
        self.skip.weight[0] = weight_F.to(self.skip.weight)
        self.out.bias.fill_(bias)

    def halting_logits(self, features_BTF: Tensor) -> Tensor:
        """(B, T): the logit of h_t at every step, for training."""
        state = self._zeros(len(features_BTF), features_BTF.device)
        logits = []
        for t in range(features_BTF.shape[1]):
            logit_B, state = self._step(features_BTF[:, t], state)
            logits.append(logit_B)
        return torch.stack(logits, 1)

    def start(self, batch: int, steps: int, device: torch.device) -> State:
        hidden, memory = self._zeros(batch, device)
        return {"hidden": hidden, "memory": memory, **start_features(self.task, batch, steps, device)}

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        if step.task != self.task:
            raise OptionError(f"this selector was made for {self.task} and the cascade is for {step.task}")
        features_BF, remembered = step_features(self.features, step, state)
        logit_B, (hidden, memory) = self._step(features_BF, (state["hidden"], state["memory"]))
        return logit_B, {"hidden": hidden, "memory": memory, **remembered}

    @torch.no_grad()
    def _start_from_threshold(self, skip: nn.Linear) -> None:
        """Begin as a threshold on the margin (regression: on the spread), which training then improves on."""
        for parameter in (self.out.weight, self.out.bias, skip.weight):
            parameter.zero_()
        for name, sign in (("margin", 1.0), ("running_spread", -1.0)):
            if name in self.features:
                skip.weight[0, self.features.index(name)] = sign

    def _zeros(self, batch: int, device: torch.device) -> tuple[Tensor, Tensor]:
        zeros_BD = torch.zeros(batch, self.hidden, device=device)
        return zeros_BD, zeros_BD

    def _step(self, features_BF: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        scaled_BF = (features_BF - self.mean_F) / self.std_F
        hidden, memory = self._fusible_cell(scaled_BF, *state) if _fusing() else self.cell(scaled_BF, state)
        logit_B = _times(hidden, self.out.weight)[:, 0] + self.out.bias
        if self.skip is not None:
            logit_B = logit_B + _times(scaled_BF, self.skip.weight)[:, 0]
        return logit_B, (hidden, memory)

    def _fusible_cell(self, x_BF: Tensor, hidden_BD: Tensor, memory_BD: Tensor) -> tuple[Tensor, Tensor]:
        """What the LSTM cell does, written out."""
        cell = self.cell
        gates = _times(x_BF, cell.weight_ih) + cell.bias_ih + _times(hidden_BD, cell.weight_hh) + cell.bias_hh
        enter, keep, value, leave = gates.chunk(4, 1)
        memory_BD = keep.sigmoid() * memory_BD + enter.sigmoid() * value.tanh()
        return leave.sigmoid() * memory_BD.tanh(), memory_BD


def _fusing() -> bool:
    """Whether torch is compiling this for inference.

    The compiler fuses what is written as sums of products, term by term, and leaves matrix products, each of a few
    numbers here, to kernels of their own.
    """
    return torch.compiler.is_compiling() and not torch.is_grad_enabled()


def _times(x_BF: Tensor, weight_DF: Tensor) -> Tensor:
    if not _fusing():
        return F.linear(x_BF, weight_DF)
    terms = [x_BF[:, place, None] * weight_DF[:, place] for place in range(x_BF.shape[1])]
    return reduce(torch.add, terms)
