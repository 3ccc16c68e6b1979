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
_WORTH = 0.9  # running a member that may not be needed must save a tenth of the time
_FINE_FROM = 16  # below, a GPU takes about as long for one sample as for all


def bucket_sizes(largest: int, *, fine: bool = False) -> tuple[int, ...]:
    """Powers of two up to `largest`, which is always the last; `fine` puts three more between neighbours from 16 on."""
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
    """What the stages of a cascade take in each bucket, measured: `ms[stage][i]` for `buckets[i]`.

    `pairs[stage][i]` is what a stage and the next one take side by side, infinity where they are never run so.
    """

    buckets: tuple[int, ...]
    ms: tuple[tuple[float, ...], ...]
    pairs: tuple[tuple[float, ...], ...] = ()

    def choose(self, stage: int, count: int, within: int) -> int:
        """The cheapest bucket that holds `count` samples and is no larger than `within`, the one they are in.

        Where a smaller bucket is no cheaper than the present one, compacting does not pay and the samples stay.
        """
        return self._cheapest(self.ms[stage], count, within)[1]

    def plan(self, stage: int, count: int, within: int, going: float) -> tuple[int, int]:
        """The bucket, and how many stages to run side by side on it: one, or two.

        `going` is the share of samples that usually goes on after this stage. Two members at once do not fill a
        large GPU where samples are few: then the second costs less beside the first than after it, though some
        samples would not have needed it.
        """
        alone_ms, rows = self._cheapest(self.ms[stage], count, within)
        if stage < len(self.pairs):
            left = going * count
            after_ms, _ = self._cheapest(self.ms[stage + 1], max(1, round(left)), rows)
            pair_ms, pair_rows = self._cheapest(self.pairs[stage], count, within)
            if pair_ms < _WORTH * (alone_ms + min(1.0, left) * after_ms):
                return pair_rows, 2
        return rows, 1

    def _cheapest(self, costs: tuple[float, ...], count: int, within: int) -> tuple[float, int]:
        low, high = bisect_left(self.buckets, count), bisect_left(self.buckets, within)
        fitting = costs[low : high + 1]
        if not fitting:
            raise OptionError(f"{count} samples do not fit into the largest bucket, {self.buckets[-1]}")
        ms, i = min((cost, -i) for i, cost in enumerate(fitting))
        return ms, self.buckets[low - i]


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
