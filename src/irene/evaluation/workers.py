"""Worker processes that do jobs side by side, as many as there is room for."""

from __future__ import annotations

from functools import partial

import torch

from irene.data import Data
from irene.devices import machine_memory
from irene.evaluation.jobs import Job, Outcome, do
from irene.processes import Workers, cores

_WORKER_BYTES = 1 << 30  # what a process takes before it has loaded anything
_DATA_COPIES = 4  # of the data in a process: as read, as split, in batches, as members see it


def job_workers(slots: int, *, threads: int | None = None) -> Workers[Job, Outcome]:
    """Up to `slots` processes that do jobs, each with so many threads."""
    return Workers(do, slots, lost=partial(Outcome, "lost"), threads=threads)


def default_workers(device: torch.device, data: Data) -> int:
    """As many as there are cores and memory for; one on a GPU, which one training keeps busy."""
    if device.type != "cpu":
        return 1
    memory = machine_memory()
    inputs = [part.inputs.nbytes for part in (data.train, data.test) if part.inputs is not None]
    fitting = memory // (_WORKER_BYTES + _DATA_COPIES * sum(inputs)) if memory is not None else cores()
    return max(1, min(cores(), fitting))
