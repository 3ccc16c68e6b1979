"""What the study calls its data sets, networks, policies, runs and settings, in JSON files and in text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

DATASETS = ("cifar10", "cifar100")  # of the paper
ALL_IMAGES = 50_000  # of CIFAR: nothing is held out
SHORT_EPOCHS = 30
PAPER_EPOCHS = 200
# Networks that are trained alone: one of about a cascade's cost.
SIZES = ("resnet20", "resnet56", "resnet18x0.25", "resnet18x0.375", "resnet18x0.5", "resnet18x0.75")
IRENE = "irene at 1.3"  # labels of runs
WARM_STARTED = "warm-started"  # said of members that start from the weights of the one before (later=go-on)
FOLDS, WARM = f"{IRENE} out-of-fold", f"{IRENE} {WARM_STARTED}"
INDEPENDENT, TOGETHER, DISTILLED = "independent", "together", "distilled"  # trainings of cascades: see trained
_TRAINED = {
    INDEPENDENT: "independent members",
    TOGETHER: "members trained together",
    DISTILLED: "small members distilled",
}
AND_MORE = "and more independent"  # large ones to choose from
NUMBERS = {1: "one", 2: "two", 3: "three"}
TITLES = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "vgg8": "VGG-8",
    "mimo": "MIMO",
    "margin": "margin + temperature",
    "change": "change predictor",
    "selector": "selector",
    "own selector": "IRENE's selector",
}
PLAIN = f"average, {TITLES['margin']} at 1.3"  # the baseline to beat, as rows call it
_RESNET = re.compile(r"resnet(?P<depth>\d+)(s(?P<stride>\d))?(x(?P<width>[\d.]+))?")
_SEED = re.compile(r"-s\d+(?=-|$)")


def mirrored(name: str) -> str:
    """Of a split, its images mirrored; of a network, the same one looking at these."""
    return f"{name}-mirrored"


def who_look_again(flops: Sequence[float]) -> list[int]:
    """Which members of a run see mirrored images too: all that are cheaper than the costliest."""
    most = max(flops)
    return [t for t, work in enumerate(flops) if work < most]


def title(name: str) -> str:
    """The written name of a data set, a backbone or a policy; cifar10+noise20 has 20 % wrong labels."""
    if name.endswith(mirrored("")):
        return f"{title(name.removesuffix(mirrored('')))} again, mirrored"
    plain, _, noise = name.partition("+noise")
    if found := _RESNET.fullmatch(plain):
        stride, width = (found[part] or "" for part in ("stride", "width"))
        return f"ResNet-{found['depth']}" + f"/{stride}" * bool(stride) + f" x {width}" * bool(width)
    return TITLES.get(plain, plain) + (f" with {noise} % wrong labels" if noise else "")


def parts_of(slug: str) -> tuple[str, str, int, bool]:
    """Data set, backbone and epochs of a setting, and whether of all images."""
    dataset, backbone, epochs, *full = slug.split("-")
    return dataset, backbone, int(epochs[1:]), bool(full)


def setting_title(slug: str) -> str:
    dataset, backbone, epochs, full = parts_of(slug)
    return f"{title(dataset)}, {title(backbone)}, {epochs} epochs" + ", all 50,000 images" * full


def trained(training: str) -> str:
    """How the members of a cascade were trained, in words: after `distilled` may stand how long and from what."""
    kind, _, more = training.partition(" ")
    return f"{_TRAINED[kind]} {more}".rstrip().replace(f" {WARM_STARTED}", f", large ones {WARM_STARTED}")


def in_short(backbones: Iterable[str]) -> str:
    return ", ".join(name.replace("resnet", "R") for name in backbones)


def number(count: int) -> str:
    return NUMBERS.get(count, str(count))


def seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds"


def file_name(name: str) -> str:
    """A name of a job, a setting or a picture in letters, digits, '.', '_' and '-' alone."""
    return name.replace("+", "-")


def without_seed(run: str) -> str:
    """The name that runs share which differ in their seed alone."""
    return _SEED.sub("", run)
