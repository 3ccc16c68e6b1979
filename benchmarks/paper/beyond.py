"""Do thresholds that were set on clean held-out samples keep their word on corrupted images and after noisy labels?

    python benchmarks/paper/beyond.py DIR [--splits 20] [--out benchmarks/results]

DIR holds the unpacked tars that train.py left, one folder a run; runs that differ in their seed alone are one setting.
Everything is a replay of banks: temperatures, policies and thresholds come from the held-out samples and are then
looked at on the test images as they are and, where `train.py --corrupt` made these banks, under each corruption. A
setting such as cifar10-noise20 has wrong labels in training and held-out, and right ones in test.

Costs are in members where all members cost the same, else in FLOPs of the dearest one. Each policy is looked at
 - deployed: at the threshold that had the asked mean cost on held-out samples, against the whole ensemble;
 - against margin + temperature deployed: at the threshold of its own, and at exactly the mean cost that margin has
   come to on these images, read off the policy's frontier there, for which no label is looked at.
Runs are averaged for each test sample before samples are drawn for the 95 % intervals. Of many such intervals, one in
twenty leaves out zero by chance: the rows that put levels together say more than any one of them.

Promises: thresholds with at most some risk or drop. On fresh splits, held-out and test samples are put together and cut
anew, a third to calibrate on (with label noise that is a mixture of wrong and right labels). The splits share samples,
and the risk on fresh samples is a measured one, so that a promise may be missed by chance though the true risk keeps
it: "shown broken" counts those where chance would give as much in under 5 % of cases. Under corruption, the held-out
samples make the promise. A run's own selector makes none: it was fitted on the held-out samples.

Writes beyond.json and beyond.md, and prints the latter. What beyond.json says of other settings stays: DIR need not
hold their runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from irene.bank import Bank
from irene.calibration.frontier import Frontier, frontier
from irene.calibration.selection import Fitted, fit_named
from irene.calibration.weights import fit_aggregation
from irene.training.afterwards import selector_fitter
from irene.types import cost_vector

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from comparison import gain, points
from documents import RESULTS, write_results
from ensembles import Costs
from names import without_seed
from replay.beyond_promises import on_fresh_splits, promises_markdown, under_corruption
from replay.packed import Packed
from training.corruptions import AMOUNTS, NAMES

CLEAN = "clean"
MARGIN, CHANGE, SELECTOR, OWN = "margin", "change", "selector", "own selector"
EQUAL_COSTS = (1.1, 1.3, 1.5)
UNEQUAL_COSTS = (0.3, 0.5, 0.7)  # of the dearest member


@dataclass(frozen=True)
class Ensemble:
    """The banks of one run, and the selector it was trained with, if any."""

    heldout: Bank
    sets: dict[str, Bank]  # test images as they are, and corrupted
    own: Fitted | None


@dataclass(frozen=True, kw_only=True)
class Setting(Costs):
    """Runs that differ in their seed alone, with the mean costs to ask for."""

    runs: list[Ensemble]

    @property
    def said(self) -> str:
        unit = "in members" if self.unit == "members" else "in FLOPs of the dearest member"
        return f"{self.name}: {self.runs[0].heldout.steps} members, cost {unit}, runs: {len(self.runs)}"


@dataclass
class Look:
    """What a policy does on a set of images: for each run its mean cost, and what each sample's answer is worth."""

    costs: list[float]
    deployed: list[Tensor]  # (N,) right answers with the threshold from held-out samples
    matched: list[Tensor]  # (N,) right answers at the mean cost that margin has come to here
    whole: list[Tensor]  # (N,) right answers of the whole ensemble


Looks = dict[str, dict[float, dict[str, Look]]]  # by set of images, asked cost, policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, metavar="DIR")
    parser.add_argument("--splits", type=int, default=20, help="fresh splits to check promises on, 0 for none")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = {setting.name: examine(setting, arguments.splits) for setting in settings(arguments.runs)}
    if not found:
        raise SystemExit(f"{arguments.runs}: no folder in it is a run with banks of held-out and test samples")
    said = arguments.out / "beyond.json"
    report = (json.loads(said.read_text()) if said.exists() else {}) | found
    write_results("beyond", report, [markdown(about) for about in report.values()], arguments.out)


def settings(folder: Path) -> list[Setting]:
    """The runs in a folder that stop early by a policy, put together where only their seed differs."""
    groups: dict[str, list[Ensemble]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        if all((path / "banks" / f"{split}.safetensors").exists() for split in ("heldout", "test")):
            ensemble = read(path)
            if ensemble.heldout.steps > 1 and ensemble.heldout.gates is None:
                groups[without_seed(path.name)].append(ensemble)
    return [as_setting(name, runs) for name, runs in groups.items()]


def read(folder: Path) -> Ensemble:
    run = Packed.open(folder)
    corrupted = [name for name in NAMES if (folder / "banks" / f"{name}.safetensors").exists()]
    own = None
    if run.manifest["policy"]["name"] == SELECTOR and (folder / "policy.safetensors").exists():
        own = Fitted(run.policy(), run.aggregation)
    return Ensemble(
        heldout=run.bank("heldout"),
        sets={CLEAN: run.bank("test")} | {name: run.bank(name) for name in corrupted},
        own=own,
    )


def as_setting(name: str, runs: list[Ensemble]) -> Setting:
    for other in runs[1:]:
        if other.sets.keys() != runs[0].sets.keys() or not all(
            torch.equal(bank.ids, other.sets[key].ids) for key, bank in runs[0].sets.items()
        ):
            raise SystemExit(
                f"{name}: its runs are on other images, so they cannot be averaged: take some of them away"
            )
    if any(run.own is None for run in runs):  # of some runs alone it could not be paired with the other policies
        runs = [replace(run, own=None) for run in runs]
    flops_T = cost_vector(runs[0].heldout.costs, "flops")
    if bool((flops_T == flops_T[0]).all()):
        return Setting(name=name, runs=runs, costs=EQUAL_COSTS, unit="members", unit_size=1.0)
    size = float(flops_T.max())
    costs = tuple(cost for cost in UNEQUAL_COSTS if cost * size > float(flops_T[0]))
    return Setting(name=name, runs=runs, costs=costs, unit="flops", unit_size=size)


def examine(setting: Setting, splits: int) -> dict[str, Any]:
    """Everything about a setting, as it goes into the JSON file."""
    looks = look(setting)
    found: dict[str, Any] = {"about": setting.said, "unit": setting.unit, "runs": len(setting.runs), "sets": {}}
    for name, by_cost in {**looks, **together(looks)}.items():
        first = by_cost[setting.costs[0]][MARGIN]
        found["sets"][name] = {
            "samples": len(first.whole[0]),
            "all members": float(torch.stack(first.whole).mean()),
            "asked": {f"{cost:g}": figures(policies) for cost, policies in by_cost.items()},
        }
    banks = [(run.heldout, run.sets) for run in setting.runs]
    found["promises on held-out samples"] = under_corruption(banks, weights=setting.weights)
    if splits:
        found["promises on fresh splits"] = on_fresh_splits(
            [(run.heldout, run.sets[CLEAN]) for run in setting.runs], splits, weights=setting.weights
        )
    return found


def look(setting: Setting) -> Looks:
    """Each policy at each cost on each set of images."""
    looks: Looks = {}
    for run in setting.runs:
        for cost in setting.costs:
            for policy, fitted in policies(run, setting, cost):
                asked = cost * setting.unit_size
                heldout = frontier(run.heldout, *fitted, setting.unit)
                threshold = heldout.threshold_for(asked)
                for name, bank in run.sets.items():
                    curve = frontier(bank, *fitted, setting.unit)
                    here = looks.setdefault(name, {}).setdefault(cost, {})
                    add(here, policy, curve, threshold, setting.unit_size)
    return looks


def policies(run: Ensemble, setting: Setting, cost: float) -> Iterator[tuple[str, Fitted]]:
    """The policies to compare, margin first; a selector is fitted around the cost that is asked for."""
    mean = fit_aggregation(run.heldout, weights=setting.weights)
    for name in (MARGIN, CHANGE):
        yield name, Fitted(fit_named(name, run.heldout, mean, setting.unit), mean)
    yield SELECTOR, Fitted(selector_fitter(cost=cost * setting.unit_size)(run.heldout, mean, setting.unit), mean)
    if run.own is not None:
        yield OWN, run.own


def add(here: dict[str, Look], policy: str, curve: Frontier, threshold: float, unit_size: float) -> None:
    """One run more of a policy on a set of images."""
    mine = here.setdefault(policy, Look([], [], [], []))
    mine.costs.append(float(curve.at(threshold, curve.costs_NT).mean()) / unit_size)
    mine.deployed.append(curve.at(threshold, curve.quality_NT))
    margins = here[MARGIN].costs[-1]  # of the same run: margin comes first
    mine.matched.append(mine.deployed[-1] if policy == MARGIN else curve.quality_at(margins * unit_size))
    mine.whole.append(curve.full_N)


def together(looks: Looks) -> Looks:
    """Each sample averaged over the levels of a corruption, and over all corruptions."""
    groups = {f"{kind}, all levels": [name for name in looks if NAMES.get(name, ("",))[0] == kind] for kind in AMOUNTS}
    groups["all corruptions"] = [name for name in looks if name in NAMES]
    found: Looks = {}
    for group, names in groups.items():
        for cost, here in looks[names[0]].items() if names else ():
            for policy in here:
                parts = [looks[name][cost][policy] for name in names]
                found.setdefault(group, {}).setdefault(cost, {})[policy] = Look(
                    costs=[fmean(costs) for costs in zip(*(part.costs for part in parts), strict=True)],
                    deployed=averaged([part.deployed for part in parts]),
                    matched=averaged([part.matched for part in parts]),
                    whole=averaged([part.whole for part in parts]),
                )
    return found


def averaged(parts: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Run by run, the mean of each sample over sets of images."""
    return [torch.stack(list(run)).mean(0) for run in zip(*parts, strict=True)]


def figures(here: dict[str, Look]) -> dict[str, Any]:
    """Cost, accuracy and differences in points of each policy, with 95 % intervals."""

    def mean(parts: list[Tensor]) -> Tensor:
        return torch.stack(parts).mean(0)

    margin = here[MARGIN]
    found: dict[str, Any] = {}
    for policy, mine in here.items():
        found[policy] = {
            "cost": fmean(mine.costs),
            "cost of each run": mine.costs,
            "accuracy": float(mean(mine.deployed).mean()),
            "against all members": points(mean(mine.deployed), mean(mine.whole)),
        }
        if policy != MARGIN:
            found[policy] |= {
                "gain with its own threshold": points(mean(mine.deployed), mean(margin.deployed)),
                "gain at the same cost": points(mean(mine.matched), mean(margin.deployed)),
            }
    return found


def markdown(found: dict[str, Any]) -> str:
    """Tables of one setting; a difference is in bold where its interval leaves out zero."""
    lines = [f"### {found['about']}"]
    first = next(iter(found["sets"].values()))
    for asked, policies in first["asked"].items():
        names = list(policies)
        others = names[1:]
        lines += [
            "",
            f"Asked for {asked} on held-out samples: the mean cost on these images, and the difference from all "
            "members in points.",
            "",
            "| images | all members | " + " | ".join(names) + " |",
            "|---" * (len(names) + 2) + "|",
        ]
        for images, about in found["sets"].items():
            here = about["asked"][asked]
            cells = [f"{here[name]['cost']:.2f}: {gain(here[name]['against all members'])}" for name in names]
            lines.append(f"| {images} | {about['all members']:.2%} | " + " | ".join(cells) + " |")
        lines += [
            "",
            f"Asked for {asked}: gains over {MARGIN} + temperature in points, at the same mean cost on these images, "
            "then each with its own threshold.",
            "",
            "| images | "
            + " | ".join(f"{name}, {how}" for how in ("same cost", "own threshold") for name in others)
            + " |",
            "|---" * (2 * len(others) + 1) + "|",
        ]
        for images, about in found["sets"].items():
            here = about["asked"][asked]
            ways = ("gain at the same cost", "gain with its own threshold")
            cells = [gain(here[name][way]) for way in ways for name in others]
            lines.append(f"| {images} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", promises_markdown(found)])


if __name__ == "__main__":
    main()
