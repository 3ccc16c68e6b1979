"""The searches for members and for an order find what replaying each of them would find."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest
import torch

from irene.bank import Bank
from irene.calibration import order as search
from irene.calibration.frontier import frontier
from irene.calibration.order import MemberSearch, best_members, best_order
from irene.calibration.weights import fit_aggregation
from irene.errors import CalibrationError, OptionError
from irene.halting.cost_to_go import CostToGo
from irene.halting.policies import Margin
from irene.halting.rule import Aggregation
from irene.types import cost_vector

SKILLS = (3.0, 1.5, 0.1, 2.0)
FLOPS = (6.0, 1.0, 4.0, 3.0)


def replayed_scores(bank: Bank, cost: float | None) -> dict[tuple[int, ...], float]:
    """The obvious way: replay each order at each of its own thresholds."""
    mean = fit_aggregation(bank)
    low, high = 1e6, sum(FLOPS) * 1e6
    scores = {}
    for size in range(1, 5):
        for order in permutations(range(4), size):
            own = Aggregation(*(tuple(part[i] for i in order) for part in (mean.weights, mean.temperatures)))
            curve = frontier(bank.members(order), Margin(), own, "flops")
            budgets = torch.linspace(low, high, 4000, dtype=torch.float64) if cost is None else torch.tensor([cost])
            reached = torch.searchsorted(curve.cost_M, budgets.double() * (1 + 1e-9), right=True)
            best = torch.cat([torch.full((1,), 0.2).double(), curve.quality_M.cummax(0).values])
            scores[order] = float(best[reached].mean())
    return scores


@pytest.mark.parametrize("cost", [None, 4e6])
def test_scores_are_those_of_replaying_every_order(lifelike_bank: Callable[..., Bank], cost: float | None) -> None:
    bank = lifelike_bank(600, skills=SKILLS, flops=FLOPS)
    expected = replayed_scores(bank, cost)
    result = best_order(bank, unit="flops", cost=cost)
    for order, score in result.table:
        assert score == pytest.approx(expected[order], abs=0.006)  # a few hundred thresholds against all of them
    assert expected[result.order] >= max(expected.values()) - 0.006
    assert result.score == result.table[0][1] == max(score for _, score in result.table)


def test_starts_small_and_leaves_out_a_member_that_does_not_help(lifelike_bank: Callable[..., Bank]) -> None:
    result = best_order(lifelike_bank(3000, skills=SKILLS, flops=FLOPS), unit="flops")
    assert result.order[0] == 1
    assert 2 not in result.order
    assert len(result.aggregation.weights) == len(result.order)


def test_the_aggregation_is_that_of_the_chosen_members(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(1000, skills=SKILLS, flops=FLOPS)
    result = best_order(bank, unit="flops", weights=True)
    mean = fit_aggregation(bank, weights=True)
    assert result.aggregation.weights == tuple(mean.weights[i] for i in result.order)
    assert result.aggregation.temperatures == tuple(mean.temperatures[i] for i in result.order)


def test_beyond_six_members_it_climbs_to_nearly_the_best(
    lifelike_bank: Callable[..., Bank], monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = lifelike_bank(800, skills=(3.0, 1.0, 0.5, 2.0, 2.5), flops=(6.0, 1.0, 1.0, 3.0, 4.0))
    exhaustive = best_order(bank, unit="flops")
    monkeypatch.setattr(search, "EXHAUSTIVE_UP_TO", 4)
    climbed = best_order(bank, unit="flops")
    assert climbed.score >= exhaustive.score - 0.002
    many = lifelike_bank(300, skills=(1.0, 1.5, 2.0, 2.5, 3.0, 0.5, 0.8), flops=(1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 1.0))
    singles = [best_order(many.members([i]), unit="flops") for i in range(7)]
    assert len(best_order(many, unit="flops").order) > 1
    assert all(single.order == (0,) for single in singles)


def test_a_climb_looks_at_all_orders_that_are_one_change_away(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(50, skills=(1.0,) * 5)
    climb = search._Search(bank, fit_aggregation(bank), cost_vector(bank.costs, "members"), None)

    def one_change(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
        if len(old) != len(new):  # one is the other without a member
            short, long = sorted((old, new), key=len)
            return short in [long[:at] + long[at + 1 :] for at in range(len(long))]
        places = sum(a != b for a, b in zip(old, new, strict=True))
        return places == 1 or (places == 2 and set(old) == set(new))

    every = [order for size in range(1, 6) for order in permutations(range(5), size)]
    for order in ((3,), (2, 0), (4, 1, 3), (1, 0, 3, 2), (4, 3, 2, 1, 0)):
        assert set(climb._neighbours(order)) == {other for other in every if one_change(order, other)}


def test_what_cannot_be_searched_is_refused(lifelike_bank: Callable[..., Bank], make_bank: Callable[..., Bank]) -> None:
    with pytest.raises(OptionError, match="classification"):
        best_order(make_bank(50, task="regression"))
    with pytest.raises(CalibrationError, match=r"nearest possible is 1M$"):
        best_order(lifelike_bank(100, skills=SKILLS, flops=FLOPS), unit="flops", cost=5e5)


def cross_validated(bank: Bank, order: tuple[int, ...], cost: float) -> float:
    """The obvious way: what cost-to-go, fitted on the other folds, gets right of each fold at exactly that cost."""
    members = bank.members(order)
    fold_N = torch.randperm(len(bank), generator=torch.Generator().manual_seed(0)) % 5
    right = 0.0
    for fold in range(5):
        known, fresh = members.rows(fold_N != fold), members.rows(fold_N == fold)
        mean = fit_aggregation(known, weights=None)
        policy = CostToGo.fit(known.outputs, known.targets, mean, cost_vector(known.costs, "flops"))
        curve = frontier(fresh, policy, mean, "flops")
        right += float(curve.quality_at(cost).sum())
    return right / len(bank)


def test_every_set_is_scored_by_a_policy_that_has_not_seen_the_samples(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(300, skills=SKILLS, flops=FLOPS)
    result = best_members(bank, cost=4e6, unit="flops")
    assert len(result.table) == 14, "one set of fifteen has a member alone that costs too much"
    assert (0,) not in dict(result.table)
    for order, score in result.table:
        assert [FLOPS[member] for member in order] == sorted(FLOPS[member] for member in order)
        assert score == pytest.approx(cross_validated(bank, order, 4e6))
    assert result.order == result.table[0][0]
    assert result.score == max(score for _, score in result.table)
    assert result.aggregation == fit_aggregation(bank.members(result.order), weights=None)


def test_one_search_serves_many_costs(lifelike_bank: Callable[..., Bank], monkeypatch: pytest.MonkeyPatch) -> None:
    bank = lifelike_bank(300, skills=SKILLS, flops=FLOPS)
    costs = (2e6, 4e6, 8e6)
    alone = [best_members(bank, cost=cost, unit="flops") for cost in costs]
    scored: list[int] = []
    validate = search.held_out_frontiers
    monkeypatch.setattr(
        search,
        "held_out_frontiers",
        lambda some, *rest, **seed: scored.append(some.steps) or validate(some, *rest, **seed),
    )
    together = MemberSearch(bank, unit="flops")
    assert [together.best(cost) for cost in costs] == alone
    assert len(scored) == 15, "each set once"


def test_a_member_that_only_costs_is_left_out(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(2000, skills=(1.5, 0.0, 3.0), flops=(1.0, 2.0, 6.0))
    assert best_members(bank, cost=3e6, unit="flops").order == (0, 2)


def test_many_members_are_added_and_taken_out_while_that_helps(
    lifelike_bank: Callable[..., Bank], monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = lifelike_bank(800, skills=(3.0, 1.0, 0.5, 2.0, 2.5), flops=(6.0, 1.0, 1.0, 3.0, 4.0))
    exhaustive = best_members(bank, cost=5e6, unit="flops")
    monkeypatch.setattr(search, "EXHAUSTIVE_UP_TO", 4)
    climbed = best_members(bank, cost=5e6, unit="flops")
    assert climbed.score >= exhaustive.score - 0.005
    assert len(climbed.order) > 1


def test_members_of_values_can_be_chosen_too(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(200, task="regression")
    result = best_members(bank, cost=1.5)
    assert set(result.order) <= set(range(bank.steps))
    assert result.score == max(score for _, score in result.table) < 0, "minus the squared error"


def test_a_cost_below_the_cheapest_member_is_refused(lifelike_bank: Callable[..., Bank]) -> None:
    with pytest.raises(CalibrationError, match=r"nearest possible is 1M$"):
        best_members(lifelike_bank(100, skills=SKILLS, flops=FLOPS), cost=5e5, unit="flops")
