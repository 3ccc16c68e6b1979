"""Expected figures are those of the replay, with intervals that hold about as often as they say."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import binom, ttest_1samp

from irene.bank import Bank
from irene.calibration.figures import drop_interval, expected_figures, mean_interval, share_interval
from irene.calibration.frontier import frontier
from irene.fitting import fit_policy
from irene.halting.policies import Margin, Random, Spread
from irene.halting.rule import Aggregation
from irene.types import Cost


@pytest.mark.parametrize("events", [0, 3, 40, 100])
def test_the_interval_of_a_share_is_exact(events: int) -> None:
    low, high = share_interval(events, 100, 0.9)
    assert low == 0 if events == 0 else binom.sf(events - 1, 100, low) == pytest.approx(0.05)
    assert high == 1 if events == 100 else binom.cdf(events, 100, high) == pytest.approx(0.05)


def test_the_interval_of_a_mean_is_that_of_a_t_test() -> None:
    values = torch.rand(50, dtype=torch.float64)
    expected = ttest_1samp(values.numpy(), 0).confidence_interval(0.95)
    assert mean_interval(values, 0.95) == pytest.approx([expected.low, expected.high])


def test_the_interval_of_a_mean_of_few_samples_covers_the_truth() -> None:
    means = [mean_interval(values, 0.9) for values in torch.randn(2000, 10, dtype=torch.float64)]
    assert sum(low <= 0 <= high for low, high in means) / 2000 == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(("lost", "won"), [(0.02, 0.005), (0.003, 0.0), (0.1, 0.1)])
def test_the_interval_of_a_drop_covers_the_truth(lost: float, won: float) -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(500):
        kind = rng.choice(3, size=600, p=[lost, won, 1 - lost - won])
        full, quality = torch.from_numpy((kind != 1) * 1.0), torch.from_numpy((kind != 0) * 1.0)
        low, high = drop_interval(full, quality, 0.9)
        covered += low <= lost - won <= high
    assert covered / 500 > 0.84


def test_figures_are_those_of_the_replay(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(500, flops=(1.0, 2.0, 3.0))
    figures = expected_figures(frontier(bank, Margin(), Aggregation.equal(3), "flops"), 0.6, confidence=0.9)
    replayed = bank.replay(Margin(0.6))
    right = replayed.labels == bank.targets
    full = bank.replay().labels == bank.targets
    assert figures["cost"] == pytest.approx(float(replayed.cost_in(bank.costs, "flops").mean()))
    assert figures["accuracy"] == pytest.approx(float(right.double().mean()))
    assert figures["drop"] == pytest.approx(float(full.double().mean() - right.double().mean()))
    assert figures["used"] == pytest.approx([float((replayed.members_used == n).double().mean()) for n in (1, 2, 3)])
    for name, (low, high) in figures["intervals"].items():
        assert low < figures[name] < high


def test_regression_figures_hold_mse_and_its_relative_growth(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(400, task="regression", outputs=2)
    curve = frontier(bank, Spread(), Aggregation.equal(3))
    threshold = float(curve.thresholds_M[len(curve.thresholds_M) // 2])
    figures = expected_figures(curve, threshold, confidence=0.9)
    error = (bank.replay(Spread(threshold)).values - bank.targets).square().mean(1).double()
    full = (bank.replay().values - bank.targets).square().mean(1).double()
    assert figures["mse"] == pytest.approx(float(error.mean()), rel=1e-5)
    assert figures["drop"] == pytest.approx(float(error.mean() / full.mean()) - 1, rel=1e-4)
    draws = torch.randint(400, (2000, 400))
    ratios = error[draws].mean(1) / full[draws].mean(1) - 1
    low, high = figures["intervals"]["drop"]
    bootstrapped = ratios.quantile(torch.tensor([0.05, 0.95], dtype=torch.float64)).tolist()
    assert [low, high] == pytest.approx(bootstrapped, abs=0.15 * (high - low))


@pytest.mark.parametrize(("first", "drop", "interval"), [(0.0, 0.0, [0.0, 0.0]), (1.0, math.inf, [math.nan, math.nan])])
def test_growth_from_no_error_is_none_or_without_end(first: float, drop: float, interval: list[float]) -> None:
    """The two members err by the same to either side, and their mean not at all."""
    targets = torch.arange(20.0)[:, None]
    outputs = torch.stack([targets + first, targets - first], 1)[:, :, None]
    ids, costs = torch.arange(20), (Cost(), Cost())
    bank = Bank(task="regression", outputs=outputs, targets=targets, ids=ids, costs=costs)
    curve = frontier(bank, Random(), Aggregation.equal(2))
    figures = expected_figures(curve, float(curve.thresholds_M[0]), confidence=0.9)
    assert (figures["cost"], figures["mse"], figures["drop"]) == (1, first, drop)
    assert math.copysign(1, figures["mse"]) == 1
    assert figures["intervals"]["drop"] == pytest.approx(interval, nan_ok=True)
    whole = fit_policy(bank, Random(), max_drop=0.01)
    assert whole.expected["cost"] == (1 if first == 0 else 2)
    assert whole.expected["intervals"]["drop"] == [0, 0]
