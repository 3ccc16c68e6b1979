"""IRENE against thresholds, and its cost against the one asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

import torch
from names import ALL_IMAGES, FOLDS, GOING_ON, IRENE, title
from torch import Tensor

from irene.calibration.frontier import Frontier, frontier
from irene.calibration.selection import fit_named
from irene.calibration.weights import fit_aggregation
from irene.metrics import paired_bootstrap
from irene.training.afterwards import selector_fitter
from replay.packed import Packed, Setting, Study, common_seeds

COSTS = (1.05, 1.1, 1.2, 1.3, 1.5, 2.0)
ASKED = (1.1, 1.2, 1.3, 1.5, 2.0)
THRESHOLDS = ("margin", "change")
Rights = dict[float, Tensor]  # by cost: (N,) share of right answers of each sample
Curve = Callable[[Packed], Frontier]


def own_curve(run: Packed) -> Frontier:
    """The run's own policy over the test samples."""
    return frontier(run.bank("test"), run.policy(), run.aggregation)


def threshold_curve(name: str) -> Curve:
    """A policy fitted on the held-out outputs of a run, over the test samples."""

    def curve(run: Packed) -> Frontier:
        heldout = run.bank("heldout")
        mean = fit_aggregation(heldout)
        return frontier(run.bank("test"), fit_named(name, heldout, mean, "members"), mean)

    return curve


def fitted_anew(run: Packed, cost: float) -> Frontier:
    """A selector fitted for this very cost on the run's held-out outputs, over the test samples."""
    selector = selector_fitter(cost=cost, seed=run.seed)(run.bank("heldout"), run.aggregation, "members")
    return frontier(run.bank("test"), selector, run.aggregation)


def right_at(curves: Sequence[Frontier], cost: float) -> Tensor:
    """(N,) share of right answers of each sample at exactly this mean cost, over the runs."""
    return torch.stack([curve.quality_at(cost) for curve in curves]).mean(0)


def rights(curves: Sequence[Frontier]) -> Rights:
    return {cost: right_at(curves, cost) for cost in COSTS}


def accuracies(of_runs: Rights) -> dict[str, float]:
    return {f"{cost:g}": float(right_N.mean()) for cost, right_N in of_runs.items()}


def points(ones: Rights, others: Rights) -> dict[str, list[float]]:
    """The gain in points of accuracy at each cost and over all of them, with its 95 % interval."""
    pairs = {f"{cost:g}": (ones[cost], others[cost]) for cost in COSTS}
    pairs["all"] = torch.stack([*ones.values()]).mean(0), torch.stack([*others.values()]).mean(0)
    return {cost: [100 * value for value in paired_bootstrap(*pair)] for cost, pair in pairs.items()}


def against(study: Study, setting: Setting) -> dict[str, Any] | None:
    """What IRENE gains on a policy with the same members and with independent ones, and slice on folds."""
    averages, slices = common_seeds(study.of(setting, "average"), study.of(setting, IRENE))
    if not slices:
        return None
    own = rights([own_curve(run) for run in slices])
    others = {
        f"{title(name)}, {members} members": rights([threshold_curve(name)(run) for run in runs])
        for members, runs in (("the same", slices), ("independent", averages))
        for name in THRESHOLDS
    }
    fitted = {cost: right_at([fitted_anew(run, cost) for run in slices], cost) for cost in COSTS}
    about: dict[str, Any] = {
        "seeds": len(slices),
        "accuracy": accuracies(own),
        "gains": {name: points(own, other) for name, other in others.items()},
        "fitted": points(fitted, others[f"{title('margin')}, the same members"]),
    }
    whole, longer = setting._replace(images=ALL_IMAGES), setting._replace(epochs=2 * setting.epochs)
    ours, margin = (study.of(setting, IRENE), own_curve), threshold_curve("margin")
    compared = {
        "folds": gained((study.of(setting, FOLDS), own_curve), ours),
        "unheld": gained((study.of(whole, FOLDS), own_curve), ours),
        "longer": gained((study.of(longer, "average"), margin), (study.of(setting, "average"), margin)),
    }
    return about | {name: gains for name, gains in compared.items() if gains is not None}


def going_on(study: Study, setting: Setting) -> dict[str, Any] | None:
    """What IRENE whose members go on gains on a threshold with the same members, and with independent ones."""
    ours, margin = (study.of(setting, GOING_ON), own_curve), threshold_curve("margin")
    compared = {
        "same": gained(ours, (study.of(setting, GOING_ON), margin)),
        "independent": gained(ours, (study.of(setting, "average"), margin)),
    }
    return {name: gains for name, gains in compared.items() if gains is not None} or None


def gained(ones: tuple[Iterable[Packed], Curve], others: tuple[Iterable[Packed], Curve]) -> dict[str, Any] | None:
    """What some runs reach and gain on others of the same seeds, and what they cost; None without a common seed."""
    first, second = common_seeds(ones[0], others[0])
    if not first:
        return None
    ours, theirs = (rights([curve(run) for run in runs]) for runs, curve in ((first, ones[1]), (second, others[1])))
    cost = fmean(run.figures["test"]["cost"] for run in first)
    return {"seeds": len(first), "accuracy": accuracies(ours), "gain": points(ours, theirs), "cost": cost}


def asked_and_realised(run: Packed) -> dict[str, float]:
    """What thresholds that cost so much on held-out images cost on test images."""
    policy = run.policy()
    known, seen = (frontier(run.bank(split), policy, run.aggregation) for split in ("heldout", "test"))
    return {f"{cost:g}": float(seen.at(known.threshold_for(cost), seen.costs_NT).mean()) for cost in ASKED}
