"""fit_policy gives what is asked, on the bank and on data it has not seen, or says why it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from irene.bank import Bank
from irene.calibration.fit import split_for_promise
from irene.calibration.selection import Fitted, Fitter, Learner
from irene.cascade import Cascade
from irene.errors import CalibrationError, OptionError
from irene.fitting import fit_policy
from irene.halting.policies import Margin, Random
from irene.halting.policy import Policy, State, Step
from irene.halting.registry import POLICIES
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.point import OperatingPoint
from irene.training.afterwards import selector_fitter
from irene.types import Cost, CostUnit, Prediction

SKILLS = (1.0, 2.0, 3.0)
FLOPS = (1.0, 3.0, 6.0)
FITTED = sorted(set(POLICIES) - {"never", "spread", "selector"})


def at(point: OperatingPoint, bank: Bank) -> Prediction:
    return bank.members(point.members).replay(point.policy, point.aggregation)


def mean_cost(point: OperatingPoint, bank: Bank, unit: CostUnit = "members") -> float:
    used = bank.members(point.members)
    return float(at(point, bank).cost_in(used.costs, unit).mean())


def wrong_where_full_is_right(point: OperatingPoint, bank: Bank) -> float:
    full = bank.replay(aggregation=point.aggregation).labels == bank.targets
    return float((full & (at(point, bank).labels != bank.targets)).double().mean())


@pytest.mark.parametrize("name", FITTED)
def test_every_policy_meets_the_asked_cost_and_nearly_so_on_fresh_data(
    lifelike_bank: Callable[..., Bank], name: str
) -> None:
    bank, fresh = lifelike_bank(2000, skills=SKILLS, seed=1), lifelike_bank(4000, skills=SKILLS, seed=2)
    point = fit_policy(bank, name, cost=1.4)
    assert mean_cost(point, bank) == pytest.approx(1.4, abs=1e-3)
    assert point.expected["cost"] == pytest.approx(mean_cost(point, bank))
    assert point.data["samples"] == 2000
    assert mean_cost(point, fresh) == pytest.approx(1.4, abs=0.06)


@pytest.mark.parametrize(("unit", "asked"), [("flops", 3.5e6), ("ms", 7.0), ("members", 1.7)])
def test_costs_are_met_in_every_unit(lifelike_bank: Callable[..., Bank], unit: CostUnit, asked: float) -> None:
    bank = lifelike_bank(1000, skills=SKILLS, flops=FLOPS)
    point = fit_policy(bank, "margin", cost=asked, unit=unit)
    assert mean_cost(point, bank, unit) == pytest.approx(asked, rel=0.01)
    assert point.asked == {"cost": asked, "unit": unit}
    assert point.expected["unit"] == unit


def test_a_drop_is_met_at_less_than_the_cost_of_all_members(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(3000)
    point = fit_policy(bank, "margin", max_drop=0.01)
    full = float((bank.replay(aggregation=point.aggregation).labels == bank.targets).double().mean())
    kept = float((at(point, bank).labels == bank.targets).double().mean())
    assert full - kept <= 0.01 + 1e-12
    assert point.expected["drop"] == pytest.approx(full - kept)
    assert point.expected["cost"] < 2


@pytest.mark.parametrize("name", ["margin", "change", "cost-to-go"])
def test_what_is_expected_is_no_better_than_what_is_seen(lifelike_bank: Callable[..., Bank], name: str) -> None:
    """In-sample accuracy of a policy fitted on few samples would be too high by points."""
    fresh = lifelike_bank(20_000, skills=SKILLS, seed=99)
    surplus = []
    for seed in range(12):
        point = fit_policy(lifelike_bank(150, skills=SKILLS, seed=seed), name, cost=1.4)
        surplus.append(point.expected["accuracy"] - float((at(point, fresh).labels == fresh.targets).double().mean()))
    assert abs(sum(surplus) / 12) < 0.03


def test_a_learned_policy_meets_a_drop_on_samples_it_was_not_fitted_on(lifelike_bank: Callable[..., Bank]) -> None:
    point = fit_policy(lifelike_bank(1000), "change", max_drop=0.02)
    assert point.data["samples"] == 600
    assert point.expected["drop"] <= 0.02


def test_risk_holds_on_fresh_data(lifelike_bank: Callable[..., Bank]) -> None:
    point = fit_policy(lifelike_bank(6000, seed=1), risk=0.02, confidence=0.95)
    assert wrong_where_full_is_right(point, lifelike_bank(20_000, seed=2)) <= 0.02
    assert point.expected["risk"]["bound"] == 0.02
    assert point.expected["risk"]["value"] < 0.02
    assert point.expected["cost"] < 2
    assert point.data["samples"] == 3600  # the others were for fitting


def test_a_promised_cost_holds_on_fresh_data(lifelike_bank: Callable[..., Bank]) -> None:
    point = fit_policy(lifelike_bank(4000, seed=1), "margin", cost=1.4, guaranteed=True)
    assert 1.3 < mean_cost(point, lifelike_bank(20_000, seed=2)) <= 1.4


def test_p99_holds_and_uses_all_members_when_they_fit(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(2000, skills=SKILLS, flops=FLOPS)  # 2, 6 and 12 ms
    point = fit_policy(bank, "margin", p99=20.0)
    assert point.members == (0, 1, 2)
    assert point.expected["p99"] == 20.0
    best = fit_policy(bank, "margin", max_drop=0.0)
    assert point.expected["accuracy"] >= best.expected["accuracy"] - 0.02


def test_p99_leaves_out_members_that_come_too_late(lifelike_bank: Callable[..., Bank]) -> None:
    bank, fresh = (lifelike_bank(2000, skills=SKILLS, flops=FLOPS, seed=seed) for seed in (1, 2))
    point = fit_policy(bank, "margin", p99=9.0)
    assert point.members == (0, 1)
    assert len(point.aggregation.weights) == len(point.expected["used"]) == 2
    assert float(at(point, fresh).cost_in(bank.costs[:2], "ms").max()) <= 9.0
    assert point.expected["drop"] > 0  # against all three


def test_p99_may_let_a_few_samples_go_on(lifelike_bank: Callable[..., Bank]) -> None:
    bank, fresh = (lifelike_bank(8000, skills=SKILLS, flops=FLOPS, seed=seed) for seed in (1, 2))
    point = fit_policy(bank, "margin", p99=3.0)
    latency = at(point, fresh).cost_in(bank.costs, "ms")
    assert point.members == (0, 1, 2)
    assert 0 < float((latency > 3.0).double().mean()) <= 0.01
    assert point.expected["p99"] == 2.0


def test_p99_below_the_first_member_names_the_nearest(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(500, flops=FLOPS)
    for name in ("margin", "skipping"):
        with pytest.raises(CalibrationError, match="nearest possible is 2 ms"):
            fit_policy(bank, name, p99=1.0)
    with pytest.raises(OptionError, match="no measured cost in ms"):
        fit_policy(replace(bank, costs=(Cost(),) * 3), "margin", p99=1.0)


@pytest.mark.parametrize(("name", "nearest"), [("margin", 2), ("skipping", 20)])
def test_few_samples_promise_no_p99_of_a_few_that_go_on(
    lifelike_bank: Callable[..., Bank], name: str, nearest: float
) -> None:
    bank = lifelike_bank(200, flops=FLOPS)  # too few to show that at most 1 % come late, so none may
    with pytest.raises(CalibrationError, match=f"nearest possible is {nearest} ms"):
        fit_policy(bank, name, p99=1.0)
    assert fit_policy(bank, name, p99=nearest).expected["p99"] <= nearest


def test_skipping_is_calibrated_like_any_other_policy(lifelike_bank: Callable[..., Bank]) -> None:
    bank, fresh = (lifelike_bank(4000, skills=(1.0, 0.5, 3.0), flops=FLOPS, seed=seed) for seed in (1, 2))
    point = fit_policy(bank, "skipping", cost=3e6, unit="flops")
    assert mean_cost(point, bank, "flops") == pytest.approx(3e6, rel=0.01)
    assert bool((at(point, fresh).ran[:, 2] & ~at(point, fresh).ran[:, 1]).any())
    risky = fit_policy(bank, "skipping", risk=0.05, unit="flops")
    assert wrong_where_full_is_right(risky, fresh) <= 0.055
    latency = at(fit_policy(bank, "skipping", p99=15.0), fresh).cost_in(bank.costs, "ms")
    assert float((latency > 15.0).double().mean()) <= 0.012


def test_a_fitted_policy_only_gets_a_threshold(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(300)
    selector = Selector()
    threshold = selector.threshold
    point = fit_policy(bank, selector, cost=1.5)
    assert point.aggregation == Aggregation.equal(3)
    assert point.policy is not selector
    assert selector.threshold == threshold
    for key, value in point.policy.state_dict().items():
        assert torch.equal(value, selector.state_dict()[key])
    assert mean_cost(point, bank) == pytest.approx(1.5, abs=0.01)
    assert fit_policy(bank, Margin(), risk=0.1).data["samples"] == 300  # nothing to fit, nothing to set aside


def test_a_selector_is_fitted_by_name_around_the_cost_asked_for(
    lifelike_bank: Callable[..., Bank], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("irene.fitting.selector_fitter", partial(selector_fitter, epochs=3))
    bank = lifelike_bank(400, skills=SKILLS, flops=FLOPS)
    point, again, other = (
        fit_policy(bank, "selector", cost=cost, unit="flops", seed=seed)
        for cost, seed in ((4e6, 0), (4e6, 0), (4e6, 1))
    )
    assert mean_cost(point, bank, "flops") == pytest.approx(4e6, rel=0.01)
    by_hand = selector_fitter(cost=4e6, epochs=3)(bank, point.aggregation, "flops").state_dict()
    assert all(torch.equal(value, point.policy.state_dict()[key]) for key, value in by_hand.items())
    assert all(torch.equal(value, again.policy.state_dict()[key]) for key, value in by_hand.items())
    assert not all(torch.equal(value, other.policy.state_dict()[key]) for key, value in by_hand.items())


@pytest.mark.parametrize(("flops", "looked"), [(FLOPS, True), ((1.0, 1.0, 1.0), False)])
def test_auto_looks_at_a_selector_where_members_differ_and_no_other_is_given(
    lifelike_bank: Callable[..., Bank], monkeypatch: pytest.MonkeyPatch, flops: tuple[float, ...], looked: bool
) -> None:
    asked: list[float] = []

    def fitter(*, cost: float, seed: int) -> Fitter:
        def fit(*_: object) -> Policy:
            asked.append(cost)
            return Margin()

        return fit

    monkeypatch.setattr("irene.fitting.selector_fitter", fitter)
    bank = lifelike_bank(2000, skills=SKILLS, flops=flops)
    fit_policy(bank, cost=1.5)
    assert asked[:5] == [1.5] * 5 * looked
    asked.clear()
    fit_policy(bank, cost=1.5, also=Fitted(Margin(), Aggregation.equal(3)))
    assert asked == []


def test_a_given_aggregation_is_kept(lifelike_bank: Callable[..., Bank]) -> None:
    mean = Aggregation((1.0, 2.0, 3.0), (1.0, 1.5, 2.0))
    for policy in ("margin", Margin(), "change"):
        assert fit_policy(lifelike_bank(500), policy, cost=1.5, aggregation=mean).aggregation == mean


def test_temperatures_are_fitted_and_weights_where_members_differ_unless_told_otherwise(
    lifelike_bank: Callable[..., Bank],
) -> None:
    bank = lifelike_bank(1000, skills=SKILLS, flops=FLOPS, sharpness=3.0)
    point = fit_policy(bank, "margin", cost=1.5)
    assert min(point.aggregation.temperatures) > 1.2
    assert point.aggregation.weights[0] < point.aggregation.weights[2]
    plain = fit_policy(bank, "margin", cost=1.5, temperature=False, weights=False)
    assert plain.aggregation == Aggregation.equal(3)
    alike = lifelike_bank(1000, skills=SKILLS)
    assert fit_policy(alike, "margin", cost=1.5).aggregation.weights == (1.0,) * 3
    assert fit_policy(alike, "margin", cost=1.5, weights=True).aggregation.weights != (1.0,) * 3


def test_auto_says_why_and_is_the_same_for_the_same_seed(lifelike_bank: Callable[..., Bank]) -> None:
    small = fit_policy(lifelike_bank(500), cost=1.3)
    assert small.policy.name == "margin"
    assert "500 samples to fit on" in small.why
    bank = lifelike_bank(2500, skills=(0.5, 0.5, 3.0))
    first, again = (fit_policy(bank, cost=1.5, seed=7) for _ in range(2))
    assert first.policy.name == "cost-to-go"
    assert first.to_dict() | {"date": ""} == again.to_dict() | {"date": ""}


@pytest.mark.parametrize("policy", ["auto", "spread", "cost-to-go"])
def test_regression_meets_a_cost_or_a_relative_drop(make_bank: Callable[..., Bank], policy: str) -> None:
    bank = make_bank(2400, task="regression", outputs=1, accuracy=(0.5, 0.6, 0.9))
    bank = replace(bank, targets=bank.targets[:, 0])
    point = fit_policy(bank, policy, cost=2.0)
    assert mean_cost(point, bank) == pytest.approx(2.0, abs=0.01)
    assert point.task == "regression"
    assert point.expected["mse"] > 0
    dropped = fit_policy(bank, policy, max_drop=0.2)
    error = float((at(dropped, bank).values[:, 0] - bank.targets).square().mean())
    full = float((bank.replay().values[:, 0] - bank.targets).square().mean())
    assert error <= 1.25 * full  # 1.2 on the samples that the threshold was set on
    assert dropped.expected["cost"] < 3
    assert dropped.data["samples"] == (2400 if policy == "spread" else 1440), (
        "what may learn is judged on other samples"
    )


def test_what_is_no_bank_is_told_how_to_make_one() -> None:
    cascade: Any = Cascade([torch.nn.Linear(4, 3)] * 2)
    with pytest.raises(OptionError, match=r"expected a bank of held-out outputs, got Cascade: make one with Bank\.of"):
        fit_policy(cascade, cost=1.3)


def test_what_cannot_be_calibrated_is_refused(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(100)
    wishes: list[tuple[Bank, dict[str, Any], str]] = [
        (replace(bank, gates=torch.ones(100, 3)), {"cost": 1.5}, "gate"),
        (bank.members([0]), {"cost": 1.0}, "single member"),
        (bank.rows(torch.arange(2)), {"risk": 0.1}, "2 samples are too few to calibrate on, expected 10 or more"),
        (bank.rows(torch.arange(5)), {"cost": 1.5}, "5 samples are too few"),
        (bank.rows(torch.arange(9)), {"max_drop": 0.5}, "9 samples are too few"),
        (bank, {"cost": 9.0}, "nearest possible is 3"),
    ]
    for asked_of, wish, message in wishes:
        with pytest.raises(CalibrationError, match=message):
            fit_policy(asked_of, "margin", **wish)
    with pytest.raises(CalibrationError, match="nearest possible is 3"):
        fit_policy(bank, "never", cost=1.5)
    with pytest.raises(OptionError, match=r"a policy is a name, such as margin, .* got the class Margin"):
        fit_policy(bank, Margin, cost=1.5)  # type: ignore[arg-type]
    for wrong in (3, None):
        for wish in ({"cost": 1.5}, {"max_drop": 0.1}):
            with pytest.raises(OptionError, match=f"a policy is a name, such as margin, .* got {wrong}$"):
                fit_policy(bank, wrong, **wish)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"a policy is a name, such as margin, .* got 1\.5$"):
        fit_policy(bank, 1.5)  # type: ignore[arg-type]  # meant as a cost
    assert fit_policy(bank.rows(torch.arange(10)), "margin", max_drop=0.5).data["samples"] == 10


def test_a_function_may_fit_the_policy(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(1000, skills=SKILLS)
    fitted_on: list[int] = []

    def fit(rows: Bank, aggregation: Aggregation, unit: CostUnit) -> Margin:
        fitted_on.append(len(rows))
        assert unit == "members"
        assert len(aggregation.temperatures) == 3
        return Margin()

    point = fit_policy(bank, fit, cost=1.5)
    assert point.why == "margin: as asked"
    assert mean_cost(point, bank) == pytest.approx(1.5, abs=2e-3)
    assert fitted_on == [1000, *[800] * 5]  # once for the answer, five times to know what to expect of it
    fitted_on.clear()
    promised = fit_policy(bank, fit, risk=0.05)
    assert fitted_on == [400]
    assert promised.data["samples"] == 600


class Knowing(Margin):
    """Stops where the first member is as right as all are: as good as a policy can be."""

    name: ClassVar[str] = "knowing"

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        return step.heads_BHK[:, 1, 0], state


def with_hints(bank: Bank) -> Bank:
    """A second head that says where each sample may stop."""
    answers = bank.outputs[:, :, 0].softmax(2)
    steps = torch.stack([answers[:, : t + 1].mean(1).argmax(1) == bank.targets for t in range(3)], 1)
    known = (steps | ~steps[:, -1:]).double() + 0.1 * torch.rand(len(bank), 3, dtype=torch.float64)
    hint = torch.zeros_like(bank.outputs)
    hint[:, :, 0, 0] = 12 * known.float()
    return replace(bank, outputs=torch.cat([bank.outputs, hint], 2))


def test_auto_takes_a_policy_that_was_fitted_elsewhere_if_it_is_better(lifelike_bank: Callable[..., Bank]) -> None:
    bank = with_hints(lifelike_bank(2500, skills=SKILLS))
    mean = Aggregation.equal(3)
    chosen = fit_policy(bank, cost=1.4, also=Fitted(Knowing(), mean))
    assert chosen.policy.name == "knowing"
    assert chosen.aggregation == mean
    assert "knowing: +" in chosen.why
    assert mean_cost(chosen, bank) == pytest.approx(1.4, abs=2e-3)
    worse = fit_policy(bank, cost=1.4, also=Fitted(Random(), mean))
    assert worse.policy.name != "random"
    fitted_on: list[int] = []

    def learn(known: Bank, *_: object) -> Knowing:
        fitted_on.append(len(known))
        return Knowing()

    learned = fit_policy(bank, cost=1.4, also=Learner("learned", learn), aggregation=mean)
    assert learned.policy.name == "knowing"
    assert "learned: +" in learned.why
    assert fitted_on == [*[2000] * 5, 2500, *[2000] * 5]  # to be chosen, for the answer, and to know what to expect


def test_samples_that_chose_a_policy_promise_nothing_for_it(lifelike_bank: Callable[..., Bank]) -> None:
    bank = with_hints(lifelike_bank(5000, skills=SKILLS))
    also = Fitted(Knowing(), Aggregation.equal(3))
    point = fit_policy(bank, cost=1.4, guaranteed=True, also=also, seed=4)
    assert point.why.startswith("knowing: +")
    _, rest = split_for_promise(bank, 4)
    alone = fit_policy(rest, also.policy, cost=1.4, guaranteed=True)
    assert point.data["samples"] == alone.data["samples"] == 3000
    assert point.policy.threshold == alone.policy.threshold
    assert point.expected == alone.expected


@pytest.mark.parametrize("without", [torch.no_grad, torch.inference_mode])
def test_gradients_may_be_off_where_it_is_called(
    lifelike_bank: Callable[..., Bank], without: Callable[[], Any]
) -> None:
    bank = lifelike_bank(300, skills=SKILLS, flops=FLOPS, seed=1)
    wanted = fit_policy(bank, "selector", cost=1.4)
    with without():
        same = Bank.from_arrays(bank.outputs.clone(), bank.targets.clone(), costs=bank.costs)
        point = fit_policy(same, "selector", cost=1.4)
    assert point.expected["cost"] == wanted.expected["cost"]
    assert point.aggregation == wanted.aggregation


def test_a_latency_is_not_promised_from_times_of_a_batch(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(300, skills=SKILLS)
    timed = [tuple(Cost(ms=ms, ms_batch=many) for ms in (1.0, 2.0, 3.0)) for many in (256, 1)]
    with pytest.raises(OptionError, match=r"the members' ms are shares of a batch of 256: .*irene.measure_latency"):
        fit_policy(replace(bank, costs=timed[0]), "margin", p99=3.0)
    assert fit_policy(replace(bank, costs=timed[1]), "margin", p99=3.0).members == (0, 1)
