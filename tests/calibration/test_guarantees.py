"""Promises hold: over a thousand calibrations, on smooth and on step-shaped curves, few enough are broken."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from torch import Tensor

from irene.calibration.frontier import Frontier
from irene.calibration.guarantees import last_passing, lowest_rate, mean_p_value, most_events
from irene.calibration.wishes import threshold_for_guaranteed_cost, threshold_for_risk, thresholds_for_latency
from irene.halting.trajectory import Trajectory

RESAMPLES = 1000
DELTA = 0.1
MOST_BROKEN = int(binom.ppf(0.999, RESAMPLES, DELTA))  # of a thousand, where each breaks with probability delta


@given(st.integers(1, 400), st.floats(0.001, 0.5), st.floats(0.01, 0.3))
def test_most_events_is_the_last_count_whose_exact_test_rejects(samples: int, rate: float, delta: float) -> None:
    passed = [binomtest(k, samples, rate, alternative="less").pvalue <= delta for k in range(min(samples, 60) + 1)]
    assert min(most_events(samples, rate, delta), len(passed) - 1) == sum(passed) - 1


def test_lowest_rate_is_where_a_clean_sample_just_suffices() -> None:
    rate = lowest_rate(500, DELTA)
    assert most_events(500, rate * 1.0001, DELTA) == 0
    assert most_events(500, rate * 0.9999, DELTA) == -1


@given(st.lists(st.booleans(), max_size=12))
def test_last_passing_stops_before_the_first_failure(tests: list[bool]) -> None:
    expected = tests.index(False) - 1 if False in tests else len(tests) - 1
    assert last_passing(torch.tensor(tests, dtype=torch.bool)) == expected


def test_mean_p_value_is_hoeffding_bentkus() -> None:
    n, mean, bound = 200, 0.11, 0.2
    distance = mean * math.log(mean / bound) + (1 - mean) * math.log((1 - mean) / (1 - bound))
    expected = min(math.exp(-n * distance), math.e * binom.cdf(math.ceil(n * mean), n, bound))
    p_values = mean_p_value(torch.tensor([mean, 0.2, 0.5, 0.0], dtype=torch.float64), n, bound)
    assert p_values[0] == pytest.approx(expected)
    assert p_values[1:3].tolist() == [1.0, 1.0]
    assert p_values[3] == pytest.approx((1 - bound) ** n)


@pytest.mark.parametrize("shape", ["coin", "flat"])
def test_mean_p_value_is_small_no_more_often_than_it_says(shape: str) -> None:
    rng = np.random.default_rng(0)
    draws = rng.random((4000, 150))
    values = (draws < 0.3) if shape == "coin" else draws * 0.6
    p_values = mean_p_value(torch.from_numpy(values.mean(1)), 150, 0.3)
    assert float((p_values <= DELTA).double().mean()) <= DELTA


def first_step(scores_N: Tensor, harmed_N: Tensor) -> Frontier:
    """Two members; the second is always right, the first wrong on some samples."""
    scores_NT = torch.stack([scores_N, torch.zeros_like(scores_N)], 1)
    quality_NT = torch.stack([1 - harmed_N, torch.ones_like(harmed_N)], 1)
    path = Trajectory("classification", scores_NT, torch.zeros(len(scores_N), 2, 2))
    return Frontier(path, path.costs(torch.ones(2, dtype=torch.float64)), quality_NT, quality_NT[:, 1])


def smooth(scores: Tensor) -> Tensor:
    return 0.3 * (1 - scores) ** 2


def step(scores: Tensor) -> Tensor:
    return torch.where(scores > 0.55, 0.0, 0.4)


def spiky(scores: Tensor) -> Tensor:
    """Harmless, then harmful, then harmless again: the cheapest thresholds are not worse than some dearer ones."""
    return torch.where((scores > 0.5) & (scores < 0.6), 0.9, 0.001)


@pytest.mark.parametrize("harm", [smooth, step, spiky])
@pytest.mark.parametrize("levels", [None, 10])
def test_risk_is_broken_in_at_most_delta_of_the_calibrations(
    harm: Callable[[Tensor], Tensor], levels: int | None
) -> None:
    generator = torch.Generator().manual_seed(1)
    # With levels scores are tied, and the risk jumps from one threshold to the next.
    possible = torch.linspace(0, 1, 20_001) if levels is None else torch.linspace(0.05, 0.95, levels)
    possible = possible.double()
    rates = harm(possible)
    asked, broken, costs = 0.02, 0, []
    for _ in range(RESAMPLES):
        picked = torch.randint(len(possible), (600,), generator=generator)
        scores = possible[picked]
        harmed = (torch.rand(600, generator=generator, dtype=torch.float64) < rates[picked]).double()
        curve = first_step(scores, harmed)
        index = threshold_for_risk(curve, asked, 1 - DELTA)
        truth = float(rates[possible >= curve.thresholds_M[index]].sum()) / len(possible)
        broken += truth > asked
        costs.append(float(curve.cost_M[index]))
    assert broken <= MOST_BROKEN
    assert np.mean(costs) < 1.9  # and the promise is not kept by never stopping


@pytest.mark.parametrize("levels", [None, 10])
def test_a_cost_budget_is_exceeded_in_at_most_delta_of_the_calibrations(levels: int | None) -> None:
    generator = torch.Generator().manual_seed(2)
    possible = torch.linspace(0, 1, 20_001).double() if levels is None else torch.linspace(0.05, 0.95, levels).double()
    asked, broken, costs = 1.3, 0, []
    for _ in range(RESAMPLES):
        scores = possible[torch.randint(len(possible), (600,), generator=generator)]
        curve = first_step(scores, torch.zeros_like(scores))
        index = threshold_for_guaranteed_cost(curve, asked, 1 - DELTA, "members")
        truth = 1 + float((possible < curve.thresholds_M[index]).double().mean())
        broken += truth > asked + 1e-9
        costs.append(truth)
    assert broken <= MOST_BROKEN
    assert np.mean(costs) > 1.15


def test_a_latency_is_exceeded_in_at_most_delta_of_the_calibrations() -> None:
    generator = torch.Generator().manual_seed(3)
    broken, shares = 0, []
    for _ in range(RESAMPLES):
        curve = first_step(torch.rand(1500, generator=generator, dtype=torch.float64), torch.zeros(1500).double())
        within = thresholds_for_latency(curve, curve.costs_NT, 1.5, 1 - DELTA)
        late = float(curve.thresholds_M[within][-1].clamp(0, 1))
        broken += late > 0.01
        shares.append(late)
    assert broken <= MOST_BROKEN
    assert np.mean(shares) > 0.003
