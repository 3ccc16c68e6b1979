"""A router chooses the next member of each sample; replayed on a bank it does what the plain loop does."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor

from irene.bank import Bank
from irene.calibration.selection import fit_named
from irene.cascade import Cascade
from irene.errors import OptionError
from irene.fitting import fit_policy
from irene.halting.policy import Policy
from irene.halting.registry import describe, restore
from irene.halting.rule import Aggregation, Rule
from irene.halting.skipping import Router, predict
from irene.types import Cost

UNEQUAL = (Cost(flops=1.0), Cost(flops=3.0), Cost(flops=4.0), Cost(flops=10.0))
MEAN = Aggregation((1.0, 1.5, 1.5, 2.0), (1.0, 1.2, 0.9, 1.1))


@pytest.fixture
def bank(make_bank: Callable[..., Bank]) -> Bank:
    return make_bank(600, members=4, accuracy=(0.6, 0.75, 0.8, 0.95), costs=UNEQUAL)


@pytest.fixture
def router(bank: Bank) -> Router:
    costs = torch.tensor([cost.flops for cost in bank.costs], dtype=torch.float64)
    return Router.fit(bank.outputs, bank.targets, MEAN, costs)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95])
def test_replay_equals_the_plain_loop(
    bank: Bank,
    router: Router,
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
    share: float,
) -> None:
    scores = bank.trajectory(router, MEAN).scores_NT[:, 0]
    router = router.at(float(scores.quantile(share, interpolation="higher")))  # one sample's own score: it stops
    members = table_members(bank)
    run = predict(members, router, MEAN, sample_numbers(600))
    replayed = bank.replay(router, MEAN)
    assert torch.equal(run.outputs, replayed.outputs)
    assert torch.equal(run.members_used, replayed.members_used)
    torch.testing.assert_close(run.trace, replayed.trace, rtol=0, atol=0, equal_nan=True)
    asked = torch.zeros(600, 4, dtype=torch.bool)
    for t, member in enumerate(members):
        for rows in member.asked:
            asked[rows, t] = True
    assert torch.equal(asked, run.ran)


def test_a_sample_that_is_no_number_runs_through_all_members(
    bank: Bank, router: Router, table_members: Callable[[Bank], list[Any]], sample_numbers: Callable[[int], Tensor]
) -> None:
    router = router.at(float(bank.trajectory(router, MEAN).scores_NT[:, 0].quantile(0.5)))
    before = predict(table_members(bank), router, MEAN, sample_numbers(600))
    bank.outputs[::7, router.first] = torch.nan
    found = predict(table_members(bank), router, MEAN, sample_numbers(600))
    spoiled = torch.arange(600) % 7 == 0
    assert torch.equal(found.failed, spoiled)
    assert found.ran[spoiled].all()
    assert torch.equal(found.ran.sum(1), found.members_used)
    assert found.labels[spoiled].unique().tolist() == [-1]
    assert torch.equal(found.outputs[~spoiled], before.outputs[~spoiled])
    replayed = bank.replay(router, MEAN)
    torch.testing.assert_close(found.trace, replayed.trace, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(found.outputs, replayed.outputs, rtol=0, atol=0, equal_nan=True)


def test_members_are_skipped_and_the_cost_is_that_of_those_run(bank: Bank, router: Router) -> None:
    prediction = bank.replay(router.at(-0.005), MEAN)
    assert torch.equal(prediction.ran.sum(1), prediction.members_used)
    skipped = prediction.ran[:, 3] & ~prediction.ran[:, 1]
    assert bool(skipped.any())
    cost = prediction.cost_in(bank.costs, "flops")
    assert float(cost[skipped][0]) == sum(UNEQUAL[t].flops for t in range(4) if prediction.ran[skipped][0, t])


def test_the_answer_is_the_weighted_mean_of_the_members_run(bank: Bank, router: Router) -> None:
    prediction = bank.replay(router.at(-0.005), MEAN)
    weights = prediction.ran * torch.tensor(MEAN.weights)
    probs = (bank.outputs[:, :, 0] / torch.tensor(MEAN.temperatures)[:, None]).softmax(2)
    expected = (weights[:, :, None] * probs).sum(1) / weights.sum(1, keepdim=True)
    torch.testing.assert_close(prediction.outputs, expected)


def test_scores_and_ways_are_those_of_a_search_over_all_larger_sets(bank: Bank, router: Router) -> None:
    path = bank.trajectory(router, MEAN)
    assert path.order_NT is not None
    probs = (bank.outputs[:, :, 0] / torch.tensor(MEAN.temperatures)[:, None]).softmax(2).double()
    for sample in range(100):
        run: list[int] = []
        for step in range(4):
            run.append(int(path.order_NT[sample, step]))
            mean = sum(MEAN.weights[t] * probs[sample, t] for t in run) / sum(MEAN.weights[t] for t in run)
            second, top = mean.sort().values[-2:].tolist()
            certainty = 1 + float((mean * mean.log()).sum()) / math.log(4)
            agreement = sum(int(probs[sample, t].argmax() == mean.argmax()) for t in run) / len(run)
            features = torch.tensor([top, top - second, certainty, agreement])
            rates: dict[frozenset[int], float] = {}
            for more in (set(some) for size in range(4) for some in combinations(set(range(4)) - set(run), size + 1)):
                now, then = (sum(2**t for t in members) for members in (run, {*run, *more}))
                gain = float(router.weight_SSF[now, then] @ features + router.bias_SS[now, then])
                rates[frozenset(more)] = gain / sum(UNEQUAL[t].flops for t in more)
            if step == 3:
                assert float(path.scores_NT[sample, step]) == 0
                continue
            best = max(rates, key=lambda more: rates[more])
            assert float(path.scores_NT[sample, step]) == pytest.approx(-rates[best], rel=1e-3, abs=1e-5)
            assert int(path.order_NT[sample, step + 1]) == max(best, key=lambda t: rates[frozenset((t,))])


def test_every_sample_starts_at_the_cheapest_member_unless_told(bank: Bank, router: Router) -> None:
    order = bank.trajectory(router, MEAN).order_NT
    assert order is not None
    assert bool((order[:, 0] == 0).all())
    assert bool((order.sort(1).values == torch.arange(4)).all())  # nobody runs a member twice
    costs = torch.tensor([10.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    assert Router.fit(bank.outputs, bank.targets, MEAN, costs).first == 1
    assert Router.fit(bank.outputs, bank.targets, MEAN, costs, first=2).first == 2


def test_prefers_the_member_that_gains_more_for_its_cost(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(2000, accuracy=(0.5, 0.5, 0.95))
    router = Router.fit(bank.outputs, bank.targets, Aggregation.equal(3), torch.ones(3, dtype=torch.float64), first=0)
    order = bank.trajectory(router).order_NT
    assert order is not None
    assert float((order[:, 1] == 2).double().mean()) > 0.9


def test_is_written_down_and_read_back(bank: Bank, router: Router) -> None:
    router = router.at(-0.01)
    again = restore(describe(router), router.state_dict())
    assert torch.equal(bank.replay(again, MEAN).outputs, bank.replay(router, MEAN).outputs)


def test_a_cascade_with_a_router_lets_it_choose(
    bank: Bank, router: Router, table_members: Callable[[Bank], list[Any]], sample_numbers: Callable[[int], Tensor]
) -> None:
    router = router.at(-0.005)
    prediction = Cascade(table_members(bank), router, aggregation=MEAN).predict(sample_numbers(600))
    expected = bank.replay(router, MEAN)
    assert torch.equal(prediction.outputs, expected.outputs)
    assert torch.equal(prediction.ran, expected.ran)
    assert len(Cascade(table_members(bank), router).predict(sample_numbers(0))) == 0


def test_there_is_no_rule_for_members_in_a_fixed_order(bank: Bank, router: Router) -> None:
    assert not isinstance(router, Policy)
    with pytest.raises(OptionError, match="chooses the next member"):
        Rule.of(router, MEAN, "classification")
    with pytest.raises(OptionError, match="the skipping policy chooses the next member"):
        _ = Cascade([lambda x: x] * 4, router).rule


def test_threshold_alone_is_set_on_a_fitted_router(bank: Bank, router: Router) -> None:
    point = fit_policy(bank, router, cost=1.5, aggregation=MEAN)
    assert isinstance(point.policy, Router)
    assert point.expected["cost"] == pytest.approx(1.5, abs=0.05)


def test_very_many_members_are_refused() -> None:
    with pytest.raises(OptionError, match="1 to 8 members, got 9"):
        Router(costs=[1.0] * 9)


def test_members_it_does_not_know_or_that_have_no_weight_are_refused(bank: Bank, router: Router) -> None:
    with pytest.raises(OptionError, match="fitted for 4 members, got 3"):
        bank.members([0, 1, 2]).replay(router, Aggregation.equal(3))
    with pytest.raises(OptionError, match="weights above 0"):
        bank.replay(router, Aggregation((1.0, 0.0, 1.0, 1.0), (1.0,) * 4))


def test_values_have_no_margin_to_route_by(make_bank: Callable[..., Bank]) -> None:
    bank, router = make_bank(20, task="regression"), Router(costs=[1.0, 1.0, 1.0])
    with pytest.raises(OptionError, match="needs class probabilities"):
        bank.replay(router)
    with pytest.raises(OptionError, match="needs class probabilities"):
        Cascade([lambda x: x] * 3, router, task="regression").predict(torch.zeros(2, 4))
    with pytest.raises(OptionError, match="the skipping policy needs class probabilities"):
        fit_named("skipping", bank, Aggregation.equal(3), "members")


def test_outputs_of_other_members_than_are_averaged_are_refused(bank: Bank, router: Router) -> None:
    with pytest.raises(OptionError, match="the rule is for 3 members and the outputs are of 4"):
        bank.replay(router, Aggregation.equal(3))
