"""Which members to run, cheapest first, searched on held-out images for each cost; and all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from names import AND_MORE, INDEPENDENT
from torch import Tensor

from irene.bank import Bank
from irene.calibration.frontier import frontier
from irene.calibration.order import MemberSearch
from irene.calibration.selection import fit_named
from irene.calibration.weights import fit_aggregation
from irene.halting.rule import Aggregation
from irene.training.afterwards import selector_fitter
from replay.packed import Packed, Setting, Study, common_seeds
from replay.small_first import (
    COSTS,
    LARGE,
    SELECTOR,
    SMALL,
    Part,
    accuracy,
    bank_of,
    distillations,
    members_of,
    of_heldout,
    who_looked_again,
    whole,
)

FEW, MANY = 2, 3  # independent small members of each kind in a pool, and large ones
POLICIES = ("margin", SELECTOR)


class Pool(NamedTuple):
    """Members to choose from, cheapest first, of as many epochs each: parts of runs for each seed."""

    large: Setting
    training: str
    seeds: list[list[Part]]

    @property
    def members(self) -> list[str]:
        return members_of(self.seeds[0])

    def banks(self, split: str) -> Iterator[Bank]:
        """What all members answer, for each seed."""
        for parts in self.seeds:
            yield bank_of(parts, split)


def pools(study: Study) -> Iterator[Pool]:
    """What there is to choose from: independent networks of all sizes, a distillation, or this and more.

    More are small members that look again, at mirrored images, or other large ones.
    """
    for large in study.settings():
        averages = of_heldout(study.of(large, "average"))
        if large.backbone != LARGE or not averages:
            continue
        smalls = [of_heldout(study.of(large._replace(backbone=name), "average")) for name in SMALL]
        alike = [small for small in smalls if {run.seed for run in small} >= {run.seed for run in averages}]
        if alike:
            by_seed = zip(*common_seeds(*alike, averages), strict=True)
            yield Pool(large, INDEPENDENT, [independent(runs) for runs in by_seed])
    for large, training, runs in distillations(study):
        yield Pool(large, training, [cheapest_first(whole(run)) for run in runs])
        twice = [cheapest_first(whole(run, again=True)) for run in who_looked_again(runs)]
        if twice:
            yield Pool(large, training, twice)
        averages = of_heldout(study.of(large, "average"))
        both = list(zip(*common_seeds(runs, averages), strict=True))
        if both:
            seeds = [[*cheapest_first(whole(run)), Part(more, LARGE, MANY)] for run, more in both]
            yield Pool(large, f"{training} {AND_MORE}", seeds)


def independent(runs: Sequence[Packed]) -> list[Part]:
    return cheapest_first(Part(run, run.backbones[0], MANY if run.backbones[0] == LARGE else FEW) for run in runs)


def cheapest_first(parts: Iterable[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: part.flops)


def searched(pool: Pool) -> dict[str, Any]:
    """What the members chosen for each cost reach on test images at exactly that cost, and what all of them do."""
    unit = max(part.flops for part in pool.seeds[0])
    right: dict[tuple[str, str], dict[float, list[Tensor]]] = defaultdict(lambda: defaultdict(list))
    orders: dict[str, list[list[str]]] = defaultdict(list)
    for heldout, test in zip(pool.banks("heldout"), pool.banks("test"), strict=True):
        search = MemberSearch(heldout, unit="flops", weights=True)
        every = Choice(range(heldout.steps), fit_aggregation(heldout, weights=True))
        for cost in COSTS:
            best = search.best(cost * unit)
            orders[f"{cost:g}"].append([pool.members[member] for member in best.order])
            for which, choice in (("chosen", Choice(best.order, best.aggregation)), ("all", every)):
                for name in POLICIES:
                    right[which, name][cost].append(choice.right(heldout, test, name, cost * unit))
    return {
        "dataset": pool.large.dataset,
        "epochs": pool.large.epochs,
        "training": pool.training,
        "pool": pool.members,
        "seeds": len(pool.seeds),
        "orders": dict(orders),
        **{
            which: {
                name: {f"{cost:g}": accuracy(torch.stack(found).mean(0)) for cost, found in right[which, name].items()}
                for name in POLICIES
            }
            for which in ("chosen", "all")
        },
    }


class Choice(NamedTuple):
    """Members to run, in order, with what each one's vote is worth."""

    order: Sequence[int]
    aggregation: Aggregation

    def right(self, heldout: Bank, test: Bank, policy: str, cost: float) -> Tensor:
        """(N,) share of right answers of each test image at exactly this cost, the policy fitted on held-out ones."""
        known, fresh = heldout.members(self.order), test.members(self.order)
        learns = policy == SELECTOR and known.steps > 1
        fit = selector_fitter(cost=cost) if learns else partial(fit_named, "margin")
        return frontier(fresh, fit(known, self.aggregation, "flops"), self.aggregation, "flops").quality_at(cost)
