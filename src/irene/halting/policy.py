"""What stops a sample: a score and a threshold; a policy gives scores to the outputs of members that run in order."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from irene.errors import OptionError, in_words
from irene.types import Task

State = dict[str, Tensor]  # what a policy remembers of each sample between steps; every tensor is (B, ...)


@dataclass(frozen=True)
class Step:
    """What a policy sees after one more member has run on a batch of samples."""

    index: int  # t, counted from 0
    steps: int  # T
    task: Task
    heads_BHK: Tensor  # this member's answer by each of its heads: probabilities or values
    mean_BK: Tensor  # the ensemble's answer so far


def needs_classes(policy: str, task: Task) -> None:
    """Refuse regression for a policy that needs class probabilities."""
    if task != "classification":
        raise OptionError(
            f"the {policy} policy needs class probabilities: for regression use spread, cost-to-go or selector"
        )


class Stopper(nn.Module, ABC):
    """Stops a sample once its halting score reaches `threshold`.

    A score says how ready a sample is to stop: higher is readier. Where it comes from differs: a `Policy` scores
    members that run in order, a `Router` also says which member runs next.
    """

    name: ClassVar[str]
    threshold: float  # of a class: its default

    def __init__(self, threshold: float | None = None) -> None:
        super().__init__()
        self.threshold = float(self.threshold if threshold is None else threshold)
        if math.isnan(self.threshold):
            raise OptionError("a threshold must be a number that scores can reach, got NaN")

    def options(self) -> dict[str, Any]:
        """The constructor's arguments as JSON values, `threshold` aside."""
        return {}

    def at(self, threshold: float) -> Self:
        """A copy with another threshold, which shares no tensor with this one."""
        other = copy.deepcopy(self)
        other.threshold = float(threshold)
        return other

    def __repr__(self) -> str:
        """As it may be constructed; what was learned is not shown."""
        options = [f"{name}={value!r}" for name, value in self.options().items()]
        return f"{type(self).__name__}({', '.join([repr(self.threshold), *options])})"


def check_stopper(policy: object) -> None:
    """Refuse what is no policy, such as the name of one."""
    if not isinstance(policy, Stopper):
        raise OptionError(f"expected a policy with a threshold, such as irene.Margin(0.8), got {in_words(policy)}")


class Policy(Stopper, ABC):
    """Gives each sample a halting score after each member; members run in order, the first, the second, and so on.

    Subclasses implement `score`, and `start` when they remember something between steps. Policies are deterministic,
    and treat every sample by itself: the score of a sample does not depend on which others are in its batch.
    """

    def start(self, batch: int, steps: int, device: torch.device) -> State:
        """The memory of `batch` samples before the first step."""
        return {}

    @abstractmethod
    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        """(B,) halting scores after this step, and the updated memory."""
