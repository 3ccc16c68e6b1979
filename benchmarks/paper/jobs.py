"""What the study trains: one job a data set, backbone, method and seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from irene.training.joint import LossWeights
from irene.training.methods.irene import IreneOptions
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.schedules import Schedule
from irene.training.train import TrainOptions

# The short schedule: same optimiser, augmentation and held-out slice for all; one-cycle in 30 epochs of batch 512.
SHORT = LoopOptions(
    epochs=30,
    batch_size=512,
    optimizer=OptimizerOptions(lr=0.4, weight_decay=5e-4, schedule=Schedule(kind="onecycle")),
    compile=True,
)
LONGER = replace(SHORT, epochs=60)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run of the study."""

    dataset: str
    backbones: tuple[str, ...]
    method: str
    seed: int
    variant: str = ""
    method_options: Any = None
    loop: LoopOptions = field(default_factory=lambda: SHORT)

    @property
    def name(self) -> str:
        parts = [self.dataset, "_".join(dict.fromkeys(self.backbones)), self.method, self.variant, f"s{self.seed}"]
        return "-".join([part for part in parts if part] + [f"e{self.loop.epochs}"])

    @property
    def options(self) -> TrainOptions:
        return TrainOptions(members=len(self.backbones), backbones=self.backbones, seed=self.seed)


def irene(variant: str = "", **options: Any) -> dict[str, Any]:
    return {"method": "irene", "variant": variant, "method_options": IreneOptions(**options)}


R18, R32 = ("resnet18",) * 3, ("resnet32",) * 3
SMALL_FIRST = ("resnet32", "resnet32", "resnet18", "resnet18")
R18_FLOPS = 1.11085e9

HALF = irene("half-flops", cost=0.5 * R18_FLOPS, cost_unit="flops")
FOLDS = irene("folds", selector_data="folds")
PAPER = irene("paper", recipe="paper", loss_weights=LossWeights(ensemble=0.01, cost=0.01, rank=0.1))
SEEDS = range(3)


def jobs(dataset: str, backbones: tuple[str, ...], seeds: Iterable[int] = SEEDS, **about: Any) -> list[Job]:
    return [Job(dataset=dataset, backbones=backbones, seed=seed, **about) for seed in seeds]


AVERAGE = {"method": "average"}
JOBS: dict[str, list[Job]] = {
    "irene": [*jobs("cifar10", R18, **irene()), *jobs("cifar10", R18, **FOLDS)],
    "members": [*jobs("cifar10", R18, **AVERAGE), *jobs("cifar10", R32, **AVERAGE)],
    "recipe": jobs("cifar10", R18, [0], **PAPER),
    "cifar100": [
        *jobs("cifar100", R18, **AVERAGE),
        *jobs("cifar100", R32, **AVERAGE),
        *jobs("cifar100", R18, **irene()),
        *jobs("cifar100", R32, **irene()),
    ],
    "headline": [  # small networks need more epochs than large ones
        *jobs("cifar10", R32, **AVERAGE, loop=LONGER),
        *jobs("cifar10", SMALL_FIRST, **HALF, loop=LONGER),
        *jobs("cifar10", R18, **AVERAGE, loop=LONGER),
    ],
}
