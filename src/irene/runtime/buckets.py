"""The few batch sizes that members are run in, and which of them to take for a number of samples."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import torch
from numpy.typing import NDArray

from irene.devices import seconds_of
from irene.errors import OptionError
from irene.runtime.recorder import gpu_ms

Plans = tuple[NDArray[np.int64], NDArray[np.int64]]

_REPEATS = 3
_IN_A_ROW = 3  # programs that a GPU runs without a break
_WORTH = 0.9  # running a member that may not be needed must save a tenth of the time
_FINE_FROM = 16  # below, a GPU takes about as long for one sample as for all
_FINE_STEPS = {16: 4, 32: 4, 64: 8, 128: 8}  # from each power of two to the next; survivors are mostly as few as this


def usual_bucket(shape: Sequence[int], device: torch.device) -> int:
    """Samples of this shape run at once unless the user says otherwise.

    A CPU is as fast on some tens of images as on more, and they stay in its cache.
    """
    return 64 if device.type == "cpu" and len(shape) == 3 else 1024


def bucket_sizes(largest: int, *, fine: bool = False) -> tuple[int, ...]:
    """Powers of two up to `largest`, which is always the last; `fine` puts some more between neighbours from 16 on."""
    if largest < 1:
        raise OptionError(f"the largest bucket must be 1 or more, got {largest}")
    sizes = {largest}
    power = 1
    while power < largest:
        step = _FINE_STEPS.get(power, power // 4) if fine and power >= _FINE_FROM else power
        sizes |= set(range(power, 2 * power, step))
        power *= 2
    return tuple(sorted(size for size in sizes if size <= largest))


def check_buckets(buckets: Sequence[int]) -> tuple[int, ...]:
    """The sizes in ascending order, each once."""
    whole = isinstance(buckets, Sequence) and all(isinstance(size, Integral) and size > 0 for size in buckets)
    if not whole or not buckets:
        raise OptionError(f"buckets must be sizes of 1 sample or more, whole numbers, got {buckets!r}")
    return tuple(sorted(set(buckets)))


@dataclass(frozen=True)
class CostTable:
    """Measured times of the stages of a cascade in each bucket: `ms[stage][i]` for `buckets[i]`.

    `pairs[stage][i]` is what a stage and the next one take side by side, infinity where they are never run so.
    """

    buckets: tuple[int, ...]
    ms: tuple[tuple[float, ...], ...]
    pairs: tuple[tuple[float, ...], ...] = ()

    def plans(self, stage: int, within: int, going: float) -> Plans:
        """For 1, 2, ... `within` samples in a list of `within`: which bucket to run, by its place, and how many stages.

        The cheapest bucket that holds them and is no larger than the list: where a smaller one is no cheaper than
        the present one, compacting does not pay and samples stay. `going` is the share of samples that usually goes on
        after this stage. Two members at once do not fill a large GPU where samples are few: then the second costs
        less beside the first than after it, though some samples would not have needed it.
        """
        counts, last = np.arange(1, within + 1), bisect_left(self.buckets, within)
        if last == len(self.buckets):
            raise OptionError(f"{within} samples do not fit into the largest bucket, {self.buckets[-1]}")
        first = np.searchsorted(self.buckets, counts)
        ms, place = _cheapest(self.ms[stage], last)
        alone_ms, alone = ms[first], place[first]
        if stage >= len(self.pairs):
            return alone, np.ones_like(alone)
        left = going * counts
        ms, place = _cheapest(self.pairs[stage], last)
        pair_ms, pair = ms[first], place[first]
        after = np.searchsorted(self.buckets, np.maximum(1, np.rint(left)))
        after_ms = np.empty_like(alone_ms)
        for rows in np.unique(alone):
            after_ms[alone == rows] = _cheapest(self.ms[stage + 1], rows)[0][after[alone == rows]]
        together = pair_ms < _WORTH * (alone_ms + np.minimum(1.0, left) * after_ms)
        return np.where(together, pair, alone), np.where(together, 2, 1)


def _cheapest(costs: tuple[float, ...], last: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """From each place up to `last`: the lowest of the costs from there on, and the last place that has it."""
    backwards = np.array(costs[last::-1])
    lowest = np.minimum.accumulate(backwards)
    lower = np.append(True, backwards[1:] < lowest[:-1])
    places = last - np.maximum.accumulate(np.where(lower, np.arange(last + 1), 0))
    return lowest[::-1], places[::-1]


def measure(program: Callable[[], None], device: torch.device) -> float:
    """Milliseconds that a program takes of the device: the median of a few times."""
    on_gpu = device.type == "cuda"
    return statistics.median(
        gpu_ms(program, device, _IN_A_ROW) if on_gpu else 1000 * seconds_of(program, device) for _ in range(_REPEATS)
    )
