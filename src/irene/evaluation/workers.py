"""Worker processes that do jobs side by side; one that dies takes only its own job with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

import torch

from irene.data import Data
from irene.evaluation.jobs import Job, Outcome, do
from irene.processes import cores, end_with_parent

_WORKER_BYTES = 1 << 30  # what a process takes before it has loaded anything
_DATA_COPIES = 4  # of the data in a process: as read, as split, in batches, as members see it


@dataclass(eq=False)
class _Worker:
    process: SpawnProcess
    pipe: Connection


class Workers:
    """Up to `slots` processes, each started when there is a job for it and kept for the next one.

    Each computes with `threads` threads; None leaves that to torch.
    """

    def __init__(self, slots: int, *, threads: int | None = None) -> None:
        self.slots = slots
        self._threads = threads
        self._context = multiprocessing.get_context("spawn")  # a fork of a process that has used CUDA is broken
        self._idle: list[_Worker] = []
        self._busy: dict[_Worker, Job] = {}

    def start(self, job: Job) -> None:
        """Hand a job to a worker."""
        worker = self._idle.pop() if self._idle else self._new_worker()
        self._busy[worker] = job
        with suppress(BrokenPipeError):  # it died while it was idle, which `wait` will notice
            worker.pipe.send(job)

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """The jobs that ended, at the latest after some seconds."""
        ready = wait([worker.pipe for worker in self._busy], timeout=seconds)
        return [self._collect(worker) for worker in list(self._busy) if worker.pipe in ready]

    def close(self) -> None:
        """End all workers; the jobs they are at can be taken up again later."""
        for worker in (*self._busy, *self._idle):
            worker.process.terminate()
        for worker in (*self._busy, *self._idle):
            worker.process.join()
            worker.pipe.close()
        self._busy.clear()
        self._idle.clear()

    def _new_worker(self) -> _Worker:
        here, there = self._context.Pipe()
        process = self._context.Process(target=_work, args=(there, self._threads), daemon=True)
        process.start()
        there.close()  # so that this end hears of it when the worker dies
        return _Worker(process, here)

    def _collect(self, worker: _Worker) -> tuple[Job, Outcome]:
        job = self._busy.pop(worker)
        try:
            outcome: Outcome = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join()
            worker.pipe.close()
            return job, Outcome("lost", _how_it_died(worker.process.exitcode))
        self._idle.append(worker)
        return job, outcome


def default_workers(device: torch.device, data: Data) -> int:
    """As many as there are cores and memory for; one on a GPU, which one training keeps busy."""
    if device.type != "cpu":
        return 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    inputs = [part.inputs.nbytes for part in (data.train, data.test) if part.inputs is not None]
    fitting = memory // (_WORKER_BYTES + _DATA_COPIES * sum(inputs)) if memory is not None else cores()
    return max(1, min(cores(), fitting))


def _work(pipe: Connection, threads: int | None) -> None:
    """The life of a worker: job after job, until nobody has another."""
    end_with_parent()
    if threads is not None:
        torch.set_num_threads(threads)
    with suppress(EOFError):
        while True:
            pipe.send(do(pipe.recv()))


def _how_it_died(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its worker process was killed by {signal.Signals(-code).name}"
    return f"its worker process ended with code {code}"
