"""Which samples go aside: stratified for class indices, plain random for values.

numpy's RandomState is used because its stream is frozen for good: a seed means the same split for ever.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irene.errors import DataError, OptionError

Indices = NDArray[np.int64]


def _random(seed: int) -> np.random.RandomState:
    if not 0 <= seed < 2**32:
        raise OptionError(f"seed must be from 0 to {2**32 - 1}, got {seed}")
    return np.random.RandomState(seed)


def _groups(targets: Tensor) -> list[Indices]:
    """Positions of each class that occurs; values are one group."""
    if targets.ndim > 1 or targets.is_floating_point():
        return [np.arange(len(targets))]
    labels = targets.numpy()
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order])) + 1
    return np.split(order, starts)


def quotas(sizes: list[int], count: int) -> list[int]:
    """How many each class gives so that `count` go aside: in proportion, and never a class's last sample."""
    total = sum(sizes)
    given = [size * count // total for size in sizes]
    by_remainder = sorted(range(len(sizes)), key=lambda c: (-(sizes[c] * count % total), c))
    missing = count - sum(given)
    while missing > 0:
        for c in by_remainder:
            if missing and given[c] < sizes[c] - 1:
                given[c] += 1
                missing -= 1
    return given


def take_aside(targets: Tensor, count: int, seed: int, *, fewer: bool = False) -> tuple[Tensor, Tensor]:
    """Positions that stay and positions of `count` samples that go aside, or `fewer` if need be, both ascending."""
    random = _random(seed)
    groups = _groups(targets)
    most = len(targets) - len(groups)
    if fewer:
        count = min(count, most)
    if count == 0:
        return torch.arange(len(targets)), torch.arange(0)
    if count > most:
        raise DataError(
            f"{count} of {len(targets)} samples cannot be set aside: at most {most}, "
            "so that every class keeps a sample to learn from"
        )
    aside = np.zeros(len(targets), dtype=bool)
    for members, quota in zip(groups, quotas([len(g) for g in groups], count), strict=True):
        aside[random.permutation(members)[:quota]] = True
    return torch.from_numpy(np.flatnonzero(~aside)), torch.from_numpy(np.flatnonzero(aside))


def fold_indices(targets: Tensor, count: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """(stay, out) positions for each of `count` folds: each sample is out once, classes spread evenly."""
    if not 2 <= count <= len(targets):
        raise OptionError(f"folds must be from 2 to the number of samples ({len(targets)}), got {count}")
    random = _random(seed)
    dealt = np.concatenate([random.permutation(members) for members in _groups(targets)])
    fold = np.empty(len(targets), dtype=np.int64)
    fold[dealt] = np.arange(len(targets)) % count
    return [
        (torch.from_numpy(np.flatnonzero(fold != k)), torch.from_numpy(np.flatnonzero(fold == k))) for k in range(count)
    ]
