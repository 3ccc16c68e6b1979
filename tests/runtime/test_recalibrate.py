"""A threshold set again gives what was asked, by the procedure that set it first: unchanged outputs change nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from irene.bank import Bank
from irene.calibration.fit import split_for_promise
from irene.calibration.selection import Fitted, Fitter, Learner
from irene.errors import CalibrationError
from irene.files import as_json
from irene.fitting import fit_policy
from irene.halting.policies import Margin, Never, Spread
from irene.halting.policy import Stopper
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.point import OperatingPoint
from irene.runtime.recalibrate import as_trained, recalibrate, replay
from irene.training.afterwards import selector_fitter

EQUAL = Aggregation.equal(3)
ASKED: dict[str, dict[str, Any]] = {
    "cost": {"cost": 1.5},
    "flops": {"cost": 2e6, "unit": "flops", "confidence": 0.5},
    "guaranteed": {"cost": 2.0, "guaranteed": True},
    "max_drop": {"max_drop": 0.02},
    "p99": {"p99": 9.0, "unit": "flops"},
    "p99 of two": {"p99": 5.0},
    "risk": {"risk": 0.05, "confidence": 0.8},
}
POLICIES: dict[str, str | Stopper | Fitter] = {
    **{name: name for name in ("margin", "agreement", "auto", "change", "cost-to-go", "skipping")},
    "given": Margin(),
    "selector": selector_fitter(epochs=1),
}


def dulled(bank: Bank) -> Bank:
    """The bank as coarser members would have given it: less sure of themselves, and in steps."""
    return replace(bank, outputs=(4 * bank.outputs).round() / 10 + 0.01 * bank.outputs)


def from_files(point: OperatingPoint) -> OperatingPoint:
    """The point as it is read back."""
    return OperatingPoint.from_dict(as_json(point.to_dict()), point.tensors())


def assert_same(new: OperatingPoint, old: OperatingPoint) -> None:
    assert new.policy.threshold == old.policy.threshold
    assert (new.members, new.aggregation, new.asked, new.data) == (old.members, old.aggregation, old.asked, old.data)
    assert new.expected.keys() == old.expected.keys()
    for key, value in old.expected.items():
        if key == "intervals":
            for figure, bounds in value.items():
                assert new.expected[key][figure] == pytest.approx(bounds), figure
        else:
            assert new.expected[key] == (pytest.approx(value) if isinstance(value, float) else value), key


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_unchanged_outputs_give_the_same_point(
    lifelike_bank: Callable[..., Bank], policy: Any, asked: dict[str, Any], seed: int
) -> None:
    bank = lifelike_bank(1200, flops=(1.0, 1.5, 2.0), seed=seed)
    point = from_files(fit_policy(bank, policy, seed=seed, **asked))
    assert_same(recalibrate(point, bank, bank), point)


def test_a_latency_keeps_the_times_it_was_promised_by(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(1200, flops=(1.0, 1.5, 2.0))  # 2, 3 and 4 ms
    timed = replace(bank, costs=tuple(replace(cost, ms=10 * cost.ms) for cost in bank.costs))
    point = from_files(fit_policy(timed, "margin", p99=50.0))
    assert point.members == (0, 1)
    assert_same(recalibrate(point, bank, bank), point)


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("policy", ["spread", "cost-to-go"])
@pytest.mark.parametrize("asked", [{"cost": 1.5}, {"max_drop": 0.5}])
def test_unchanged_values_give_the_same_point(
    make_bank: Callable[..., Bank], policy: str, asked: dict[str, Any], seed: int
) -> None:
    bank = make_bank(800, task="regression", accuracy=(0.6, 0.7, 0.8), seed=seed)
    point = from_files(fit_policy(bank, policy, seed=seed, **asked))
    assert_same(recalibrate(point, bank, bank), point)


@pytest.mark.parametrize("asked", [{"cost": 1.5}, {"max_drop": 0.02}, {"risk": 0.05}])
def test_whatever_auto_chose_stays(lifelike_bank: Callable[..., Bank], asked: dict[str, Any]) -> None:
    bank = lifelike_bank(5200, seed=3)
    knowing = selector_fitter(epochs=1)
    for also in (None, Fitted(Margin(), EQUAL), Learner("selector", knowing)):
        point = from_files(fit_policy(bank, also=also, seed=4, **asked))
        assert_same(recalibrate(point, bank, bank), point)


@pytest.mark.parametrize(
    "asked", [{"cost": 1.5}, {"max_drop": 0.02}, {"risk": 0.05}, {"cost": 2.0, "guaranteed": True}]
)
@pytest.mark.parametrize("policy", ["margin", "change", "cost-to-go", "skipping", "auto"])
def test_what_was_asked_is_asked_again(make_bank: Callable[..., Bank], policy: str, asked: dict[str, Any]) -> None:
    before = make_bank(3000, accuracy=(0.85, 0.87, 0.9))
    after = dulled(before)
    point = fit_policy(before, policy, name="mine", seed=2, **asked)
    new = recalibrate(point, before, after)
    assert (new.name, new.asked, new.members) == ("mine", point.asked, point.members)
    assert new.policy.threshold != point.policy.threshold
    assert new.aggregation == point.aggregation
    judged = split_for_promise(after, 2)[1] if "seed" in point.data else after
    assert len(judged) == point.data["samples"]
    found = replay(new, judged)
    whole = judged.replay(Never(), new.aggregation)
    right, kept = whole.labels == judged.targets, found.labels == judged.targets
    if "max_drop" in asked:
        assert float(right.double().mean() - kept.double().mean()) <= 0.02 + 1e-9
    elif "risk" in asked:
        assert float((right & ~kept).double().mean()) <= 0.05
    elif "guaranteed" in asked:
        assert float(found.cost.mean()) <= 2.0
    else:
        assert float(found.cost.mean()) == pytest.approx(1.5, rel=0.015)


def test_what_is_expected_moves_by_what_the_samples_show(lifelike_bank: Callable[..., Bank]) -> None:
    before = lifelike_bank(300)
    after = dulled(before)
    point = fit_policy(before, "cost-to-go", cost=1.5)
    new = recalibrate(point, before, after)

    def seen(one: OperatingPoint, bank: Bank) -> float:
        return float((replay(one, bank).labels == bank.targets).double().mean())

    assert point.expected["accuracy"] < seen(point, before)  # it learned from these samples
    assert new.expected["accuracy"] - point.expected["accuracy"] == pytest.approx(
        seen(new, after) - seen(point, before)
    )
    low, high = new.expected["intervals"]["accuracy"]
    assert low < new.expected["accuracy"] < high


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_where_nothing_was_asked_the_cost_stays(make_bank: Callable[..., Bank], task: Any) -> None:
    before = make_bank(1000, task=task)
    policy = Margin(0.4) if task == "classification" else Spread(-0.08)
    point = as_trained(policy, EQUAL, task)
    after = dulled(before)
    new = recalibrate(point, before, after)
    assert 1.1 < float(replay(point, before).cost.mean()) < 2.9
    assert float(replay(new, after).cost.mean()) == pytest.approx(float(replay(point, before).cost.mean()), abs=0.02)
    assert (new.asked, new.expected, new.data) == ({}, {}, {})
    same = recalibrate(point, before, before)
    assert torch.equal(replay(same, before).members_used, replay(point, before).members_used)


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


def test_a_policy_that_learned_who_knows_where_promises_nothing(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(500)
    point = replace(as_trained(Selector(), EQUAL, "classification"), asked={"risk": 0.05, "unit": "members"})
    with pytest.raises(CalibrationError, match="point trained with int8 members: its selector policy may have learned"):
        recalibrate(point, bank, dulled(bank))


def test_a_point_of_other_samples_is_refused(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(600)
    for about in ({"split": "train", "fingerprint": "f00d"}, {"split": "heldout", "fingerprint": "beef"}):
        point = fit_policy(replace(bank, about=about), "margin", cost=1.5, name="noisy")
        with pytest.raises(CalibrationError, match="point noisy with int8 members: it was calibrated on other samples"):
            recalibrate(point, bank, dulled(bank))


def test_a_point_without_its_seed(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(600)

    def as_formerly(point: OperatingPoint) -> OperatingPoint:
        return replace(point, data={key: value for key, value in point.data.items() if key != "seed"})

    whole = as_formerly(fit_policy(bank, "margin", cost=1.5))
    assert_same(recalibrate(whole, bank, bank), whole)
    part = as_formerly(from_files(fit_policy(bank, "margin", risk=0.05)))
    with pytest.raises(
        CalibrationError, match=r"on 360 samples, and nothing says which of the 600 .* calibrate it again"
    ):
        recalibrate(part, bank, bank)
