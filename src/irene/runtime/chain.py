"""All stages after the first in one go: after each of them the device itself chooses what to run next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from irene.runtime.buckets import Plans
from irene.runtime.recorder import Program
from irene.runtime.switches import Switches


class Places:
    """Where a table keeps the plan for `count` samples in a list of `within`: at `begins[within] + count`."""

    def __init__(self, sizes: Sequence[int], device: torch.device) -> None:
        begins = torch.tensor([0, *sizes[:-1]], device=device).cumsum(0)
        self.begins = {size: begin.clone() for size, begin in zip(sizes, begins, strict=True)}
        self.total = 1 + sum(sizes)


class Chain:
    """The stages of a cascade after the first as one CUDA graph: the host need not know how many go on.

    A stage leaves in `keys` where the next one finds its program in a table, which holds the number of a program
    for every number of samples in every list. `programs` are those of Stages, by stage, rows and width, and `plans`
    tells for a stage, a list and the share that usually goes on which of them to run.
    """

    def __init__(
        self,
        buckets: Sequence[int],
        programs: Mapping[tuple[int, int, int], Program],
        plans: Callable[[int, int, float], Plans],
        places: Places,
        keys: Tensor,
    ) -> None:
        self._buckets = buckets
        self._plans = plans
        self._switches = Switches(keys.device)
        self._tables: dict[int, Tensor] = {}
        self._shares: dict[int, float] = {}
        for stage in range(1, len(keys) - 1):
            self._tables[stage] = torch.zeros(places.total, dtype=torch.int32, device=keys.device)
            kinds = [(stage, rows, width) for width in (1, 2) for rows in buckets]
            self._switches.add(keys[stage], self._tables[stage], [programs[kind] for kind in kinds if kind in programs])
        self._switches.finish()

    def run(self, shares: Sequence[float]) -> None:
        """Run all stages after the first; `shares` are the shares of samples that usually go on after each stage."""
        for stage, table in self._tables.items():
            if self._shares.get(stage) != shares[stage]:
                numbers = self._numbers(stage, shares[stage])
                table.copy_(numbers.pin_memory() if table.is_cuda else numbers, non_blocking=True)
                self._shares[stage] = shares[stage]
        self._switches.run()

    def _numbers(self, stage: int, share: float) -> Tensor:
        """The table of a stage: at 0, for no samples, a number that no program has."""
        none = np.array([np.iinfo(np.int32).max])
        plans = [self._plans(stage, within, share) for within in self._buckets]
        numbers = [places + len(self._buckets) * (widths - 1) for places, widths in plans]
        return torch.from_numpy(np.concatenate([none, *numbers]).astype(np.int32))
