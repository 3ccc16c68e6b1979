"""Policies by name, fitted on a bank, and the choice between them by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from irene.bank import Bank
from irene.calibration.frontier import Frontier, frontier
from irene.calibration.wishes import Wish, can_cost
from irene.errors import OptionError, in_words
from irene.halting.change import ChangePredictor
from irene.halting.cost_to_go import CostToGo
from irene.halting.policy import Stopper, needs_classes
from irene.halting.registry import policy_class
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.halting.skipping import Router
from irene.types import CostUnit, Task, cost_vector

Averaging = Callable[[Bank], Aggregation]  # fits the mean of the members on a bank
Fitter = Callable[[Bank, Aggregation, CostUnit], Stopper]  # fits a policy on a bank, its threshold yet to be set
LEARNED_FROM = 2000  # with fewer samples a learned policy can lose more than it gains
FOLDS = 5
# The first is the one to beat: it is kept unless another is better by more than a standard error.
CANDIDATES: dict[Task, tuple[str, ...]] = {
    "classification": ("margin", "confidence", "agreement", "change", "cost-to-go"),
    "regression": ("spread", "cost-to-go"),
}


class Fitted(NamedTuple):
    """A policy that was fitted elsewhere, with the mean it was fitted for."""

    policy: Stopper
    aggregation: Aggregation

    @property
    def name(self) -> str:
        return self.policy.name

    def fitted(self, *_: object) -> Fitted:
        return self


class Learner(NamedTuple):
    """A policy that is yet to be fitted, under the name it is chosen by."""

    name: str
    fit: Fitter
    learns: bool = True  # from outputs; else its threshold is all there is to set

    def fitted(self, bank: Bank, aggregation: Aggregation, unit: CostUnit) -> Fitted:
        return Fitted(self.fit(bank, aggregation, unit), aggregation)


def learner_of(policy: str | Fitter) -> Learner:
    """The policy of that name, or the one that the function fits, yet to be fitted."""
    if isinstance(policy, str):
        learns = issubclass(policy_class(policy), ChangePredictor | CostToGo | Router)
        return Learner(policy, partial(fit_named, policy), learns)
    if isinstance(policy, type) or not callable(policy):
        raise OptionError(f"a policy is a name, such as margin, a fitted one or a function, got {in_words(policy)}")
    return Learner("", policy)


def fit_named(name: str, bank: Bank, aggregation: Aggregation, unit: CostUnit) -> Stopper:
    """The policy of that name, fitted on the bank if it learns anything; its threshold is yet to be set."""
    kind = policy_class(name)
    if issubclass(kind, Selector):
        raise OptionError(
            "a selector is trained with its members, or fitted by irene.fit_policy and irene.training.afterwards"
        )
    if issubclass(kind, CostToGo | Router):
        costs_T = cost_vector(bank.costs, unit)
        return kind.fit(bank.outputs, bank.targets, aggregation, costs_T, task=bank.task)
    if issubclass(kind, ChangePredictor):
        needs_classes(name, bank.task)
        return kind.fit(bank.outputs, aggregation)
    return kind(0.0)


def choose_policy(
    bank: Bank, wish: Wish, average: Averaging, *, seed: int, also: Fitted | Learner | None = None
) -> tuple[Fitted | Learner, str]:
    """The policy that does best on folds of the bank it was not fitted on, and why it was chosen."""
    first, *others = (learner_of(name) for name in CANDIDATES[bank.task])
    if len(bank) < LEARNED_FROM:
        few = f"{len(bank)} samples to fit on, and a learned policy needs {LEARNED_FROM} to be safe"
        return first, f"{first.name}: {few}"

    candidates = [first, *others, *([] if also is None else [also])]
    out_of_reach: set[int] = set()  # who can be set to none of the costs: what is compared lies between its thresholds

    def judge(curves: Sequence[Frontier]) -> list[Tensor]:
        wanted = costs_compared(curves, None) if wish.cost is None else [wish.cost]
        for place, curve in enumerate(curves):
            if not any(can_cost(curve, cost) for cost in wanted):
                out_of_reach.add(place)
        return quality_at_costs(curves, wish.cost)

    first_N, *others_N = cross_validate(bank, candidates, average, wish.unit, judge, seed=seed)
    pairs = zip(candidates[1:], others_N, strict=True)
    gains = [(one, one_N - first_N) for place, (one, one_N) in enumerate(pairs, 1) if place not in out_of_reach]
    if not gains:
        return first, f"{first.name}: no other can be set to the costs in question, as too many samples share a score"
    best, gain_N = max(gains, key=lambda pair: float(pair[1].mean()))
    gain = float(gain_N.mean())
    error = float(gain_N.std(correction=0)) / len(bank) ** 0.5
    where = f"at equal cost, {FOLDS}-fold cross-validation on {len(bank)} samples"
    if bank.task == "classification":
        measured = f"{100 * gain:+.2f} points of accuracy (standard error {100 * error:.2f})"
    else:
        measured = f"a squared error {gain:+.4g} lower (standard error {error:.2g})"
    if gain > error:
        return best, f"{best.name}: {measured} against {first.name}, {where}"
    nearest = f"the nearest is {best.name} with {measured}"
    return first, f"{first.name}: no other is better by a standard error, {nearest}, {where}"


def cross_validate(
    bank: Bank,
    candidates: Sequence[Fitted | Learner],
    average: Averaging,
    unit: CostUnit,
    judge: Callable[[Sequence[Frontier]], Sequence[Tensor]],
    *,
    seed: int,
) -> list[Tensor]:
    """(N,) for each policy: how `judge` rates each sample, with all policies fitted on the other folds.

    One that is fitted already is judged on the same folds as it is.
    """
    judged = [torch.zeros(len(bank), dtype=torch.float64) for _ in candidates]
    for rows_N, curves in held_out_frontiers(bank, candidates, average, unit, seed=seed):
        for judged_N, found_N in zip(judged, judge(curves), strict=True):
            judged_N[rows_N] = found_N
    return judged


def held_out_frontiers(
    bank: Bank, candidates: Sequence[Fitted | Learner], average: Averaging, unit: CostUnit, *, seed: int
) -> Iterator[tuple[Tensor, list[Frontier]]]:
    """For each fold (N,) which samples it has, and the frontier of each policy on them, fitted on the other folds."""
    fold_N = torch.randperm(len(bank), generator=torch.Generator().manual_seed(seed)) % FOLDS
    for fold in range(FOLDS):
        rest, left_out = bank.rows(fold_N != fold), bank.rows(fold_N == fold)
        mean = average(rest)
        yield fold_N == fold, [frontier(left_out, *one.fitted(rest, mean, unit), unit) for one in candidates]


def quality_at_cost(curve: Frontier, cost: float) -> Tensor:
    """(N,) quality of each sample's answer at the threshold whose mean cost is nearest."""
    return curve.at(curve.threshold_for(cost), curve.quality_NT)


def quality_at_costs(curves: Sequence[Frontier], asked: float | None) -> list[Tensor]:
    """(N,) for each policy: quality averaged over costs, the same ones for all."""
    levels = costs_compared(curves, asked)
    return [torch.stack([curve.quality_at(level) for level in levels]).mean(0) for curve in curves]


def costs_compared(curves: Sequence[Frontier], asked: float | None) -> list[float]:
    """Costs within the reach of all policies: around the one asked for, else over all with most at the cheap end."""
    low = max(float(curve.cost_M[0]) for curve in curves)
    high = min(float(curve.cost_M[-1]) for curve in curves)
    if asked is None:
        levels_L = low + (high - low) * torch.linspace(0.1, 0.8, 9, dtype=torch.float64).square()
    else:
        levels_L = (low + (asked - low) * torch.linspace(0.5, 1.5, 9, dtype=torch.float64)).clamp(low, high)
    levels: list[float] = levels_L.tolist()
    return levels
