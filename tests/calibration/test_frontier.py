"""The frontier says of every threshold what replaying the bank at it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from irene.bank import Bank
from irene.calibration.frontier import frontier
from irene.halting.policies import Margin, Never, Spread
from irene.halting.rule import Aggregation

MEAN = Aggregation((1.0, 2.0, 1.0), (1.3, 1.1, 1.7))


@pytest.mark.parametrize("depth", [None, 3, 2, 1])
def test_equals_replaying_at_each_threshold(lifelike_bank: Callable[..., Bank], depth: int | None) -> None:
    bank = lifelike_bank(80, flops=(1.0, 2.0, 5.0))
    curve = frontier(bank, Margin(), MEAN, "flops", depth=depth)
    used = range(depth or 3)
    part, mean = bank.members(used), Aggregation(MEAN.weights[: len(used)], MEAN.temperatures[: len(used)])
    full = bank.replay(Never(), MEAN).labels == bank.targets
    for index, threshold in enumerate(curve.thresholds_M.tolist()):
        replayed = part.replay(Margin(threshold), mean)
        right = replayed.labels == bank.targets
        assert float(curve.cost_M[index]) == pytest.approx(float(replayed.cost_in(part.costs, "flops").mean()))
        assert float(curve.quality_M[index]) == pytest.approx(float(right.double().mean()))
        assert float(curve.drop_M[index]) == pytest.approx(float((full.double() - right.double()).mean()))
        harmed = (full & ~right).sum()
        assert int(curve.count(curve.full_N[:, None] > curve.quality_NT)[index]) == int(harmed)
        assert torch.equal(curve.at(threshold, curve.quality_NT), right.double())


def test_cost_rises_with_the_threshold_from_the_first_member_to_all(lifelike_bank: Callable[..., Bank]) -> None:
    curve = frontier(lifelike_bank(500), Margin(), Aggregation.equal(3))
    assert bool((curve.cost_M.diff() > 0).all())
    assert (float(curve.cost_M[0]), float(curve.cost_M[-1])) == (1.0, 3.0)


@given(asked=st.floats(0.5, 3.5))
def test_the_threshold_for_a_cost_is_the_nearest_of_all(lifelike_bank: Callable[..., Bank], asked: float) -> None:
    bank = lifelike_bank(40)
    curve = frontier(bank, Margin(), MEAN)

    def miss(threshold: float) -> float:
        return abs(float(bank.replay(Margin(threshold), MEAN).members_used.double().mean()) - asked)

    nearest = min(map(miss, curve.thresholds_M.tolist()))
    assert miss(curve.threshold_for(asked)) == pytest.approx(nearest)


def test_quality_at_a_cost_is_read_off_between_the_two_nearest_thresholds(lifelike_bank: Callable[..., Bank]) -> None:
    curve, whole = (frontier(lifelike_bank(60), policy, MEAN) for policy in (Margin(), Never()))
    curve = replace(curve, quality_NT=torch.rand(60, 3, dtype=torch.float64))  # no two thresholds are as good
    for cost in np.linspace(0.5, 3.5, 211).tolist():
        expected = np.interp(cost, curve.cost_M, curve.quality_M)
        assert float(curve.quality_at(cost).mean()) == pytest.approx(expected, abs=1e-12)
        assert torch.equal(whole.quality_at(cost), whole.full_N)


def test_a_drop_of_values_is_the_relative_growth_of_the_squared_error(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(200, task="regression", outputs=2)
    curve = frontier(bank, Spread(), Aggregation.equal(3))
    full = float((bank.replay().values - bank.targets).square().mean())
    index = len(curve.thresholds_M) // 2
    stopped = bank.replay(Spread(float(curve.thresholds_M[index])))
    error = float((stopped.values - bank.targets).square().mean())
    assert float(curve.drop_M[index]) == pytest.approx(error / full - 1, rel=1e-5)
    assert float(curve.drop_M[-1]) == pytest.approx(0)
