"""Drift is reported when data have changed enough to matter, and hardly ever when they have not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency, fisher_exact, ks_2samp

from irene.bank import Bank
from irene.calibration.drift import _chi_square, check_drift
from irene.errors import OptionError
from irene.fitting import fit_policy
from irene.halting.policies import Never, Spread
from irene.point import OperatingPoint


@pytest.fixture
def point(lifelike_bank: Callable[..., Bank]) -> OperatingPoint:
    return fit_policy(lifelike_bank(3000), "margin", cost=1.5)


def test_data_as_before_hardly_ever_raise_an_alarm(lifelike_bank: Callable[..., Bank], point: OperatingPoint) -> None:
    fresh = lifelike_bank(40_000, seed=9)
    prediction = fresh.replay(point.policy, point.aggregation)
    alarms = 0
    for part in torch.randperm(40_000).chunk(100):
        some = replace(
            prediction,
            outputs=prediction.outputs[part],
            members_used=prediction.members_used[part],
            trace=prediction.trace[part],
        )
        alarms += check_drift(point, some).recalibrate
    assert alarms <= 5
    all_of_it = check_drift(point, prediction)
    assert not all_of_it.recalibrate
    assert all_of_it.verdict.startswith("no drift that matters")


def test_harder_data_are_noticed(lifelike_bank: Callable[..., Bank], point: OperatingPoint) -> None:
    harder = lifelike_bank(800, skills=(1.0, 1.0, 1.0), seed=9).replay(point.policy, point.aggregation)
    drift = check_drift(point, harder)
    assert drift.recalibrate
    assert drift.verdict.startswith("recalibrate: ")
    assert "stop at another step" in drift.verdict
    assert drift.used[2] > drift.used_before[2]
    assert drift.samples == 800


def test_samples_that_failed_have_no_score_to_compare(
    lifelike_bank: Callable[..., Bank], point: OperatingPoint
) -> None:
    harder = lifelike_bank(800, skills=(1.0, 1.0, 1.0), seed=9).replay(point.policy, point.aggregation)
    outputs, trace = harder.outputs.clone(), harder.trace.clone()
    outputs[0], trace[0] = torch.nan, -torch.inf
    drift = check_drift(point, replace(harder, outputs=outputs, trace=trace))
    assert drift.score_shift == pytest.approx(check_drift(point, harder).score_shift, rel=0.05)


@pytest.mark.parametrize(("moved", "matters"), [(0.015, False), (0.025, True)])
def test_a_shift_beyond_chance_may_be_too_small_to_matter(
    lifelike_bank: Callable[..., Bank], moved: float, matters: bool
) -> None:
    bank = lifelike_bank(40_000)
    point = fit_policy(bank, "margin", cost=1.5)
    prediction = bank.replay(point.policy, point.aggregation)
    used = prediction.members_used.clone()
    used[(used == 1).nonzero()[: int(moved * len(bank)), 0]] = 2
    drift = check_drift(point, replace(prediction, members_used=used))
    assert drift.exit_shift == pytest.approx(moved)
    assert drift.exit_p < 0.01
    assert drift.recalibrate is matters
    assert drift.verdict.startswith("recalibrate: 2.5%" if matters else "no drift that matters")


@pytest.mark.parametrize(("added", "matters"), [(0.03, False), (0.1, True)])
def test_scores_beyond_chance_may_have_shifted_too_little_to_matter(
    lifelike_bank: Callable[..., Bank], added: float, matters: bool
) -> None:
    bank = lifelike_bank(40_000)
    point = fit_policy(bank, "margin", cost=1.5)
    prediction = bank.replay(point.policy, point.aggregation)
    drift = check_drift(point, replace(prediction, trace=prediction.trace + added))
    assert drift.exit_shift == 0
    assert drift.score_p < 0.01
    assert (drift.score_shift > 0.1) is matters
    assert drift.recalibrate is matters


@pytest.mark.parametrize(("fallen", "matters"), [(50, False), (500, True)])
def test_a_fall_from_a_score_that_nearly_all_shared_is_noticed(
    lifelike_bank: Callable[..., Bank], fallen: int, matters: bool
) -> None:
    bank = lifelike_bank(1000)
    point = fit_policy(bank, "margin", cost=1.5)
    prediction = bank.replay(point.policy, point.aggregation)
    before, now = torch.ones(1000), torch.ones(1000)
    before[:50] = torch.linspace(0.0, 0.9, 50)
    now[:fallen] = torch.linspace(0.0, 0.9, fallen)
    trace = prediction.trace.clone()
    trace[:, 0] = now
    drift = check_drift(replace(point, scores=before), replace(prediction, trace=trace))
    assert drift.exit_shift == 0
    assert (drift.score_shift > 0.1) is matters
    assert drift.recalibrate is matters


def test_figures_are_those_of_the_textbook(lifelike_bank: Callable[..., Bank], point: OperatingPoint) -> None:
    prediction = lifelike_bank(1000, sharpness=1.3, seed=9).replay(point.policy, point.aggregation)
    drift = check_drift(point, prediction)
    now = torch.bincount(prediction.members_used - 1, minlength=3)
    before = torch.tensor([round(share * 3000) for share in point.expected["used"]])
    table = torch.stack([before, now]).numpy()
    assert drift.exit_p == pytest.approx(chi2_contingency(table, correction=False).pvalue)
    assert drift.exit_shift == pytest.approx(float((now / 1000 - before / 3000).abs().sum()) / 2)
    test = ks_2samp(point.scores.numpy(), prediction.trace[:, 0].numpy(), method="asymp")
    assert drift.score_distance == pytest.approx(test.statistic)
    assert drift.score_p == pytest.approx(test.pvalue)
    deciles = np.quantile(point.scores.numpy(), np.arange(1, 10) / 10)
    old, new = (
        np.bincount(np.searchsorted(deciles, scores.numpy()), minlength=10)
        + 0.5  # half a sample keeps logarithms finite
        for scores in (point.scores, prediction.trace[:, 0])
    )
    old, new = old / old.sum(), new / new.sum()
    assert drift.score_shift == pytest.approx(float(((new - old) * np.log(new / old)).sum()), rel=1e-6)


@pytest.mark.parametrize(
    ("before", "now"), [((34, 14), (0, 359)), ((34, 14), (359, 0)), ((80, 15, 5), (8000, 100, 1900)), ((9, 1), (0, 40))]
)
def test_a_step_that_hardly_any_sample_takes_now_is_missed(before: tuple[int, ...], now: tuple[int, ...]) -> None:
    assert _chi_square(torch.tensor(before).double(), torch.tensor(now).double()) < 0.001


def test_steps_that_nobody_takes_say_nothing() -> None:
    assert _chi_square(torch.tensor([40.0, 0.0, 0.0]), torch.tensor([900.0, 0.0, 0.0])) == 1
    two = _chi_square(torch.tensor([40.0, 60.0]), torch.tensor([300.0, 600.0]))
    assert _chi_square(torch.tensor([40.0, 0.0, 60.0]), torch.tensor([300.0, 0.0, 600.0])) == two
    assert _chi_square(torch.tensor([40.0, 60.0]), torch.tensor([0.0, 0.0])) == 1
    assert _chi_square(torch.tensor([0.0, 4.0]), torch.tensor([0.0, 900.0])) == 1


def test_where_few_are_expected_it_is_fishers_exact_test() -> None:
    # With one sample on one side the tables are ranked alike by chi-square and by their probability.
    for before, now in (((0, 1), (95, 5)), ((1, 0), (95, 5)), ((0, 1), (999, 1))):
        exact = fisher_exact([before, now]).pvalue
        found = _chi_square(torch.tensor(before).double(), torch.tensor(now).double())
        assert found == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("samples", [(200, 50_000), (5000, 120), (48, 359)])
@pytest.mark.parametrize("shares", [(0.9, 0.09, 0.01), (0.96, 0.01, 0.01, 0.02), (0.01, 0.0, 0.99)])
def test_without_drift_p_values_are_valid(samples: tuple[int, int], shares: tuple[float, ...]) -> None:
    chance = np.random.default_rng(7)
    p_values = [
        _chi_square(*(torch.from_numpy(chance.multinomial(count, shares)).double() for count in samples))
        for _ in range(150)
    ]
    for level in (0.01, 0.05, 0.2):  # the binomial allows four standard errors more
        assert np.mean(np.array(p_values) <= level) <= level + 4 * (level * (1 - level) / 150) ** 0.5


def test_a_few_samples_cannot_tell(lifelike_bank: Callable[..., Bank], point: OperatingPoint) -> None:
    drift = check_drift(point, lifelike_bank(50, skills=(0.1,) * 3).replay(point.policy, point.aggregation))
    assert not drift.recalibrate
    assert drift.verdict == "too few samples to tell: 50, and 100 are needed"
    enough = check_drift(point, lifelike_bank(100, skills=(0.1,) * 3).replay(point.policy, point.aggregation))
    assert enough.recalibrate
    assert enough.verdict.startswith("recalibrate: ")


def test_policies_without_an_early_score_are_compared_by_what_they_have(
    lifelike_bank: Callable[..., Bank], make_bank: Callable[..., Bank]
) -> None:
    bank = lifelike_bank(300)
    never = fit_policy(bank, Never(), cost=3.0)
    drift = check_drift(never, bank.replay(never.policy, never.aggregation))
    assert math.isnan(drift.score_p)
    assert drift.exit_p == 1.0
    assert not drift.recalibrate
    values = make_bank(300, heads=1, task="regression", outputs=2)
    spread = fit_policy(values, Spread(), cost=2.5)  # the first step of one head has no score
    assert len(spread.scores) == 300
    assert check_drift(spread, values.replay(spread.policy)).score_distance == 0


def test_skipping_is_compared_by_its_first_member(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(1000, skills=(2.0, 1.0, 3.0), flops=(3.0, 1.0, 6.0))
    point = fit_policy(bank, "skipping", cost=3e6, unit="flops")
    prediction = bank.replay(point.policy, point.aggregation)
    assert check_drift(point, prediction).score_distance == 0
    assert not check_drift(point, prediction).recalibrate


def test_a_prediction_of_other_members_is_refused(lifelike_bank: Callable[..., Bank], point: OperatingPoint) -> None:
    with pytest.raises(OptionError, match="uses 3 members and the prediction is of 2"):
        check_drift(point, lifelike_bank(200).members([0, 1]).replay())
