"""Data sets whose name carries label noise: cifar10+noise20 is CIFAR-10 with 20 % of its training labels wrong.

Exactly that share of the training samples, drawn at random, gets another class, each of the others being equally
likely. The held-out slice is cut from these samples, so its labels are as noisy: who has noisy labels has no clean ones
to set a threshold with. Test labels stay clean. Seeds of training do not matter here: the wrong labels are the same in
all runs.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from irene.data import Data, load
from irene.data.arrays import in_memory
from irene.errors import OptionError

_NOISE = re.compile(r"noise(\d{1,2})")


def load_named(name: str, root: Path) -> Data:
    """The data set of this name, with the label noise that the name asks for after a plus."""
    plain, plus, wish = name.partition("+")
    data = load(plain, root=root)
    if not plus:
        return data
    found = _NOISE.fullmatch(wish)
    if found is None:
        raise OptionError(f"after a plus comes noise and a whole percentage, as in cifar10+noise20; got {name!r}")
    return with_label_noise(data, int(found[1]) / 100, name=name)


def with_label_noise(data: Data, share: float, *, name: str, seed: int = 0) -> Data:
    """The data with this share of its training labels replaced by other classes."""
    targets = wrong_labels(data.train.targets, share, classes=data.outputs, seed=seed)
    return in_memory(
        name=name,
        task=data.task,
        train=dataclasses.replace(data.train, targets=targets),
        test=data.test,
        classes=data.classes,
        augment=data.augment,
    )


def wrong_labels(targets_N: Tensor, share: float, *, classes: int, seed: int) -> Tensor:
    """The targets with this share of them moved to another class."""
    random = np.random.RandomState(seed)  # its stream is frozen for good
    count = round(share * len(targets_N))
    chosen = torch.from_numpy(random.permutation(len(targets_N))[:count])
    shift = torch.from_numpy(random.randint(1, classes, size=count))
    noisy = targets_N.clone()
    noisy[chosen] = (noisy[chosen] + shift) % classes
    return noisy
