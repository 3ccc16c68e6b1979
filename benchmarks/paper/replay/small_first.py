"""Cascades of small members before large ones, however they were trained: accuracy at a ladder of FLOPs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import torch
from comparison import joined
from names import INDEPENDENT, file_name, mirrored, who_look_again
from torch import Tensor

from irene.bank import Bank
from irene.calibration.frontier import frontier
from irene.calibration.selection import fit_named
from irene.calibration.weights import fit_aggregation
from irene.metrics import figures_of, paired_bootstrap
from irene.training.afterwards import selector_fitter
from replay.against import THRESHOLDS
from replay.answers import Answers, At
from replay.merged import CASCADE
from replay.packed import Packed, Setting, Study, by_kind, common_seeds, places

COSTS = (0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 1.0)  # FLOPs of one large member
LARGE = "resnet18"
SMALL = ("resnet32", "resnet18s2")
COUNTS = ((2, 3), (2, 2), (1, 3))  # how many small members, then how many large ones, where all are independent
SELECTOR = "selector"  # fitted for each cost; the others serve all costs
POLICIES = (*THRESHOLDS, "cost-to-go", SELECTOR)


class Part(NamedTuple):
    """The first so many members of a run that are of one kind."""

    run: Packed
    backbone: str
    count: int
    mirrored: bool = False  # the same members, looking at mirrored images

    @property
    def members(self) -> list[int]:
        return places(self.run.backbones, self.backbone)[: self.count]

    @property
    def flops(self) -> float:
        return self.run.costs[self.members[0]].flops

    @property
    def name(self) -> str:
        return mirrored(self.backbone) if self.mirrored else self.backbone

    def bank(self, split: str) -> Bank:
        if not self.mirrored:
            return self.run.bank(split).members(self.members)
        small = who_look_again([cost.flops for cost in self.run.costs])
        return self.run.bank(mirrored(split)).members([small.index(t) for t in self.members])


def members_of(parts: Iterable[Part]) -> list[str]:
    """The backbones of all members, part after part."""
    return [part.name for part in parts for _ in part.members]


def bank_of(parts: Iterable[Part], split: str) -> Bank:
    """What all members answer, part after part."""
    return joined(*(part.bank(split) for part in parts))


class SmallFirst(NamedTuple):
    """A cascade of small networks and then large ones, of as many epochs each: its parts, cheapest first, by seed."""

    large: Setting
    training: str
    parts: list[tuple[Part, ...]]

    @property
    def whole_run(self) -> bool:
        """Whether it is all members of a run, and not of several runs or some of one."""
        parts = self.parts[0]
        return {part.run for part in parts} == {parts[0].run} and self.members == parts[0].run.backbones

    @property
    def members(self) -> list[str]:
        return members_of(self.parts[0])

    def banks(self) -> Iterator[tuple[Bank, Bank]]:
        """What the members answer on held-out and on test images, for each seed."""
        for parts in self.parts:
            heldout, test = (bank_of(parts, split) for split in ("heldout", "test"))
            yield heldout, test


def small_first(study: Study) -> Iterator[SmallFirst]:
    """The cascades that there are runs for; pages compare them with rows of independent networks of the same seeds."""
    for large in study.settings():
        if large.backbone == LARGE:
            yield from independent(study, large)
    for large, training, runs in distillations(study):
        kinds = Counter(runs[0].backbones)
        small = [name for name in kinds if name != LARGE]
        for some in [[name] for name in small] + [small] * (len(small) > 1):
            parts = [tuple(Part(run, name, kinds[name]) for name in (*some, LARGE)) for run in runs]
            yield SmallFirst(large, training, parts)
        twice = [tuple(whole(run, again=True)) for run in who_looked_again(runs)]
        if twice:
            yield SmallFirst(large, training, twice)


def whole(run: Packed, *, again: bool = False) -> list[Part]:
    """All members of a run, kind after kind; with `again`, small ones look at mirrored images, too."""
    looks = {name: (False, True) if again and name != LARGE else (False,) for name in run.backbones}
    return [Part(run, name, run.backbones.count(name), look) for name in looks for look in looks[name]]


def who_looked_again(runs: Iterable[Packed]) -> list[Packed]:
    """Runs whose small members have answered mirrored images."""
    return [run for run in runs if mirrored("test") in run.manifest["banks"]]


def of_heldout(runs: Sequence[Packed]) -> list[Packed]:
    return [run for run in runs if run.has_heldout]


def independent(study: Study, large: Setting) -> Iterator[SmallFirst]:
    """Members of two runs that know nothing of each other."""
    averages = of_heldout(study.of(large, "average"))
    for backbone in SMALL:
        smalls = of_heldout(study.of(large._replace(backbone=backbone), "average"))
        pairs = list(zip(*common_seeds(smalls, averages), strict=True))
        for few, many in COUNTS if pairs else ():
            yield SmallFirst(
                large, INDEPENDENT, [(Part(one, backbone, few), Part(other, LARGE, many)) for one, other in pairs]
            )


def distillations(study: Study) -> Iterator[tuple[Setting, str, list[Packed]]]:
    """Runs in which large members taught small ones, by the setting of the large ones and by how they did so."""
    for setting in study.settings():
        runs = [run for run in of_heldout(study.runs) if run.setting == setting and run.method == "distil"]
        for training in dict.fromkeys(run.taught for run in runs if LARGE in run.backbones):
            alike = [run for run in runs if run.taught == training]
            yield setting._replace(backbone=LARGE), training, sorted(alike, key=lambda run: run.seed)


def of_one_seed(cascades: Iterable[SmallFirst]) -> list[SmallFirst]:
    """The same, each of one seed."""
    return [cascade._replace(parts=[parts]) for cascade in cascades for parts in cascade.parts]


def answers_of(cascade: SmallFirst) -> dict[str, Any]:
    """What policies answer right at a ladder of FLOPs, all fitted on held-out images, packed; of a single seed."""
    ((heldout, test),) = cascade.banks()
    (parts,) = cascade.parts
    small, unit = parts[0].flops, parts[-1].flops
    mean = fit_aggregation(heldout, weights=True)
    fixed = {name: fit_named(name, heldout, mean, "flops") for name in POLICIES if name != SELECTOR}
    right = {}
    for name in POLICIES:
        for cost in (cost for cost in COSTS if cost * unit > small):  # no less than the first member can be had
            policy = fixed.get(name) or selector_fitter(cost=cost * unit)(heldout, mean, "flops")
            right[At(name, cost)] = frontier(test, policy, mean, "flops").quality_at(cost * unit)
    about = {
        "dataset": cascade.large.dataset,
        "epochs": cascade.large.epochs,
        "members": cascade.members,
        "whole_run": cascade.whole_run,
        "training": cascade.training,
        "seed": parts[0].run.seed,
        "small_flops": small / unit,
        "whole": float(frontier(test, fixed["margin"], mean, "flops").full_N.mean()),
        "large": ensemble_accuracy(test.members(range(test.steps - len(parts[-1].members), test.steps))),
    }
    return Answers({"name": name_of(about), **about}, right).packed()


def name_of(about: dict[str, Any]) -> str:
    """Of the file of answers."""
    members = "_".join(f"{count}-{name}" for name, count in Counter(about["members"]).items())
    training = about["training"].replace(" ", "-")
    return file_name(f"{about['dataset']}-{members}-{training}-s{about['seed']}-e{about['epochs']}")


def at_every_cost(seeds: Sequence[Answers]) -> dict[str, Any]:
    """Accuracy of policies at a ladder of FLOPs, over the seeds of a cascade."""
    first = seeds[0]
    right = {at: torch.stack([one.right[at] for one in seeds]).mean(0) for at in first.right}
    policies: dict[str, dict[str, Any]] = {}
    for at, right_N in right.items():
        policies.setdefault(at.policy, {})[f"{at.cost:g}"] = _on_margin(right_N, right[At("margin", at.cost)])
    return {
        **{key: first.about[key] for key in ("dataset", "epochs", "members", "whole_run", "training")},
        "seeds": len(seeds),
        "which_seeds": [one.seed for one in seeds],
        "small_flops": first.about["small_flops"],
        **{key: fmean(one.about[key] for one in seeds) for key in ("whole", "large")},
        "policies": policies,
    }


def of_all_seeds(answers: Iterable[Answers]) -> list[list[Answers]]:
    """The answers of each cascade, in the order of seeds."""
    return by_kind((one for one in answers if "training" in one.about), lambda one: one.about, CASCADE)


def ensemble_accuracy(bank: Bank) -> float:
    """That of the plain mean of all members."""
    return float(figures_of(bank.replay(), bank.targets, bank.costs)["accuracy"])


def accuracy(right_N: Tensor) -> dict[str, Any]:
    """The share of right answers with its interval."""
    mean, low, high = paired_bootstrap(right_N, torch.zeros_like(right_N))
    return {"accuracy": mean, "low": low, "high": high}


def _on_margin(right_N: Tensor, margin_N: Tensor) -> dict[str, Any]:
    return {**accuracy(right_N), "gain": [100 * value for value in paired_bootstrap(right_N, margin_N)]}
