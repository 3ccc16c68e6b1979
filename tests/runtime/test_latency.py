"""What members cost one sample at a time, by a clock that only they and policies move."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from torch import Tensor

from irene import devices
from irene.cascade import Cascade
from irene.errors import OptionError
from irene.halting.policies import Margin, Never, Spread, plain_policy
from irene.halting.policy import Policy, State, Step, Stopper
from irene.halting.selector import Selector
from irene.halting.skipping import Router
from irene.runtime import latency
from irene.runtime.latency import measure_latency
from irene.types import Cost, Task

SAMPLE = torch.zeros(1, 5)
THOUGHT = 0.0005  # seconds that a policy takes at each step, where it takes any


class Clock:
    """Seconds that pass while a member runs or a policy thinks, and at no other time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def member(self, ms: float, *, slow_ms: float = 0.0, every: int = 0) -> Slow:
        return Slow(self, ms, slow_ms, every)


class Slow:
    """A member that takes so many ms, and `slow_ms` in one of `every` runs."""

    def __init__(self, clock: Clock, ms: float, slow_ms: float, every: int) -> None:
        self.clock, self.ms, self.slow_ms, self.every, self.runs = clock, ms, slow_ms, every, 0

    def __call__(self, inputs: Tensor) -> Tensor:
        assert len(inputs) == 1
        self.runs += 1
        slow = self.every and self.runs % self.every == 0
        self.clock.now += (self.slow_ms if slow else self.ms) / 1000
        return torch.tensor([[9.0, 0.0]])  # as sure as can be: any policy would stop here


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (latency, devices):
        monkeypatch.setattr(module, "perf_counter", clock)
    return clock


@pytest.mark.parametrize("policy", [None, Margin(0.5), Selector()])
def test_each_member_delays_the_answer_by_its_time(clock: Clock, policy: Policy | None) -> None:
    costs = (Cost(flops=1.0, ms=99.0), Cost(flops=2.0, ms=99.0), Cost(flops=3.0, ms=99.0))
    members = [clock.member(ms) for ms in (1.0, 4.0, 2.0)]
    found = measure_latency(Cascade(members, policy, costs=costs), SAMPLE)
    assert [cost.ms for cost in found] == pytest.approx([1.0, 4.0, 2.0])
    assert [cost.flops for cost in found] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_time_of_the_policy_is_a_part_of_it(clock: Clock, task: Task) -> None:
    class Thinking(Policy):
        name: ClassVar[str] = "thinking"

        def score(self, step: Step, state: State) -> tuple[Tensor, State]:
            clock.now += THOUGHT
            return step.mean_BK[:, 0], state

    found = measure_latency(Cascade([clock.member(ms) for ms in (1.0, 4.0)], Thinking(0.5), task=task), SAMPLE)
    assert [cost.ms for cost in found] == pytest.approx([1.5, 4.5])


@pytest.mark.parametrize(
    ("policy", "task"),
    [(Never(), "classification"), (Router(costs=(1.0, 1.0)), "classification"), (Never(), "regression")],
)
def test_where_no_policy_asks_in_order_the_time_of_a_plain_one_is_a_part_of_it(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, policy: Stopper, task: Task
) -> None:
    plain = type(plain_policy(task))
    score = plain.score

    def thinking(self: Policy, step: Step, state: State) -> tuple[Tensor, State]:
        clock.now += THOUGHT
        return score(self, step, state)

    monkeypatch.setattr(plain, "score", thinking)
    found = measure_latency(Cascade([clock.member(ms) for ms in (1.0, 4.0)], policy, task=task), SAMPLE)
    assert [cost.ms for cost in found] == pytest.approx([1.5, 4.5])


def test_values_are_timed_too(clock: Clock) -> None:
    task: Task = "regression"
    for policy in (None, Spread(0.1)):
        found = measure_latency(Cascade([clock.member(1.0), clock.member(3.0)], policy, task=task), SAMPLE)
        assert [cost.ms for cost in found] == pytest.approx([1.0, 3.0])


@pytest.mark.parametrize(("every", "ms"), [(50, 7.0), (150, 1.0)])
def test_it_is_the_time_of_all_but_one_in_a_hundred(clock: Clock, every: int, ms: float) -> None:
    (cost,) = measure_latency(Cascade([clock.member(1.0, slow_ms=7.0, every=every)]), SAMPLE)
    assert cost.ms == pytest.approx(ms)


def test_slow_members_are_run_a_few_times_only(clock: Clock) -> None:
    members = [clock.member(5_000.0), clock.member(1.0)]
    measure_latency(Cascade(members), SAMPLE)
    assert members[1].runs == 1 + 20


def test_a_member_that_takes_no_time_still_has_a_cost(clock: Clock) -> None:
    found = measure_latency(Cascade([clock.member(1.0), clock.member(0.0)]), SAMPLE)
    assert 0 < found[1].ms < 1e-3


def test_it_is_that_of_one_sample(clock: Clock) -> None:
    cascade = Cascade([clock.member(1.0)])
    assert measure_latency(cascade, SAMPLE.numpy()) == measure_latency(cascade, SAMPLE)
    with pytest.raises(OptionError, match="got 2: give one"):
        measure_latency(cascade, torch.zeros(2, 5))
