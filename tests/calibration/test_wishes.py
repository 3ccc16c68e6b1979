"""Each wish gives the threshold a search through all of them would find, or names the nearest possible."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from irene.bank import Bank
from irene.calibration import wishes
from irene.calibration.frontier import Frontier, frontier
from irene.calibration.wishes import Wish
from irene.errors import CalibrationError, OptionError
from irene.fitting import fit_policy
from irene.halting.policies import Margin
from irene.halting.rule import Aggregation
from irene.halting.trajectory import Trajectory


@pytest.fixture
def curve(lifelike_bank: Callable[..., Bank]) -> Frontier:
    return frontier(lifelike_bank(400), Margin(), Aggregation.equal(3))


def tied(shares: list[float]) -> Frontier:
    """Two members, with a share of the samples at each of a few scores."""
    scores_N = torch.cat([torch.full((round(1000 * share),), 0.1 * k) for k, share in enumerate(shares)])
    path = Trajectory("classification", torch.stack([scores_N, scores_N], 1), torch.zeros(len(scores_N), 2, 2))
    ones_NT = torch.ones(len(scores_N), 2, dtype=torch.float64)
    return Frontier(path, path.costs(torch.ones(2, dtype=torch.float64)), ones_NT, ones_NT[:, 1])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "exactly one of cost, max_drop, p99 and risk; got none"),
        ({"cost": 1.3, "risk": 0.1}, "got cost, risk"),
        ({"cost": 0.0}, "cost must be above 0"),
        ({"cost": float("nan")}, "finite"),
        ({"cost": "1.3"}, "cost must be a finite number, got '1.3'"),
        ({"cost": 1.3, "confidence": "90%"}, "confidence must be a finite number, got '90%'"),
        ({"risk": 1.0}, "0.005 for 0.5 %"),
        ({"risk": 1.5}, "0.005 for 0.5 %"),
        ({"risk": 0.1, "confidence": 90.0}, "0.9 for 90 %"),
        ({"risk": 0.1, "confidence": 1.0}, "confidence must lie between 0 and 1"),
        ({"max_drop": 0.1, "guaranteed": True}, "guaranteed is for cost, got max_drop"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Wish(**asked)


def test_risk_and_latency_need_right_and_wrong_answers() -> None:
    for asked in ({"risk": 0.1}, {"p99": 3.0}):
        with pytest.raises(OptionError, match="for regression ask for cost or max_drop"):
            Wish(**asked).check_task("regression")
    Wish(cost=1.5).check_task("regression")


def test_a_drop_of_all_samples_is_a_forgotten_percent() -> None:
    with pytest.raises(OptionError, match=r"max_drop is a share of samples, such as 0\.005 .* got 1$"):
        Wish(max_drop=1).check_task("classification")
    Wish(max_drop=0.5).check_task("classification")
    Wish(max_drop=1.5).check_task("regression")  # of the squared error, which may well double


def test_what_was_asked_is_written_down() -> None:
    assert Wish(cost=1.3).to_dict() == {"cost": 1.3, "unit": "members"}
    assert json.dumps(Wish(cost=np.float32(1.5)).to_dict()) == '{"cost": 1.5, "unit": "members"}'
    assert Wish(p99=8.0).to_dict() == {"p99": 8.0, "unit": "ms", "confidence": 0.9}
    assert Wish(cost=2e6, unit="flops", guaranteed=True, confidence=0.8).to_dict() == {
        "cost": 2e6,
        "unit": "flops",
        "confidence": 0.8,
        "guaranteed": True,
    }


@pytest.mark.parametrize("asked", [1.0, 1.05, 1.3, 1.77, 2.5, 3.0])
def test_no_other_threshold_is_nearer_to_the_asked_cost(curve: Frontier, asked: float) -> None:
    index = wishes.threshold_for_cost(curve, asked, "members")
    assert abs(float(curve.cost_M[index]) - asked) <= float((curve.cost_M - asked).abs().min())
    assert abs(float(curve.cost_M[index]) - asked) <= 2 / 400


@pytest.mark.parametrize(("asked", "nearest"), [(0.5, "1"), (7.0, "3")])
def test_a_cost_out_of_reach_names_the_nearest(curve: Frontier, asked: float, nearest: str) -> None:
    with pytest.raises(CalibrationError, match=f"1 to 3 members can be reached; the nearest possible is {nearest}$"):
        wishes.threshold_for_cost(curve, asked, "members")


def test_a_cost_between_tied_scores_names_the_nearest() -> None:
    curve = tied([0.2, 0.5, 0.3])
    assert float(curve.cost_M[wishes.threshold_for_cost(curve, 1.7, "members")]) == pytest.approx(1.7)
    with pytest.raises(
        CalibrationError, match=r"too many of the 1000 samples share a score; the nearest possible is 1\.2"
    ):
        wishes.threshold_for_cost(curve, 1.4, "members")
    with pytest.raises(CalibrationError, match=r"share a score, as all .* the same score after the first member; the"):
        wishes.threshold_for_cost(tied([1.0]), 1.5, "members")


def test_flops_out_of_reach_are_written_as_everywhere(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(500, flops=(1.0, 2.0, 3.0))
    for guaranteed in (False, True):
        with pytest.raises(CalibrationError, match=r"cost of 9K flops cannot be .* nearest possible is \d[\d.]*[KM]\b"):
            fit_policy(bank, "margin", cost=9e3, unit="flops", guaranteed=guaranteed)


def test_a_policy_that_stops_nobody_has_one_cost_to_offer(lifelike_bank: Callable[..., Bank]) -> None:
    with pytest.raises(CalibrationError, match="only 3 members can be reached"):
        fit_policy(lifelike_bank(100), "never", cost=1.5)


@pytest.mark.parametrize("policy", ["spread", "cost-to-go"])
def test_values_of_single_heads_say_why_nobody_stops_after_the_first(
    make_bank: Callable[..., Bank], policy: str
) -> None:
    alone, pair = (make_bank(200, members=2, heads=heads, task="regression") for heads in (1, 2))
    with pytest.raises(
        CalibrationError, match=r"same score after the first member \(in regression .* give it two heads"
    ):
        fit_policy(alone, policy, cost=1.5)
    with pytest.raises(CalibrationError, match="can be reached; the nearest possible is 2"):
        fit_policy(alone, policy, cost=5)
    assert fit_policy(pair, policy, cost=1.5).expected["cost"] == pytest.approx(1.5, abs=0.02)


@pytest.mark.parametrize("asked", [0.0, 0.01, 0.05, 1.0])
def test_no_cheaper_threshold_keeps_the_asked_drop(curve: Frontier, asked: float) -> None:
    index = wishes.threshold_for_drop(curve, asked)
    good = [i for i, drop in enumerate(curve.drop_M.tolist()) if drop <= asked + 1e-9]
    assert float(curve.cost_M[index]) == min(float(curve.cost_M[i]) for i in good)
    assert index in good


def test_a_gain_out_of_reach_names_the_nearest_drop(curve: Frontier) -> None:
    with pytest.raises(CalibrationError, match=f"nearest possible is {100 * float(curve.drop_M.min()):.4g}%"):
        wishes.threshold_for_drop(curve, -0.9)


def test_risk_takes_the_last_passing_threshold(curve: Frontier) -> None:
    index = wishes.threshold_for_risk(curve, 0.05, 0.9)
    harmed = curve.count(curve.full_N[:, None] > curve.quality_NT)
    from scipy.stats import binom

    p_values = [float(binom.cdf(k, 400, 0.05)) for k in harmed.tolist()]
    assert all(p <= 0.1 for p in p_values[index:])
    assert p_values[index - 1] > 0.1


def test_a_risk_too_small_for_the_samples_names_the_nearest(curve: Frontier) -> None:
    with pytest.raises(CalibrationError, match=r"from 400 samples: the nearest possible is 0\.574%"):
        wishes.threshold_for_risk(curve, 0.001, 0.9)


def test_a_risk_is_refused_where_infinite_scores_stop_samples_at_every_threshold() -> None:
    scores_NT = torch.full((400, 2), torch.inf)
    scores_NT[:200] = torch.linspace(0, 1, 200)[:, None]
    path = Trajectory("classification", scores_NT, torch.zeros(400, 2, 2))
    quality_NT = torch.tensor([[0.0, 1.0]], dtype=torch.float64).expand(400, 2)  # who stops early is wrong
    curve = Frontier(path, path.costs(torch.ones(2, dtype=torch.float64)), quality_NT, quality_NT[:, 1])
    with pytest.raises(CalibrationError, match=r"a risk of 5% cannot be promised: .* infinite score"):
        wishes.threshold_for_risk(curve, 0.05, 0.9)


@pytest.mark.parametrize("samples", [50, 173, 288, 999])
def test_the_nearest_risk_that_is_named_can_be_promised(lifelike_bank: Callable[..., Bank], samples: int) -> None:
    curve = frontier(lifelike_bank(samples), Margin(), Aggregation.equal(3))
    with pytest.raises(CalibrationError, match="nearest possible") as caught:
        wishes.threshold_for_risk(curve, 1e-5, 0.9)
    named = float(str(caught.value).rsplit(" ", 1)[1].rstrip("%")) / 100
    wishes.threshold_for_risk(curve, named, 0.9)


def test_a_promised_cost_lies_below_the_asked_one(curve: Frontier) -> None:
    index = wishes.threshold_for_guaranteed_cost(curve, 1.5, 0.9, "members")
    assert 1.3 < float(curve.cost_M[index]) < 1.5
    assert wishes.threshold_for_guaranteed_cost(curve, 3.0, 0.9, "members") == len(curve.cost_M) - 1
    with pytest.raises(CalibrationError, match=r"nearest possible is 1\.01"):
        wishes.threshold_for_guaranteed_cost(curve, 1.001, 0.9, "members")


def test_latency_is_kept_by_a_run_of_cheap_thresholds(lifelike_bank: Callable[..., Bank]) -> None:
    curve = frontier(lifelike_bank(2000), Margin(), Aggregation.equal(3))
    within = wishes.thresholds_for_latency(curve, curve.costs_NT, 1.5, 0.9)
    last = int(within.sum()) - 1
    assert bool(within[: last + 1].all())
    late = curve.count(curve.costs_NT > 1.5)
    assert int(late[last]) == wishes.most_events(2000, 0.01, 0.1) < 20
    assert bool(wishes.thresholds_for_latency(curve, curve.costs_NT, 3.0, 0.9).all())
