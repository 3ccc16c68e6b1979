"""The few batch sizes that members are run in, and which of them to take for a number of samples."""

from __future__ import annotations

import statistics
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from irene.errors import OptionError
from irene.runtime.recorder import synchronise

_REPEATS = 3
_FINE_FROM = 64  # below, a GPU takes about as long for one sample as for all


def bucket_sizes(largest: int, *, fine: bool = False) -> tuple[int, ...]:
    """Powers of two up to `largest`, which is always the last; `fine` puts three more between neighbours from 64 on."""
    if largest < 1:
        raise OptionError(f"the largest bucket must be 1 or more, got {largest}")
    sizes = {largest}
    power = 1
    while power < largest:
        steps = 4 if fine and power >= _FINE_FROM else 1
        sizes |= {power + power * step // steps for step in range(steps)}
        power *= 2
    return tuple(sorted(size for size in sizes if size <= largest))


def check_buckets(buckets: Sequence[int]) -> tuple[int, ...]:
    """The sizes in ascending order, each once."""
    sizes = tuple(sorted(set(buckets)))
    if not sizes or sizes[0] < 1:
        raise OptionError(f"buckets must be sizes of 1 or more, got {list(buckets)}")
    return sizes


@dataclass(frozen=True)
class CostTable:
    """What each stage of a cascade takes in each bucket, measured: `ms[stage][i]` for `buckets[i]`."""

    buckets: tuple[int, ...]
    ms: tuple[tuple[float, ...], ...]

    def choose(self, stage: int, count: int, within: int) -> int:
        """The cheapest bucket that holds `count` samples and is no larger than `within`, the one they are in.

        Where a smaller bucket is no cheaper than the present one, compacting does not pay and the samples stay.
        """
        low, high = bisect_left(self.buckets, count), bisect_left(self.buckets, within)
        costs = self.ms[stage][low : high + 1]
        if not costs:
            raise OptionError(f"{count} samples do not fit into the largest bucket, {self.buckets[-1]}")
        cheapest = min(range(len(costs)), key=lambda i: (costs[i], -i))
        return self.buckets[low + cheapest]


def measure(program: Callable[[], None], device: torch.device) -> float:
    """Milliseconds that a program takes: the median of a few synchronised calls."""
    times = []
    for _ in range(_REPEATS):
        synchronise(device)
        start = time.perf_counter()
        program()
        synchronise(device)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)
