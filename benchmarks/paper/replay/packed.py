"""The packed runs of the study: what they are runs of, and how they are called in tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from jobs import R18_FLOPS
from names import ALL_IMAGES, DISTILLED, SIZES, WARM_STARTED

from irene.bank import Bank
from irene.calibration.frontier import frontier
from irene.halting.policy import Policy
from irene.run import Run
from irene.training.afterwards import selector_fitter

TABLE_MEMBERS = 3  # of every ensemble in the paper's tables
ALONE = 0.8  # of the fastest training of a backbone: a run that was slower shared the card with others
NEVER_ALONE = ("resnet18s2", *SIZES)  # networks whose every training shared the card: none tells how fast it is
STEADY = 2.0  # times the first member's epoch: where a later one took longer, others came to the card on the way


class Setting(NamedTuple):
    """What methods are compared within: they differ in nothing of this."""

    dataset: str
    backbone: str
    epochs: int
    images: int  # to train on

    @property
    def slug(self) -> str:
        name = f"{self.dataset}-{self.backbone.replace('+', '_')}-e{self.epochs}"
        return f"{name}-full" if self.images >= ALL_IMAGES else name


class Packed(Run):
    """A run as train.py packed it: no members' weights, and banks in half precision, so with hashes of their own."""

    def bank(self, split: str) -> Bank:
        return Bank.load(self.path / "banks" / f"{split}.safetensors")

    @property
    def ends_on_heldout(self) -> bool:
        """Whether its training ended with a selector fitted on the held-out outputs, which are here."""
        if self.method != "irene" or not self.has_heldout:
            return False
        own = self.own
        return bool(own["recipe"] == "irene" and own["selector_data"] == "slice" and not own["without"])

    def policy(self) -> Policy:
        """The run's policy; where training ends on held-out outputs its end is done over: all runs have the same."""
        return self._done_over if self.ends_on_heldout else super().policy()

    @cached_property
    def _done_over(self) -> Policy:
        own, heldout = self.own, self.bank("heldout")
        fit = selector_fitter(cost=own["cost"], hidden=own["hidden"], seed=self.seed)
        selector = fit(heldout, self.aggregation, own["cost_unit"])
        line = frontier(heldout, selector, self.aggregation, own["cost_unit"])
        return selector.at(line.threshold_for(own["cost"]))

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def backbones(self) -> list[str]:
        names: list[str] = self.manifest["backbones"]
        return names

    @property
    def _first(self) -> int:
        """The member that was trained first: the first to run, or one of the costliest where these teach the others."""
        flops = [cost.flops for cost in self.costs]
        return flops.index(max(flops)) if self.method == "distil" else 0

    @property
    def first_trained(self) -> str:
        return self.backbones[self._first]

    @property
    def first_flops(self) -> float:
        return self.costs[self._first].flops

    @property
    def tells_speed(self) -> bool:
        """Whether it began with the training of one network, and not of several that others teach."""
        return not self.own.get("teachers")

    @property
    def seed(self) -> int:
        return int(self.manifest["seed"])

    @property
    def begun(self) -> float:
        """When its training began, in seconds of the epoch."""
        return datetime.fromisoformat(self.manifest["environment"]["begun"]).timestamp()

    @property
    def own(self) -> dict[str, Any]:
        options: dict[str, Any] = self.manifest["options"]["method"]
        return options

    @property
    def has_heldout(self) -> bool:
        return "heldout" in self.manifest["banks"]

    @property
    def setting(self) -> Setting:
        about = self.manifest["data"]
        backbone = "+".join(self.backbones) if len(set(self.backbones)) > 1 else self.backbones[0]
        return Setting(about["data"], backbone, self.manifest["options"]["loop"]["epochs"], about["sizes"]["train"])

    @property
    def label(self) -> str:
        """The method as tables call it; what is not of three members says so."""
        parts = [self.method]
        if self.method == "irene":
            parts.append(self._kind())
            parts += ["out-of-fold"] * (self.own["selector_data"] == "folds" and self.own["recipe"] == "irene")
            parts += [WARM_STARTED] * (self.own.get("later") == "go-on")
            parts += [f"without {part}" for part in self.own["without"]]
        if self.own.get("taught_epochs"):
            parts.append(f"for {self.own['taught_epochs']} epochs")
        parts += ["on mixtures"] * bool(self.own.get("mixed"))
        parts += [WARM_STARTED] * (self.method == "distil" and self.own.get("later") == "go-on")
        equal, count = len(set(self.backbones)) == 1, len(self.backbones)
        return " ".join(parts) + (f" of {count}" if equal and count not in (1, TABLE_MEMBERS) else "")

    @property
    def taught(self) -> str:
        """How the small members of a distillation were trained, as results.json calls it."""
        return self.label.replace("distil", DISTILLED, 1)

    def _kind(self) -> str:
        if self.own["recipe"] == "paper":
            return "paper's recipe"
        if self.own["cost_unit"] == "flops":
            return f"at {self.own['cost'] / R18_FLOPS:.2g} ResNet-18 FLOPs"
        return f"at {self.own['cost']:g}"

    def epoch_seconds(self) -> dict[str, list[float]]:
        """Seconds of every epoch by member, without the models of folds."""
        return {
            stage: [float(line["seconds"]) for line in lines]
            for stage, lines in self.epochs().items()
            if stage.startswith("member") and "fold" not in stage
        }

    def rate(self) -> float:
        """FLOPs of plain training a second: of the first stage, which no method makes dearer than its network is."""
        first = next(iter(self.epochs().values()))
        batch = self.manifest["options"]["loop"]["batch_size"]
        images = self.manifest["data"]["sizes"]["train"]
        images = images // 2 if "fold" in first[0]["stage"] else images
        seconds = statistics.median(float(one["seconds"]) for one in first)
        return float(3 * self.first_flops * (images // batch * batch) / seconds)


@dataclass(frozen=True)
class Study:
    """All runs there are."""

    runs: Sequence[Packed]

    @classmethod
    def read(cls, folder: Path) -> Study:
        return cls([Packed.open(path) for path in sorted(folder.iterdir()) if (path / "run.json").exists()])

    def settings(self) -> list[Setting]:
        return sorted({run.setting for run in self.runs})

    def of(self, setting: Setting, *labels: str) -> list[Packed]:
        return [run for run in self.runs if run.setting == setting and run.label in labels]

    def alone(self, run: Packed, known: float = 0.0) -> bool:
        """Whether a run had the card to itself, so that its time says something.

        `known` is the fastest rate of its backbone in runs that are not here: all that are may have shared the card.
        """
        if run.first_trained in NEVER_ALONE or not run.tells_speed:
            return False
        same = [other for other in self.runs if other.first_trained == run.first_trained and other.tells_speed]
        fastest = max(known, *(other.rate() for other in same))
        if len(set(run.backbones)) == 1:
            medians = [statistics.median(seconds) for seconds in run.epoch_seconds().values()]
            if medians and max(medians) > STEADY * medians[0]:
                return False
        return run.rate() >= ALONE * fastest


class Seeded(Protocol):
    @property
    def seed(self) -> int: ...


One = TypeVar("One", bound=Seeded)
T = TypeVar("T")


def common_seeds(*sides: Iterable[One]) -> list[list[One]]:
    """Those of each side whose seed all sides have, in the order of seeds."""
    lists = [sorted(side, key=lambda one: one.seed) for side in sides]
    seeds = set.intersection(*({one.seed for one in side} for side in lists))
    return [[one for one in side if one.seed in seeds] for side in lists]


def by_kind(ones: Iterable[T], about: Callable[[T], Mapping[str, Any]], kind: Iterable[str]) -> list[list[T]]:
    """Those alike in all of these, together and in the order of seeds; `about` says what one is."""
    keys = list(kind)
    found: dict[str, list[T]] = {}
    for one in ones:
        found.setdefault(str([about(one)[key] for key in keys]), []).append(one)
    return [sorted(alike, key=lambda one: int(about(one)["seed"])) for alike in found.values()]


def places(backbones: Sequence[str], name: str) -> list[int]:
    """Where members of a kind stand."""
    return [t for t, other in enumerate(backbones) if other == name]
