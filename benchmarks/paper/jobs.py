"""What the study trains: one job a data set, backbone, method and seed."""

from __future__ import annotations

from dataclasses import dataclass, field
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

JOBS: dict[str, list[Job]] = {
    "recipes": [
        Job(dataset="cifar10", backbones=R18, seed=0, **irene()),
        Job(
            dataset="cifar10",
            backbones=SMALL_FIRST,
            seed=0,
            **irene("half-flops", cost=0.5 * R18_FLOPS, cost_unit="flops"),
        ),
        Job(dataset="cifar10", backbones=R18, seed=0, **irene("folds", selector_data="folds")),
        Job(
            dataset="cifar10",
            backbones=R18,
            seed=0,
            **irene("paper", recipe="paper", loss_weights=LossWeights(ensemble=0.01, cost=0.01, rank=0.1)),
        ),
    ],
    "members": [
        Job(dataset="cifar10", backbones=backbones, method="average", seed=seed)
        for seed in range(3)
        for backbones in (R18, R32)
    ],
}
