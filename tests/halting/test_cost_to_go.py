"""Cost-to-go stops what is not worth its price, and its score is minus the price at which going on just pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from irene.bank import Bank
from irene.cascade import Cascade
from irene.errors import OptionError
from irene.halting.cost_to_go import CostToGo, break_even, price_ladder
from irene.halting.features import FEATURES, feature_table
from irene.halting.linear import least_squares
from irene.halting.policies import Spread
from irene.halting.policy import Policy
from irene.halting.quality import quality
from irene.halting.registry import describe, restore
from irene.halting.rule import Aggregation
from irene.types import Cost

COSTS = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)


@given(st.floats(-0.9, 0.9), st.floats(0.01, 3.0))
def test_break_even_is_where_a_falling_line_crosses_zero(crossing: float, slope: float) -> None:
    prices = torch.tensor([-1.0, -0.5, -0.1, 0.0, 0.2, 1.0], dtype=torch.float64)
    line = slope * (crossing - prices)
    assert float(break_even(line[None], prices)) == pytest.approx(crossing, abs=1e-9)


def test_break_even_ends_at_the_ends_of_the_ladder() -> None:
    prices = torch.tensor([-2.0, 0.0, 3.0])
    assert break_even(torch.tensor([[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]]), prices).tolist() == [3.0, -2.0]


def test_with_one_decision_the_score_is_minus_the_expected_gain_over_its_cost(
    make_bank: Callable[..., Bank],
) -> None:
    bank = make_bank(500, members=2, accuracy=(0.6, 0.9))
    mean = Aggregation.equal(2)
    policy = CostToGo.fit(bank.outputs, bank.targets, mean, COSTS[:2])
    table, means = feature_table(FEATURES["classification"], bank.outputs, mean, "classification")
    right = quality(means, bank.targets, "classification")
    weight, bias = least_squares(table[:, 0], right[:, 1:] - right[:, :1])
    expected = -(table[:, 0].double() @ weight.T + bias)[:, 0] / 2.0
    torch.testing.assert_close(bank.trajectory(policy, mean).scores_NT[:, 0], expected.float(), atol=1e-4, rtol=1e-3)


def test_looks_past_a_member_that_gains_nothing() -> None:
    """Unsure samples are half right until the third member, who knows; sure samples have nothing to gain."""
    labels = torch.arange(400) % 2
    unsure = torch.arange(400) % 4 < 2
    answer = torch.where(unsure & (torch.arange(400) % 8 < 4), 1 - labels, labels)
    size = torch.where(unsure, 0.2, 3.0)
    early = torch.stack([-size, size], 1) * (2 * answer[:, None] - 1)
    late = torch.stack([-size, size], 1) * (2 * labels[:, None] - 1)
    outputs = torch.stack([early, early, late], 1)[:, :, None]
    mean = Aggregation((1.0, 1.0, 100.0), (1.0, 1.0, 1.0))
    policy = CostToGo.fit(outputs, labels, mean, COSTS)
    bank = Bank(task="classification", outputs=outputs, targets=labels, ids=labels, costs=(Cost(),) * 3)
    scores = bank.trajectory(policy, mean).scores_NT
    expected = torch.where(unsure[:, None], -0.5 / torch.tensor([2.0 + 4.0, 4.0]), 0.0)
    torch.testing.assert_close(scores[:, :2], expected, atol=2e-3, rtol=0)


def test_prices_are_ascending_dense_near_zero_and_on_both_sides() -> None:
    prices = price_ladder(torch.tensor([[0.0, 1.0], [1.0, 1.0]], dtype=torch.float64), torch.tensor([1.0, 0.5]))
    assert bool((prices.diff() > 0).all())
    assert float(prices[-1]) == -float(prices[0]) == 2.0
    assert float(prices.abs().min()) == 0
    losses = price_ladder(torch.tensor([[-1.0, -7.0], [-1.0, 0.0]], dtype=torch.float64), torch.tensor([1.0, 0.5]))
    assert float(losses[-1]) == -float(losses[0]) == 12.0  # 6 lost at most, by a cost of 0.5


def test_scores_of_samples_that_gain_nothing_are_not_tied(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(500, accuracy=(1.0, 0.5, 0.5))
    policy = CostToGo.fit(bank.outputs, bank.targets, Aggregation.equal(3), COSTS)
    assert len(bank.trajectory(policy).scores_NT[:, 0].unique()) > 400


def test_regression_gains_by_the_squared_error(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(800, accuracy=(0.2, 0.8, 0.9), task="regression", outputs=2)
    mean = Aggregation.equal(3)
    policy = CostToGo.fit(bank.outputs, bank.targets, mean, COSTS, task="regression")

    def error(policy: Policy) -> float:
        path = bank.trajectory(policy, mean)
        cuts = path.cuts()
        costs = path.sweep(cuts, path.costs(COSTS))
        loss = -quality(path.means_NTK, bank.targets, "regression")
        return float(path.sweep(cuts[(costs - 2.0).abs().argmin()][None], loss))

    assert error(policy) <= error(Spread()) * 1.02


def test_is_written_down_and_read_back(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(200)
    mean = Aggregation.equal(3)
    policy = CostToGo.fit(bank.outputs, bank.targets, mean, COSTS).at(-0.05)
    again = restore(describe(policy), policy.state_dict())
    assert torch.equal(bank.replay(again).members_used, bank.replay(policy).members_used)


def test_cascade_and_replay_agree(
    make_bank: Callable[..., Bank],
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
) -> None:
    bank = make_bank(200, accuracy=(0.6, 0.8, 0.9))
    policy = CostToGo.fit(bank.outputs, bank.targets, Aggregation.equal(3), COSTS)
    policy = policy.at(float(bank.trajectory(policy).scores_NT[:, 0].median()))
    run = Cascade(table_members(bank), policy).predict(sample_numbers(200))
    assert torch.equal(run.members_used, bank.replay(policy).members_used)
    assert len(set(run.members_used.tolist())) > 1


def test_refuses_what_it_was_not_fitted_for(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(100)
    policy = CostToGo.fit(bank.outputs, bank.targets, Aggregation.equal(3), COSTS)
    with pytest.raises(OptionError, match="fitted for 3 members, got 4"):
        bank.members([0, 1, 2, 2]).replay(policy)
    with pytest.raises(OptionError, match="fitted for classification and the cascade is for regression"):
        make_bank(20, task="regression").replay(policy)
