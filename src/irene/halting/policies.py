"""The halting policies that need no fitting: each a score of the outputs so far, with the threshold beside it."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from irene.errors import OptionError
from irene.halting.policy import Policy, State, Step, needs_classes
from irene.types import Task


def top_two_margin(probs_BK: Tensor) -> Tensor:
    """(B,): the largest probability minus the second largest."""
    top_B, label_B = probs_BK.max(1)  # not topk, which no compiler fuses with its neighbours
    others_BK = torch.where(torch.arange(probs_BK.shape[1], device=probs_BK.device) == label_B[:, None], 0, probs_BK)
    return top_B - others_BK.amax(1)


def relative_entropy_score(probs_BK: Tensor) -> Tensor:
    """(B,): one minus the entropy over its largest possible value, so that 1 is certain and 0 is uniform."""
    entropy_B = torch.special.entr(probs_BK).sum(1)
    score_B: Tensor = 1 - entropy_B / math.log(max(probs_BK.shape[1], 2))
    return score_B


class Never(Policy):
    """Runs every member on every sample: the whole ensemble."""

    name: ClassVar[str] = "never"
    threshold = 1.0

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        return torch.full_like(step.mean_BK[:, 0], -math.inf), state


class Confidence(Policy):
    """Stops when the ensemble's top probability is high enough (Wisdom of Committees)."""

    name: ClassVar[str] = "confidence"
    threshold = 0.9

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        needs_classes(self.name, step.task)
        return step.mean_BK.max(1).values, state


class Margin(Policy):
    """Stops when the ensemble's top class is far enough ahead of the second."""

    name: ClassVar[str] = "margin"
    threshold = 0.8

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        needs_classes(self.name, step.task)
        return top_two_margin(step.mean_BK), state


class Entropy(Policy):
    """Stops when the ensemble's distribution is peaked enough: the score is 1 - entropy / log K."""

    name: ClassVar[str] = "entropy"
    threshold = 0.8

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        needs_classes(self.name, step.task)
        return relative_entropy_score(step.mean_BK), state


class Agreement(Policy):
    """Stops when enough members voted for the ensemble's answer; confidence breaks ties between equal votes.

    The score is the count of members that agree so far plus the top probability: a threshold of 2 means
    "two members agree", 1.9 means "one member that is 90 % sure, or two that agree".
    """

    name: ClassVar[str] = "agreement"
    threshold = 2.0

    def start(self, batch: int, steps: int, device: torch.device) -> State:
        return {"votes": torch.full((batch, steps), -1, dtype=torch.int64, device=device)}

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        needs_classes(self.name, step.task)
        votes_BT = cast_vote(state["votes"], step)
        confidence_B, answer_B = step.mean_BK.max(1)
        return (votes_BT == answer_B[:, None]).sum(1) + _less_than_one(confidence_B), {"votes": votes_BT}


def _less_than_one(confidence_B: Tensor) -> Tensor:
    """Confidence that never counts as a whole vote or step, though float32 takes 0.99999999 for 1."""
    return confidence_B * (1 - 1e-5)


def cast_vote(votes_BT: Tensor, step: Step) -> Tensor:
    """Write the newest member's own answer into its column of the votes."""
    column = torch.arange(step.steps, device=votes_BT.device) == step.index
    return torch.where(column, step.heads_BHK[:, 0].argmax(1)[:, None], votes_BT)


class Patience(Policy):
    """Stops when the ensemble's answer has not changed for a number of steps (PABEE).

    The score is the number of steps without a change plus the top probability, so the threshold works like
    `agreement`'s: 1 means "unchanged once", 0.9 means "90 % sure at once, or unchanged once".
    """

    name: ClassVar[str] = "patience"
    threshold = 1.0

    def start(self, batch: int, steps: int, device: torch.device) -> State:
        integers = torch.zeros(batch, dtype=torch.int64, device=device)
        return {"answer": integers - 1, "unchanged": integers}

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        needs_classes(self.name, step.task)
        confidence_B, answer_B = step.mean_BK.max(1)
        unchanged_B = torch.where(answer_B == state["answer"], state["unchanged"] + 1, 0)
        return unchanged_B + _less_than_one(confidence_B), {"answer": answer_B, "unchanged": unchanged_B}


class Window(Policy):
    """Stops when the top probability, averaged over the last `width` steps, is high enough."""

    name: ClassVar[str] = "window"

    def __init__(self, threshold: float = 0.9, *, width: int = 2) -> None:
        super().__init__(threshold)
        if width < 1:
            raise OptionError(f"window needs a width of at least 1, got {width}")
        self.width = width

    def options(self) -> dict[str, Any]:
        return {"width": self.width}

    def start(self, batch: int, steps: int, device: torch.device) -> State:
        return {"recent": torch.zeros(batch, self.width, device=device)}

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        needs_classes(self.name, step.task)
        newest_B1 = step.mean_BK.max(1).values[:, None]
        recent_BW = torch.cat([state["recent"][:, 1:], newest_B1], 1)
        return recent_BW.sum(1) / min(step.index + 1, self.width), {"recent": recent_BW}


class Spread(Policy):
    """Regression: stops when the members, and the heads of each, agree closely enough.

    The score is minus the root mean square distance of every head seen so far from the ensemble's answer at
    its step; with one head and one member there is nothing to compare, so such a first step never stops.
    """

    name: ClassVar[str] = "spread"
    threshold = 0.0

    def start(self, batch: int, steps: int, device: torch.device) -> State:
        return {"square": torch.zeros(batch, device=device)}

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        if step.task != "regression":
            raise OptionError("the spread policy is for regression: use margin or confidence for classification")
        centred_BHK = step.heads_BHK - step.mean_BK[:, None]
        square_B = state["square"] + centred_BHK.square().mean((1, 2))
        spread_B = (square_B / (step.index + 1)).sqrt()
        if step.index == 0 and step.heads_BHK.shape[1] == 1:
            return torch.full_like(spread_B, -math.inf), {"square": square_B}
        return -spread_B, {"square": square_B}


class Random(Policy):
    """Stops by the toss of a seeded coin: the floor every policy must beat, for studies."""

    name: ClassVar[str] = "random"

    def __init__(self, threshold: float = 0.5, *, seed: int = 0) -> None:
        super().__init__(threshold)
        self.seed = seed

    def options(self) -> dict[str, Any]:
        return {"seed": self.seed}

    def start(self, batch: int, steps: int, device: torch.device) -> State:
        generator = torch.Generator().manual_seed(self.seed)
        return {"draws": torch.rand(batch, steps, generator=generator).to(device)}

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        return state["draws"][:, step.index], state


class Oracle(Policy):
    """Stops as soon as the ensemble is right, knowing the labels: the ceiling no policy can pass, for studies."""

    name: ClassVar[str] = "oracle"

    def __init__(self, labels: Tensor, threshold: float = 0.5) -> None:
        super().__init__(threshold)
        self.labels = labels

    def start(self, batch: int, steps: int, device: torch.device) -> State:
        if batch != len(self.labels):
            raise OptionError(f"the oracle knows {len(self.labels)} labels and was asked about {batch} samples")
        return {"labels": self.labels.to(device)}

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        needs_classes(self.name, step.task)
        return (step.mean_BK.argmax(1) == state["labels"]).to(step.mean_BK.dtype), state


def plain_policy(task: Task) -> Policy:
    """A policy that looks at every answer, can stop anywhere and needs no fitting: margin, and spread for values."""
    return Margin() if task == "classification" else Spread()
