"""The order of an epoch and its augmentation: a pure function of the seed and the epoch.

It is drawn for all samples at once, whatever the number of processes, so that a resumed run and a
run on several devices see exactly what one uninterrupted process sees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from irene.data.samples import Augment


class Plan(NamedTuple):
    """Which samples an epoch goes through, and the crop and flip drawn for each."""

    rows: Tensor
    offsets_y: Tensor
    offsets_x: Tensor
    flips: Tensor


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed for one epoch, well apart from those of other seeds and epochs."""
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def draw_plan(samples: int, seed: int, epoch: int, *, shuffle: bool, augment: Augment) -> Tensor:
    """(4, N) int64 rows of a Plan on the CPU, one tensor so that it goes to a device in one transfer."""
    generator = torch.Generator().manual_seed(epoch_seed(seed, epoch))
    order = torch.randperm(samples, generator=generator) if shuffle else torch.arange(samples)
    offsets = torch.randint(2 * augment.crop + 1, (2, samples), generator=generator)
    flips = torch.randint(2, (1, samples), generator=generator) * int(augment.flip)
    return torch.cat([order[None], offsets, flips])


def batch_bounds(samples: int, batch_size: int, *, drop_last: bool, rank: int, world: int) -> list[tuple[int, int]]:
    """(start, stop) of this process's rows in every global batch."""
    starts = range(0, samples - batch_size + 1 if drop_last else samples, batch_size) if samples else ()
    bounds = []
    for start in starts:
        size = min(batch_size, samples - start)
        bounds.append((start + size * rank // world, start + size * (rank + 1) // world))
    return bounds
