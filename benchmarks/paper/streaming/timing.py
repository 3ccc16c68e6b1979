"""How latency.py runs and times things: a member alone, and a stream whose policy can be moved."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from irene.devices import seconds_of
from irene.halting.policy import Policy, State, Step
from irene.runtime.bench_loops import Alone


class Movable(Policy):
    """A policy that can be given another threshold, and what it has learned for it, after an engine has recorded it.

    On a GPU an engine compiles and records its policy once; thresholds are numbers in that record. Here the threshold
    is a tensor, which is read anew in every run, so that one recording serves for all costs that are asked for.
    """

    name: ClassVar[str] = "movable"

    def __init__(self, policy: Policy) -> None:
        super().__init__(0.0)
        self.policy = policy
        self.cut: Tensor
        self.register_buffer("cut", torch.tensor(policy.threshold))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # engines copy their policy, and this one must stay the one that is moved

    @torch.no_grad()
    def move(self, policy: Policy) -> None:
        """Stop as this policy of the same kind does."""
        self.policy.load_state_dict(policy.state_dict())
        self.cut.fill_(policy.threshold)

    def start(self, batch: int, steps: int, device: torch.device) -> State:
        return self.policy.start(batch, steps, device)

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        score_B, state = self.policy.score(step, state)
        return score_B - self.cut, state


def cycled(inputs: Tensor, count: int, *, seed: int = 0) -> Tensor:
    """So many inputs: all of them in one random order, then in another, and so on."""
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(len(inputs), generator=generator) for _ in range(-(-count // len(inputs)))]
    return inputs[torch.cat(orders)[:count].to(inputs.device)]


def answers(member: Alone, inputs: Tensor, bucket: int) -> Tensor:
    """(N, H, K) what a member answers in batches of one size, the last one filled up."""
    found = []
    for part in inputs.split(bucket):
        rows = len(part)
        full = part if rows == bucket else part[torch.arange(bucket, device=part.device) % rows]
        found.append(member.run(full)[:rows].float().cpu())
    return torch.cat(found)


def each(member: Alone, batches: tuple[Tensor, ...]) -> Callable[[], None]:
    """A pass in which a member answers batch after batch and nobody waits for it in between."""

    def work() -> None:
        for batch in batches:
            member.run(batch)

    return work


def interleaved(
    passes: Mapping[Any, Callable[[], object]], device: torch.device, rounds: int
) -> dict[Any, list[float]]:
    """Seconds of each kind of pass in each round: they take turns, so that all of them meet the same clock."""
    found: dict[Any, list[float]] = {name: [] for name in passes}
    for _ in range(rounds):
        for name, work in passes.items():
            found[name].append(seconds_of(work, device))
    return found


def quartiles(values: list[float]) -> dict[str, float]:
    """The median, with the lower and the upper quartile."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median": middle, "low": low, "high": high}
