"""IRENE against thresholds, and its cost against the one asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple, get_args

import torch
from names import ALL_IMAGES, FOLDS, IRENE, WARM, title
from torch import Tensor

from irene.calibration.frontier import Frontier, frontier
from irene.calibration.selection import fit_named
from irene.calibration.weights import fit_aggregation
from irene.metrics import paired_bootstrap
from irene.training.afterwards import selector_fitter
from irene.training.methods.irene import Part
from replay.answers import AS_IS, Answers, At
from replay.packed import Packed, Setting, common_seeds

COSTS = (1.05, 1.1, 1.2, 1.3, 1.5, 2.0)
ASKED = (1.1, 1.2, 1.3, 1.5, 2.0)
THRESHOLDS = ("margin", "change")
Rights = dict[float, Tensor]  # by cost: (N,) share of right answers of each sample
COMPARED = ("average", IRENE, WARM, FOLDS)  # labels of runs
ABLATED = tuple(f"{IRENE} without {part}" for part in get_args(Part))
OWN, ANEW = "own", "fitted anew"  # policies: the run's, and selectors fitted for each cost


def own_curve(run: Packed) -> Frontier:
    """The run's own policy over the test samples."""
    return frontier(run.bank("test"), run.policy(), run.aggregation)


def threshold_curve(run: Packed, name: str) -> Frontier:
    """A policy fitted on the held-out outputs of a run, over the test samples."""
    heldout = run.bank("heldout")
    mean = fit_aggregation(heldout)
    return frontier(run.bank("test"), fit_named(name, heldout, mean, "members"), mean)


def fitted_anew(run: Packed, cost: float) -> Frontier:
    """A selector fitted for this very cost on the run's held-out outputs, over the test samples."""
    selector = selector_fitter(cost=cost, seed=run.seed)(run.bank("heldout"), run.aggregation, "members")
    return frontier(run.bank("test"), selector, run.aggregation)


def worth_keeping(runs: Iterable[Packed]) -> list[Packed]:
    """Those whose answers are compared with those of others."""
    labels = {*COMPARED, *ABLATED}
    return [run for run in runs if run.label in labels and (run.has_heldout or run.label != "average")]


def answers_of(run: Packed) -> dict[str, Any]:
    """What a run answers right as it is and, unless a part was left out, at every cost; packed."""
    right = right_at_every_cost(run) if run.label in COMPARED else {}
    test = run.bank("test")
    prediction = test.replay(run.policy(), run.aggregation)
    cost = float(prediction.cost.mean())
    right[At(AS_IS, cost)] = (prediction.labels == test.targets).double()
    about = {"name": run.name, "seed": run.seed, "label": run.label, "cost": cost}
    return Answers({**about, "setting": run.setting._asdict()}, right).packed()


def right_at_every_cost(run: Packed) -> dict[At, Tensor]:
    """What a run answers right by its own policy and by thresholds; IRENE also by selectors fitted for each cost."""
    curves = {name: threshold_curve(run, name) for name in THRESHOLDS if run.has_heldout}
    if run.label != "average":
        curves[OWN] = own_curve(run)
    right = {At(name, cost): curve.quality_at(cost) for name, curve in curves.items() for cost in COSTS}
    if run.label == IRENE:
        right |= {At(ANEW, cost): fitted_anew(run, cost).quality_at(cost) for cost in COSTS}
    return right


@dataclass(frozen=True)
class Known:
    """The answers of all runs that there ever were."""

    runs: Sequence[Answers]

    @classmethod
    def of(cls, answers: Iterable[Answers]) -> Known:
        return cls([one for one in answers if "setting" in one.about])

    def settings(self) -> list[Setting]:
        return sorted({setting_of(one) for one in self.runs})

    def sides(self, *wanted: Side) -> list[list[Answers]]:
        """The runs of each side whose seed all sides have, in the order of seeds."""
        return common_seeds(
            *([one for one in self.runs if (setting_of(one), one.about["label"]) == side[:2]] for side in wanted)
        )


class Side(NamedTuple):
    """What is compared: a policy on the runs of a label in a setting."""

    setting: Setting
    label: str
    policy: str


def setting_of(one: Answers) -> Setting:
    return Setting(**one.about["setting"])


def rights(runs: Sequence[Answers], policy: str) -> Rights:
    """By cost, the share of right answers of each sample over the runs."""
    return {cost: torch.stack([one.right[At(policy, cost)] for one in runs]).mean(0) for cost in COSTS}


def accuracies(of_runs: Rights) -> dict[str, float]:
    return {f"{cost:g}": float(right_N.mean()) for cost, right_N in of_runs.items()}


def points(ones: Rights, others: Rights) -> dict[str, list[float]]:
    """The gain in points of accuracy at each cost and over all of them, with its 95 % interval."""
    pairs = {f"{cost:g}": (ones[cost], others[cost]) for cost in COSTS}
    pairs["all"] = torch.stack([*ones.values()]).mean(0), torch.stack([*others.values()]).mean(0)
    return {cost: [100 * value for value in paired_bootstrap(*pair)] for cost, pair in pairs.items()}


def against(known: Known, setting: Setting) -> dict[str, Any] | None:
    """What IRENE gains on a policy with the same members and with independent ones, and slice on folds."""
    irene, margin = Side(setting, IRENE, OWN), Side(setting, "average", "margin")
    slices, averages = known.sides(irene, margin)
    if not slices:
        return None
    own = rights(slices, OWN)
    others = {
        f"{title(name)}, {members} members": rights(runs, name)
        for members, runs in (("the same", slices), ("independent", averages))
        for name in THRESHOLDS
    }
    about: dict[str, Any] = {
        "seeds": len(slices),
        "accuracy": accuracies(own),
        "gains": {name: points(own, other) for name, other in others.items()},
        "fitted": points(rights(slices, ANEW), others[f"{title('margin')}, the same members"]),
    }
    whole, longer = setting._replace(images=ALL_IMAGES), setting._replace(epochs=2 * setting.epochs)
    found = {
        "folds": gained(known, Side(setting, FOLDS, OWN), irene),
        "unheld": gained(known, Side(whole, FOLDS, OWN), irene),
        "longer": gained(known, margin._replace(setting=longer), margin),
    }
    return about | {name: gains for name, gains in found.items() if gains is not None}


def warm_started(known: Known, setting: Setting) -> dict[str, Any] | None:
    """What IRENE whose members go on gains on a threshold with the same members, and with independent ones."""
    ours = Side(setting, WARM, OWN)
    found = {
        "same": gained(known, ours, ours._replace(policy="margin")),
        "independent": gained(known, ours, Side(setting, "average", "margin")),
    }
    return {name: gains for name, gains in found.items() if gains is not None} or None


def gained(known: Known, one: Side, other: Side) -> dict[str, Any] | None:
    """What some runs reach and gain on others of the same seeds, and what they cost; None without a common seed."""
    first, second = known.sides(one, other)
    if not first:
        return None
    ours, theirs = rights(first, one.policy), rights(second, other.policy)
    cost = fmean(run.about["cost"] for run in first)
    return {"seeds": len(first), "accuracy": accuracies(ours), "gain": points(ours, theirs), "cost": cost}


def asked_and_realised(run: Packed) -> dict[str, float]:
    """What thresholds that cost so much on held-out images cost on test images."""
    policy = run.policy()
    known, seen = (frontier(run.bank(split), policy, run.aggregation) for split in ("heldout", "test"))
    return {f"{cost:g}": float(seen.at(known.threshold_for(cost), seen.costs_NT).mean()) for cost in ASKED}
