"""A selector fitted after the fact learns who needs more members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from irene.bank import Bank
from irene.fitting import fit_policy
from irene.halting.policies import Random
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.training.afterwards import selector_fitter

MEAN = Aggregation.equal(3)


def test_it_meets_the_cost_and_beats_chance(lifelike_bank: Callable[..., Bank]) -> None:
    bank, fresh = lifelike_bank(1500, skills=(1.0, 2.0, 3.0), seed=1), lifelike_bank(4000, skills=(1.0, 2.0, 3.0))
    selector = selector_fitter(cost=1.5, epochs=20)(bank, MEAN, "members")
    point = fit_policy(bank, selector, cost=1.5, aggregation=MEAN)
    chance = fit_policy(bank, Random(), cost=1.5)
    right, by_chance = (
        float((fresh.replay(one.policy, MEAN).labels == fresh.targets).double().mean()) for one in (point, chance)
    )
    assert float(fresh.replay(point.policy, MEAN).cost.mean()) == pytest.approx(1.5, abs=0.08)
    assert right > by_chance + 0.01


def test_one_selector_answers_every_cost_within_three_hundredths(lifelike_bank: Callable[..., Bank]) -> None:
    bank, fresh = lifelike_bank(5000, seed=1), lifelike_bank(10_000, seed=2)
    selector = selector_fitter(cost=1.3, epochs=20)(bank, MEAN, "members")
    for asked in (1.1, 1.2, 1.3, 1.5, 2.0):
        point = fit_policy(bank, selector, cost=asked, aggregation=MEAN)
        assert float(fresh.replay(point.policy, MEAN).cost.mean()) == pytest.approx(asked, abs=0.03)


def test_the_same_seed_gives_the_same_and_leaves_other_draws_alone(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(100)
    torch.manual_seed(5)
    first = selector_fitter(epochs=2)(bank, MEAN, "members")
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3), drawn)
    torch.manual_seed(9)
    again = selector_fitter(epochs=2)(bank, MEAN, "members")
    other = selector_fitter(epochs=2, seed=1)(bank, MEAN, "members")
    assert isinstance(first, Selector)
    assert not first.training
    for name, tensor in first.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)
    assert not all(torch.equal(other.state_dict()[name], tensor) for name, tensor in first.state_dict().items())


def test_the_units_of_values_do_not_matter(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(400, task="regression", outputs=2)
    first = selector_fitter(cost=2.0, epochs=20)(bank, MEAN, "members").state_dict()
    for unit in (1e-10, 1e6):
        scaled = replace(bank, outputs=unit * bank.outputs, targets=unit * bank.targets)
        other = selector_fitter(cost=2.0, epochs=20)(scaled, MEAN, "members").state_dict()
        for name in first.keys() - {"mean_F", "std_F"}:  # by these it takes the units out
            torch.testing.assert_close(other[name], first[name], rtol=0, atol=1e-3)


def test_values_and_other_units(make_bank: Callable[..., Bank], lifelike_bank: Callable[..., Bank]) -> None:
    values = make_bank(200, task="regression", outputs=2)
    point = fit_policy(values, selector_fitter(cost=2.0, epochs=2), cost=2.0)
    assert point.policy.name == "selector"
    assert point.expected["cost"] == pytest.approx(2.0, abs=0.02)
    bank = lifelike_bank(200, flops=(1.0, 4.0, 8.0))
    fitted = fit_policy(bank, selector_fitter(cost=3e6, epochs=2), cost=3e6, unit="flops")
    assert fitted.expected["cost"] == pytest.approx(3e6, rel=0.02)
