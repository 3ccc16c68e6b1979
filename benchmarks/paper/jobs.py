"""What the study trains: one job a data set, backbone, method and seed.

The budget is counted in epochs of one network, and is the same for all: every network that answers has seen `epochs`
epochs of the training images.

- average and IRENE: `epochs` for each of T members. Out-of-fold IRENE trains two more models on half of the images for
  each member, which is `epochs` again.
- snapshot: T cycles of `epochs`, each from where the last one ended (and not one training cut in T).
- FGE: `epochs` for the start, and cycles so long that three members take three times `epochs` as well (five take 138
  epochs in place of 150).
- distillation: `epochs` for each member, the costliest first; their answers are computed beside where they teach. The
  jobs `patient`, `distil-warm` and `four-taught` teach for longer.
- mixtures of experts: the experts see every batch together for `epochs`; their feature extractor takes `epochs` more.
- DivE2: as the experts; its extractor takes a fifth of `epochs`.
- MIMO and BatchEnsemble: one network, hence `epochs` once. BatchEnsemble computes all its sub-models in each step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from names import DATASETS, PAPER_EPOCHS, SHORT_EPOCHS, SIZES

from irene.training.joint import LossWeights
from irene.training.methods.batch_ensemble import BatchEnsembleOptions
from irene.training.methods.distil import DistilOptions
from irene.training.methods.fge import FgeOptions
from irene.training.methods.irene import IreneOptions, Part
from irene.training.methods.snapshot import SnapshotOptions
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.schedules import Schedule
from irene.training.train import TrainOptions

# The short schedule: same optimiser, augmentation and held-out slice for all; one-cycle in 30 epochs of batch 512.
SHORT = LoopOptions(
    epochs=SHORT_EPOCHS,
    batch_size=512,
    optimizer=OptimizerOptions(lr=0.4, weight_decay=5e-4, schedule=Schedule(kind="onecycle")),
    compile=True,
)
LONGER = replace(SHORT, epochs=60)
LONG = replace(SHORT, epochs=PAPER_EPOCHS)


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
    heldout: int | None = None  # images that no member trains on; None: a tenth
    teachers: str | None = None  # of a distillation: the run that has its costliest members already

    @property
    def name(self) -> str:
        parts = [self.dataset, "_".join(dict.fromkeys(self.backbones)), self.method, self.variant, f"s{self.seed}"]
        return "-".join([part for part in parts if part] + [f"e{self.loop.epochs}"])

    @property
    def options(self) -> TrainOptions:
        return TrainOptions(members=len(self.backbones), backbones=self.backbones, seed=self.seed, heldout=self.heldout)


SEEDS = range(3)
R18, R32 = ("resnet18",) * 3, ("resnet32",) * 3
SMALL_FIRST = ("resnet32", "resnet32", "resnet18", "resnet18")
DISTILLED = ("resnet18x0.25", "resnet18x0.375", "resnet18x0.5", *R18)  # sizes to choose from
FOUR_DISTILLED = ("resnet18x0.25", *("resnet18x0.5",) * 3, *R18)
QUICK = ("resnet18s2",) * 3  # small ones for a GPU, which takes nearly as long for thin networks as for wide ones
QUICK_DISTILLED = ("resnet18s2x0.5", "resnet18s2", *R18)
R18_FLOPS = 1.11085e9


def irene(variant: str = "", **options: Any) -> dict[str, Any]:
    return {"method": "irene", "variant": variant, "method_options": IreneOptions(**options)}


def jobs(dataset: str, backbones: tuple[str, ...], seeds: Iterable[int] = SEEDS, **about: Any) -> list[Job]:
    return [Job(dataset=dataset, backbones=backbones, seed=seed, **about) for seed in seeds]


def everywhere(seeds: Iterable[int] = SEEDS, **about: Any) -> list[Job]:
    """The paper's four settings."""
    return [job for dataset in DATASETS for backbones in (R18, R32) for job in jobs(dataset, backbones, seeds, **about)]


AVERAGE: dict[str, Any] = {"method": "average"}  # single, woc and the thresholds are replays of its members
HALF = irene("half-flops", cost=0.5 * R18_FLOPS, cost_unit="flops")
FOLDS = irene("folds", selector_data="folds")
WARM = irene("warm-started", later="go-on")
PAPER = irene("paper", recipe="paper", loss_weights=LossWeights(ensemble=0.01, cost=0.01, rank=0.1))
OTHERS = {
    "snapshot": SnapshotOptions(budget="each"),
    "fge": FgeOptions(cycle=24),  # 30 + 24 / 2 + 2 * 24 = 3 * 30
    "moe": None,
    "sparse-moe": None,
    "dive2": None,
    "mimo": None,
    "batch-ensemble": BatchEnsembleOptions(submodels=3),
}
TABLES = {  # the paper's two tables, in the short schedule
    "members": everywhere(**AVERAGE),
    "irene": everywhere(**irene()),
    "recipe": everywhere([0], **PAPER),
    "others": [job for name, own in OTHERS.items() for job in everywhere(method=name, method_options=own)],
}
PATIENT = DistilOptions(taught_epochs=240)  # for half the width, FLOPs of 60 epochs of the whole
MIXED = replace(PATIENT, mixed=True)
DISTIL_WARM = DistilOptions(taught_epochs=120, later="go-on")
DISTILLATIONS = [job for dataset in DATASETS for job in jobs(dataset, DISTILLED, method="distil", loop=LONGER)]
HARDER = [job for job in DISTILLATIONS if job.dataset == "cifar100" and job.seed == 0]
JOBS: dict[str, list[Job]] = {
    **TABLES,
    **{dataset: [job for group in TABLES.values() for job in group if job.dataset == dataset] for dataset in DATASETS},
    "headline": [  # small networks need more epochs than large ones
        *[job for dataset in DATASETS for job in jobs(dataset, R32, **AVERAGE, loop=LONGER)],
        *[job for dataset in DATASETS for job in jobs(dataset, SMALL_FIRST, [0], **HALF, loop=LONGER)],
        *[job for dataset in DATASETS for job in jobs(dataset, R18, **AVERAGE, loop=LONGER)],
        *[job for dataset in DATASETS for job in jobs(dataset, QUICK, **AVERAGE, loop=LONGER)],
    ],
    "distil": DISTILLATIONS,
    "distil-warm": [
        replace(job, variant="for-120-epochs-warm-started", method_options=DISTIL_WARM) for job in DISTILLATIONS
    ],
    "four-taught": [  # after the first, as good as a large one and at a quarter of its cost, before any of these
        replace(job, backbones=FOUR_DISTILLED, variant="for-240-epochs", method_options=PATIENT)
        for job in DISTILLATIONS
        if job.dataset == "cifar100"
    ],
    "quick": [replace(job, backbones=QUICK_DISTILLED, teachers=job.name) for job in DISTILLATIONS if job.seed == 0],
    "patient": [replace(job, variant="for-240-epochs", method_options=PATIENT) for job in HARDER],
    "mixed": [replace(job, variant="for-240-epochs-on-mixtures", method_options=MIXED) for job in HARDER],
    "sizes": [  # what a cascade has to beat at its cost
        *[
            job
            for name in SIZES
            for dataset in DATASETS
            for job in jobs(dataset, (name,), [0], method="single", loop=LONGER)
        ],
        *[job for dataset in DATASETS for job in jobs(dataset, R18, [0], method="mimo", loop=LONGER)],
    ],
    "warm": everywhere(**WARM),
    "long": [  # after so many epochs a warm start gains little: once is enough
        *[job for about in (AVERAGE, irene()) for job in everywhere([0], **about, loop=LONG)],
        *jobs("cifar10", R18, [0], **WARM, loop=LONG),
    ],
    # All 50,000 images and nothing held out, so that nothing can be calibrated: ties single and average to the paper.
    "full": [
        job for dataset in DATASETS for job in jobs(dataset, R18, [0], **AVERAGE, variant="full", heldout=0, loop=LONG)
    ],
    # Out-of-fold predictions need no held-out slice: members may train on all images, and the cost asked for suffers.
    "folds": [
        *jobs("cifar10", R18, **FOLDS),
        *jobs("cifar10", R18, [0], **FOLDS | {"variant": "folds-full"}, heldout=0),
    ],
    "eight": [job for dataset in DATASETS for job in jobs(dataset, ("resnet18",) * 8, [0], **AVERAGE, variant="t8")],
    "counts": [  # the paper's Fig. 4b
        *[job for count in (2, 4, 5, 8) for job in jobs("cifar10", R18[:1] * count, [0], **irene(f"t{count}"))],
        *[
            job
            for name, counts in (("snapshot", (2, 4, 5)), ("fge", (5,)))
            for count in counts
            for job in jobs(
                "cifar10", R18[:1] * count, [0], method=name, variant=f"t{count}", method_options=OTHERS[name]
            )
        ],
    ],
    "noise": [*jobs("cifar10+noise20", R18, **AVERAGE), *jobs("cifar10+noise20", R18, **irene())],
    "ablation": [  # the paper's Fig. 5, and the two parts that could cost ResNet-32 accuracy
        job
        for dataset, backbones, seeds, parts in (
            *((dataset, R18, [0], get_args(Part)) for dataset in DATASETS),
            ("cifar100", R32, [0, 1], ("rank",)),
            ("cifar100", R32, [0], ("discrepancy",)),
        )
        for part in parts
        for job in jobs(dataset, backbones, seeds, **irene(f"without-{part}", without=(part,)))
    ],
}
