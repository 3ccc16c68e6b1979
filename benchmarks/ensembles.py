"""Ensembles whose saved outputs are compared: their banks, the costs to compare at, and those that are committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from comparison import joined

from irene.bank import Bank
from irene.calibration.selection import fit_named
from irene.halting.policy import Policy
from irene.halting.rule import Aggregation
from irene.training.afterwards import selector_fitter
from irene.types import CostUnit

EQUAL_COSTS = (1.05, 1.1, 1.15, 1.2, 1.3, 1.5, 2.0)
UNEQUAL_COSTS = (0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)  # of one large member
BANKS = Path(__file__).parent / "paper/banks"


@dataclass(frozen=True)
class Pair:
    """The outputs of one ensemble on held-out and on test samples."""

    heldout: Bank
    test: Bank

    def first(self, count: int) -> Pair:
        """The first so many members."""
        return Pair(self.heldout.members(range(count)), self.test.members(range(count)))


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The mean costs to compare ensembles of one kind at, and what a unit of them is."""

    name: str
    costs: tuple[float, ...]
    unit: CostUnit
    unit_size: float

    @property
    def weights(self) -> bool:
        """Whether members are unequal, so that their votes are weighed."""
        return self.unit == "flops"


@dataclass(frozen=True, kw_only=True)
class Setting(Costs):
    """Ensembles of one kind, to be compared on saved outputs."""

    pairs: list[Pair]
    said: str

    @property
    def usual_cost(self) -> float:
        """What a selector is fitted for where one has to serve all costs."""
        return 1.3 if self.unit == "members" else 0.3

    def fit(self, policy: str, bank: Bank, mean: Aggregation) -> Policy:
        """A policy of this name fitted on some samples, a selector for the usual cost."""
        if policy == "selector":
            return selector_fitter(cost=self.usual_cost * self.unit_size)(bank, mean, self.unit)
        return fit_named(policy, bank, mean, self.unit)


def read(folder: Path) -> Pair:
    return Pair(*(Bank.load(folder / "banks" / f"{split}.safetensors") for split in ("heldout", "test")))


def equal_setting(folders: Sequence[Path]) -> Setting:
    pairs = [read(folder) for folder in folders]
    steps = pairs[0].test.steps
    said = f"{steps} equal members, cost in members, {len(pairs)} ensembles"
    return Setting(name="equal", costs=EQUAL_COSTS, unit="members", unit_size=1.0, pairs=pairs, said=said)


def unequal_setting(small: Sequence[Path], large: Sequence[Path], counts: tuple[int, int]) -> Setting:
    pairs = []
    for few, many in zip(small, large, strict=True):
        one, other = read(few).first(counts[0]), read(many).first(counts[1])
        pairs.append(Pair(joined(one.heldout, other.heldout), joined(one.test, other.test)))
    flops = max(cost.flops for cost in pairs[0].test.costs)
    said = (
        f"{counts[0]} small members, then {counts[1]} large ones, cost in FLOPs of a large one (a small one is "
        f"{pairs[0].test.costs[0].flops / flops:.3f}), {len(pairs)} ensembles"
    )
    return Setting(name="unequal", costs=UNEQUAL_COSTS, unit="flops", unit_size=flops, pairs=pairs, said=said)


def committed() -> dict[str, Setting]:
    """What can be made of the committed banks."""
    large, small = (
        [BANKS / f"cifar10-{net}-average-s{seed}-e30" for seed in range(3)] for net in ("resnet18", "resnet32")
    )
    return {
        "three ResNet-18": equal_setting(large),
        "three ResNet-32": equal_setting(small),
        "two ResNet-32, two ResNet-18": unequal_setting(small, large, (2, 2)),
    }
