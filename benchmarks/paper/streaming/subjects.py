"""The cascades that latency.py measures: members with weights, the images, and the single networks beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from names import INDEPENDENT, TOGETHER
from replay.packed import Packed
from torch import Tensor
from training.label_noise import load_named

from irene.calibration.selection import Fitted
from irene.data import Data, Samples, split
from irene.data.stratify import take_aside
from irene.halting.selector import Selector
from irene.models import Member
from irene.run import Run
from irene.types import Cost


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A cascade, the networks it is compared with, all of the kind of its largest member, and the images."""

    name: str
    dataset: str
    seed: int
    training: str  # how the members were trained, as results.json calls it
    members: tuple[Member, ...]
    costs: tuple[Cost, ...]
    own: Fitted | None  # the selector it was trained with
    networks: tuple[Member, ...]
    network_cost: Cost
    networks_of: str  # the run they are from
    half: bool  # whether weights have come in half precision
    heldout: Samples
    test: Samples

    @property
    def about(self) -> dict[str, Any]:
        return {
            "run": self.name,
            "dataset": self.dataset,
            "seed": self.seed,
            "training": self.training,
            "backbones": [member.spec.backbone for member in self.members],
            "half_precision": self.half,
        }


def jointly_trained(path: Path, reference: Path | None, root: Path, take: Sequence[int] = ()) -> Subject:
    """The cascade of a run, or of those members of it to `take` (from 1), which has no selector of its own then.

    Single networks are those of the reference, or its own largest members.
    """
    run = Run.open(path)
    members, costs, policy = run.members(), run.costs, run.policy()
    if take:
        members, costs = [members[number - 1] for number in take], tuple(costs[number - 1] for number in take)
    largest = max(cost.flops for cost in costs)
    networks = [member for member, cost in zip(members, costs, strict=True) if cost.flops == largest]
    backbone = networks[0].spec.backbone
    if reference is not None:
        other = Run.open(reference)
        networks = other.members()
        if {member.spec.backbone for member in networks} != {backbone}:
            raise SystemExit(f"{reference}: has other networks than {backbone}, the largest of {path}")
        check_same(run, other)
    return Subject(
        name=path.name,
        training=training_of(path),
        members=tuple(members),
        costs=costs,
        own=Fitted(policy, run.aggregation) if isinstance(policy, Selector) and not take else None,
        networks=tuple(networks),
        network_cost=max(costs, key=lambda cost: cost.flops),
        networks_of=path.name if reference is None else reference.name,
        half=bool(run.manifest.get("half_precision")),
        **images_of(run, root),
    )


def training_of(path: Path) -> str:
    """How the members of a run were trained, as results.json calls it."""
    run = Packed.open(path)
    return run.taught if run.method == "distil" else TOGETHER


def joined(small: Path, large: Path, counts: Sequence[int], root: Path) -> Subject:
    """The first members of one run followed by the first of another, all of the latter being the single networks."""
    runs = [Run.open(small), Run.open(large)]
    check_same(*runs)
    first, networks = (run.members() for run in runs)
    return Subject(
        name=f"{small.name} + {large.name}",
        training=INDEPENDENT,
        members=(*first[: counts[0]], *networks[: counts[1]]),
        costs=(*runs[0].costs[: counts[0]], *runs[1].costs[: counts[1]]),
        own=None,
        networks=tuple(networks),
        network_cost=runs[1].costs[0],
        networks_of=large.name,
        half=any(bool(run.manifest.get("half_precision")) for run in runs),
        **images_of(runs[0], root),
    )


def check_same(one: Run, other: Run) -> None:
    """Members that are run together must not have trained on what the others were held out from."""
    about, others = (run.manifest["data"] for run in (one, other))
    if (about["fingerprint"], about["ids"]["heldout"]) != (others["fingerprint"], others["ids"]["heldout"]):
        raise SystemExit(f"{one.path.name} and {other.path.name} are of other data or have other held-out images")


def images_of(run: Run, root: Path) -> dict[str, Any]:
    """The images that were held out in training, and the test images."""
    about = run.manifest["data"]
    splits = split(data_named(about["data"], root), heldout=about["sizes"]["heldout"], seed=about["seed"])
    if (splits.record["fingerprint"], splits.record["ids"]) != (about["fingerprint"], about["ids"]):
        raise SystemExit(f"{about['data']} in {root} is not what {run.path.name} was trained on")
    if not len(splits.heldout):
        raise SystemExit(f"{run.path.name}: nothing was held out, so that no threshold can be set")
    return {"dataset": about["data"], "seed": about["seed"], "heldout": splits.heldout, "test": splits.test}


@cache
def data_named(name: str, root: Path) -> Data:
    return load_named(name, root)


def fewer(subject: Subject, count: int | None) -> Subject:
    """The subject with at most so many images of either kind, drawn by class."""

    def some(samples: Samples) -> Samples:
        few = count is not None and count < len(samples)
        return samples.subset(take_aside(samples.targets, count, 0)[1]) if few and count else samples

    return replace(subject, heldout=some(subject.heldout), test=some(subject.test))


def inputs_of(samples: Samples) -> Tensor:
    assert samples.inputs is not None  # images of these data sets are in memory
    return samples.inputs
