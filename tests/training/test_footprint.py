"""What is said of the size of a policy is what it has."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from irene.bank import Bank
from irene.halting.policies import Margin
from irene.halting.rule import Aggregation, Rule
from irene.halting.selector import Selector
from irene.training.footprint import measure_footprint
from irene.types import Cost

COSTS = (Cost(parameters=49_400, ms=2.0), Cost(parameters=10_000_000, ms=50.0))


def test_a_selector_is_measured_against_the_least_member(make_bank: Callable[..., Bank]) -> None:
    outputs = make_bank(32, members=2).outputs
    selector = Selector()
    found = measure_footprint(Rule(selector, Aggregation.equal(2), "classification"), outputs[:, 0], COSTS)
    assert found.parameters == sum(value.numel() for value in selector.parameters()) == 494
    assert found.parameter_share == pytest.approx(0.01)
    assert found.ms > 0
    assert found.ms_share == pytest.approx(found.ms / 2)
    assert str(found).startswith("494 parameters, 0.01 of a member's; ")
    assert not any(value.grad is not None for value in selector.parameters())


def test_a_threshold_has_no_parameters_and_values_work_too(make_bank: Callable[..., Bank]) -> None:
    margin = Rule(Margin(), Aggregation.equal(2), "classification")
    assert measure_footprint(margin, torch.randn(8, 1, 3), COSTS).parameters == 0
    values = Rule(Selector(task="regression"), Aggregation.equal(2), "regression")
    assert measure_footprint(values, torch.randn(8, 2, 3), COSTS).ms > 0
