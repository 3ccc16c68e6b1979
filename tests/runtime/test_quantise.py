"""Thresholds set again on quantised outputs give what was asked, and a loss is told or refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from irene.bank import Bank
from irene.calibration.fit import fit_policy
from irene.cascade import Cascade
from irene.data import Data, split
from irene.errors import CalibrationError
from irene.halting.policies import Margin, Never, Spread
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.models import Member, MemberSpec, build, statistics
from irene.runtime.engine import Engine
from irene.runtime.quantise import as_trained, change, quantise, recalibrate, replay
from irene.types import Prediction

EQUAL = Aggregation.equal(3)


def dulled(bank: Bank) -> Bank:
    """The bank as coarser members would have given it: less sure of themselves, and in steps."""
    return replace(bank, outputs=(4 * bank.outputs).round() / 10 + 0.01 * bank.outputs)


def prediction(outputs: list[list[float]], used: list[int], task: Any = "classification") -> Prediction:
    return Prediction(task, torch.tensor(outputs), torch.tensor(used), torch.zeros(len(used), 3))


def test_change_of_labels() -> None:
    before = prediction([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]], [1, 1, 2, 3])
    after = prediction([[0.8, 0.2], [0.6, 0.4], [0.4, 0.6], [0.3, 0.7]], [1, 2, 2, 3])
    found = change(before, after, torch.tensor([0, 1, 0, 0]))
    assert (found.figure, found.before, found.after, found.loss) == ("accuracy", 0.75, 0.25, 0.5)
    assert found.agreement == 0.5
    assert (found.cost_before, found.cost_after) == (1.75, 2.0)
    found.check(0.5, "it")
    with pytest.raises(CalibrationError, match=r"int8 costs it 50\.00% of its accuracy .* at most 49\.00% was allowed"):
        found.check(0.49, "it")


def test_change_of_values() -> None:
    before = prediction([[1.0], [2.0]], [1, 1], "regression")
    after = prediction([[1.0], [4.0]], [1, 1], "regression")
    found = change(before, after, torch.tensor([[0.0], [3.0]]))
    assert (found.figure, found.before, found.after, found.agreement) == ("mse", 1.0, 1.0, None)
    assert found.loss == pytest.approx(0.0)
    assert change(before, after, torch.tensor([[0.0], [2.0]])).loss == pytest.approx(2.5 / 0.5 - 1)


@pytest.mark.parametrize(
    "asked", [{"cost": 1.5}, {"max_drop": 0.02}, {"risk": 0.05}, {"cost": 2.0, "guaranteed": True}]
)
@pytest.mark.parametrize("policy", ["margin", "change", "cost-to-go", "skipping"])
def test_what_was_asked_is_asked_again(make_bank: Callable[..., Bank], policy: str, asked: dict[str, Any]) -> None:
    before = make_bank(3000, accuracy=(0.85, 0.87, 0.9))
    after = dulled(before)
    point = fit_policy(before, policy, name="mine", **asked)
    new = recalibrate(point, before, after)
    assert (new.name, new.asked, new.members) == ("mine", point.asked, point.members)
    assert new.policy.threshold != point.policy.threshold
    assert new.aggregation == point.aggregation
    found = replay(new, after)
    whole = after.replay(Never(), new.aggregation)
    lost = (whole.labels == after.targets) & (found.labels != after.targets)
    drop = float((whole.labels == after.targets).double().mean() - (found.labels == after.targets).double().mean())
    if "max_drop" in asked:
        assert drop <= 0.03  # judged on other samples than the policy has learned from
    elif "risk" in asked:
        assert float(lost.double().mean()) <= 0.05
    elif "guaranteed" in asked:
        assert float(found.cost.mean()) <= 2.0
    else:
        assert float(found.cost.mean()) == pytest.approx(1.5, rel=0.015)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_where_nothing_was_asked_the_cost_stays(make_bank: Callable[..., Bank], task: Any) -> None:
    before = make_bank(1000, task=task)
    policy = Margin(0.4) if task == "classification" else Spread(-0.08)
    point = as_trained(policy, EQUAL, task)
    after = dulled(before)
    new = recalibrate(point, before, after)
    assert 1.1 < float(replay(point, before).cost.mean()) < 2.9
    assert float(replay(new, after).cost.mean()) == pytest.approx(float(replay(point, before).cost.mean()), abs=0.02)
    assert new.asked == {}


def test_some_members_in_another_order(make_bank: Callable[..., Bank]) -> None:
    before = make_bank(1000)
    pair = fit_policy(before.members((2, 0)), "margin", cost=1.4)
    point = replace(pair, members=(2, 0))
    new = recalibrate(point, before, dulled(before))
    assert new.members == (2, 0)
    assert float(replay(new, dulled(before)).cost.mean()) == pytest.approx(1.4, abs=0.02)


def test_what_never_stops_stays_as_it_is(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(50)
    for point in (
        as_trained(Never(), EQUAL, "classification"),
        as_trained(Margin(), Aggregation.equal(1), "classification"),
    ):
        assert recalibrate(point, bank, dulled(bank)) is point


def test_a_selector_promises_nothing_on_the_samples_it_has_seen(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(500)
    point = replace(as_trained(Selector(), EQUAL, "classification"), asked={"risk": 0.05, "unit": "members"})
    with pytest.raises(CalibrationError, match="operating point trained with int8 members: its selector was fitted"):
        recalibrate(point, bank, dulled(bank))


def fitted_members(data: Data) -> list[Member]:
    """Members that a few steps of training have taught the data."""
    inputs = data.train.inputs
    assert inputs is not None
    mean, std = statistics(inputs)
    spec = MemberSpec(backbone="mlp", shape=data.shape, outputs=data.outputs, heads=2)
    members = [build(spec, seed=seed, mean=mean, std=std) for seed in range(2)]
    for member in members:
        optimizer = torch.optim.Adam(member.parameters(), lr=0.01)
        for _ in range(40):
            optimizer.zero_grad()
            logits: Tensor = member(inputs)
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), data.train.targets.repeat_interleave(2)).backward()
            optimizer.step()
    return [member.eval() for member in members]


def test_a_cascade_in_int8(blobs: Data) -> None:
    heldout = split(blobs, heldout=0.5, seed=1).heldout
    assert heldout.inputs is not None
    cascade = Cascade(fitted_members(blobs), Margin(0.6))
    fast = quantise(cascade, heldout.inputs, heldout.targets, max_loss=0.05)
    assert fast.whole.before > 0.7
    assert fast.whole.loss <= 0.05
    assert 1 < fast.stopping.cost_before < 2
    assert fast.stopping.cost_after == pytest.approx(fast.stopping.cost_before, abs=0.02)
    found = fast.cascade.predict(heldout.inputs)
    assert float(found.cost.mean()) == pytest.approx(fast.stopping.cost_after)
    answered = Engine(fast.cascade, heldout.inputs[:1], backends=fast.backends).predict(heldout.inputs)
    assert torch.equal(answered.members_used, found.members_used)
    with pytest.raises(CalibrationError, match="int8 costs the whole ensemble"):
        quantise(cascade, heldout.inputs, heldout.targets, max_loss=-1.0)
