"""Which members to use and in which order: the best frontier on held-out data, by margins or by a learned policy."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from irene.bank import Bank
from irene.calibration.selection import Fitter, held_out_frontiers, learner_of
from irene.calibration.weights import Weights, fit_aggregation
from irene.errors import CalibrationError, OptionError
from irene.halting.policies import top_two_margin
from irene.halting.rule import Aggregation
from irene.point_words import possible, wanted
from irene.types import CostUnit, cost_vector

EXHAUSTIVE_UP_TO = 6
_THRESHOLDS = 255
_TABLE = 20

Order = tuple[int, ...]


@dataclass(frozen=True)
class OrderResult:
    """The best order found, with the aggregation for it, its score, and the best others beside it."""

    order: Order  # pass it to Bank.members, or pick your members by it
    aggregation: Aggregation
    score: float  # mean accuracy over all budgets, or quality at the asked cost
    table: tuple[tuple[Order, float], ...]  # orders and scores, best first


def best_order(
    bank: Bank,
    *,
    unit: CostUnit = "members",
    cost: float | None = None,
    temperature: bool = True,
    weights: Weights = False,
) -> OrderResult:
    """Find the members to use, and their order, that give the most accuracy for the cost on held-out data.

    Without `cost` the score is the accuracy averaged over every budget from the cheapest member to all members, where
    a budget too small for an order counts as a guess. With `cost` it is the accuracy at that mean cost. Up to 6 members
    every order of every subset is tried; beyond, members are added, taken out, swapped and replaced while that helps.
    Its score is the best of many and so a little too good; for a promise calibrate on other samples.
    """
    if bank.task != "classification":
        raise OptionError("the search for an order compares margins, so it needs a classification bank")
    aggregation = fit_aggregation(bank, temperature=temperature, weights=weights)
    search = _Search(bank, aggregation, cost_vector(bank.costs, unit), cost)
    search.all_orders() if bank.steps <= EXHAUSTIVE_UP_TO else search.climb()
    ranked = _ranked(search.scores)
    order, score = ranked[0]
    if cost is not None and score < 0:
        raise _unreachable(cost, unit, search.costs_T)
    return OrderResult(order, aggregation.members(order), score, tuple(ranked[:_TABLE]))


def best_members(
    bank: Bank,
    policy: str | Fitter = "cost-to-go",
    *,
    cost: float,
    unit: CostUnit = "members",
    temperature: bool = True,
    weights: Weights = None,
    seed: int = 0,
) -> OrderResult:
    """Find the members to use, cheapest first, whose policy gives the most at this mean cost on held-out data.

    A learned policy knows what each member is worth to whom, so that the cheapest first is a good order. Each set is
    scored by cross-validation, with all fitted anew. Up to 6 members every set is tried; beyond, members are added to
    the best one and taken out while that helps. For a promise calibrate on other samples.
    """
    return MemberSearch(bank, policy, unit=unit, temperature=temperature, weights=weights, seed=seed).best(cost)


class MemberSearch:
    """`best_members` for several costs: what is cross-validated for one serves the next."""

    def __init__(
        self,
        bank: Bank,
        policy: str | Fitter = "cost-to-go",
        *,
        unit: CostUnit = "members",
        temperature: bool = True,
        weights: Weights = None,
        seed: int = 0,
    ) -> None:
        self._bank, self._unit, self._seed = bank, unit, seed
        self._costs_T = cost_vector(bank.costs, unit)
        self._cheapest = sorted(range(bank.steps), key=lambda member: float(self._costs_T[member]))
        self._average = partial(fit_aggregation, temperature=temperature, weights=weights)
        self._candidate = learner_of(policy)
        self._frontiers: dict[Order, list[_Line]] = {}

    def best(self, cost: float) -> OrderResult:
        scores: dict[Order, float] = {}

        def score(members: frozenset[int]) -> float:
            order = tuple(member for member in self._cheapest if member in members)
            if order and order not in scores and float(self._costs_T[order[0]]) <= cost * (1 + 1e-9):
                folds = self._held_out(order)
                scores[order] = sum(fold.samples * fold.quality_at(cost) for fold in folds) / len(self._bank)
            return scores.get(order, -math.inf)

        if self._bank.steps <= EXHAUSTIVE_UP_TO:
            for size in range(self._bank.steps):
                for members in combinations(self._cheapest, size + 1):
                    score(frozenset(members))
        else:
            best = max((frozenset((member,)) for member in self._cheapest), key=score)
            while score(change := max((best ^ {member} for member in self._cheapest), key=score)) > score(best):
                best = change
        if not scores:
            raise _unreachable(cost, self._unit, self._costs_T)
        ranked = _ranked(scores)
        order, found = ranked[0]
        return OrderResult(order, self._average(self._bank.members(order)), found, tuple(ranked[:_TABLE]))

    def _held_out(self, order: Order) -> list[_Line]:
        if order not in self._frontiers:
            bank = self._bank.members(order)
            found = held_out_frontiers(bank, [self._candidate], self._average, self._unit, seed=self._seed)
            self._frontiers[order] = [_Line(len(curve), curve.cost_M, curve.quality_M) for _, [curve] in found]
        return self._frontiers[order]


class _Line(NamedTuple):
    """What is kept of a frontier: the mean quality at each of its mean costs."""

    samples: int
    cost_M: Tensor
    quality_M: Tensor

    def quality_at(self, cost: float) -> float:
        return float(np.interp(cost, self.cost_M, self.quality_M))


def _ranked(scores: Mapping[Order, float]) -> list[tuple[Order, float]]:
    """The best first, and of equals the shortest."""
    return sorted(scores.items(), key=lambda entry: (-entry[1], len(entry[0]), entry[0]))


def _unreachable(cost: float, unit: CostUnit, costs_T: Tensor) -> CalibrationError:
    nearest = possible(float(costs_T.min()), unit)
    return CalibrationError(f"no order has a mean cost of {wanted(cost, unit)}: the nearest possible is {nearest}")


@dataclass(frozen=True)
class _Prefix:
    """A cascade of some members in order: at each threshold the samples it has answered, and at what cost."""

    order: Order
    level_N: Tensor  # number of thresholds that the highest margin so far has reached
    right_N: Tensor  # whether the mean of these members is right
    cost_K: Tensor
    accuracy_K: Tensor


class _Search:
    """Scores orders. The mean of members depends on their set only, so each set is looked at once."""

    def __init__(self, bank: Bank, aggregation: Aggregation, costs_T: Tensor, cost: float | None) -> None:
        temperatures_T1 = torch.tensor(aggregation.temperatures)[:, None]
        weights_T1 = torch.tensor(aggregation.weights)[:, None]
        self.answers_NTK = weights_T1 * (bank.outputs[:, :, 0].float() / temperatures_T1).softmax(2)
        self.labels_N, self.costs_T, self.cost = bank.targets, costs_T, cost
        self.scores: dict[Order, float] = {}
        self._sets: dict[frozenset[int], tuple[Tensor, Tensor]] = {}
        every = frozenset(range(bank.steps))
        margins = torch.cat([top_two_margin(self._mean(chosen)) for chosen in [*((i,) for i in every), every]])
        self.edges = margins.double().quantile(torch.linspace(0, 1, _THRESHOLDS, dtype=torch.float64)).unique()

    def all_orders(self) -> None:
        """Score every order of every subset, each as one more member after an order already scored."""
        waiting = [self._begin(i) for i in range(len(self.costs_T))]
        while waiting:
            prefix = waiting.pop()
            self.scores[prefix.order] = self._score(prefix)
            waiting += [self._extend(prefix, i) for i in range(len(self.costs_T)) if i not in prefix.order]

    def climb(self) -> None:
        """Start with the best single member and take the best change until none helps."""
        singles: list[Order] = [(i,) for i in range(len(self.costs_T))]
        best = max(singles, key=self._score_of)
        while True:
            neighbour = max(self._neighbours(best), key=self._score_of)
            if self._score_of(neighbour) <= self._score_of(best):
                return
            best = neighbour

    def _neighbours(self, order: Order) -> Iterator[Order]:
        unused = [i for i in range(len(self.costs_T)) if i not in order]
        places = range(len(order))
        yield from ((*order[:at], i, *order[at:]) for i in unused for at in range(len(order) + 1))
        yield from ((*order[:at], i, *order[at + 1 :]) for i in unused for at in places)
        if len(order) > 1:
            yield from (order[:at] + order[at + 1 :] for at in places)
        for a, b in combinations(places, 2):
            yield (*order[:a], order[b], *order[a + 1 : b], order[a], *order[b + 1 :])

    def _score_of(self, order: Order) -> float:
        if order not in self.scores:
            prefix = self._begin(order[0])
            for i in order[1:]:
                prefix = self._extend(prefix, i)
            self.scores[order] = self._score(prefix)
        return self.scores[order]

    def _mean(self, chosen: Collection[int]) -> Tensor:
        return self.answers_NTK[:, sorted(chosen)].sum(1) / self.answers_NTK[:, sorted(chosen)].sum((1, 2))[:, None]

    def _set(self, chosen: frozenset[int]) -> tuple[Tensor, Tensor]:
        if chosen not in self._sets:
            mean_NK = self._mean(chosen)
            level_N = torch.bucketize(top_two_margin(mean_NK).double(), self.edges, right=True)
            self._sets[chosen] = level_N, (mean_NK.argmax(1) == self.labels_N).double()
        return self._sets[chosen]

    def _begin(self, i: int) -> _Prefix:
        level_N, right_N = self._set(frozenset((i,)))
        cost_K = self.costs_T[i].expand(len(self.edges) + 2)
        return _Prefix((i,), level_N, right_N, cost_K, right_N.mean().expand(len(self.edges) + 2))

    def _extend(self, prefix: _Prefix, i: int) -> _Prefix:
        """At threshold k go on those whose margin has reached fewer than k thresholds, from none to all of them."""
        level_N, right_N = self._set(frozenset((*prefix.order, i)))
        go_on_K = self._below(prefix.level_N, torch.ones_like(right_N))
        gain_K = self._below(prefix.level_N, right_N - prefix.right_N)
        return _Prefix(
            (*prefix.order, i),
            torch.maximum(prefix.level_N, level_N),
            right_N,
            prefix.cost_K + self.costs_T[i] * go_on_K,
            prefix.accuracy_K + gain_K,
        )

    def _below(self, level_N: Tensor, values_N: Tensor) -> Tensor:
        sums_K = torch.bincount(level_N, weights=values_N, minlength=len(self.edges) + 1).cumsum(0)
        return torch.cat([sums_K.new_zeros(1), sums_K]) / len(level_N)

    def _score(self, prefix: _Prefix) -> float:
        best_K = prefix.accuracy_K.cummax(0).values  # a budget need not be spent
        if self.cost is not None:
            within = int((prefix.cost_K <= self.cost * (1 + 1e-9)).sum())
            return float(best_K[within - 1]) if within else -1.0
        low, high = float(self.costs_T.min()), float(self.costs_T.sum())
        if low == high:
            return float(best_K[-1])
        ends_K = torch.cat([prefix.cost_K[1:], prefix.cost_K.new_tensor([high])])
        guess = (float(prefix.cost_K[0]) - low) / self.answers_NTK.shape[2]
        return (float((best_K * (ends_K - prefix.cost_K)).sum()) + guess) / (high - low)
