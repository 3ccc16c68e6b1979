"""Processes that work side by side: how many there is room for, and that none outlives the one that started it."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Generic, TypeVar

import torch

from irene.limits import most_cores

Job = TypeVar("Job")
Answer = TypeVar("Answer")


def cores() -> int:
    """The processor cores this process may use; a part of one counts as one."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    most = most_cores()
    return there if most is None else max(1, min(there, math.ceil(most)))


@dataclass(eq=False)
class _Worker:
    process: SpawnProcess
    pipe: Connection


class Workers(Generic[Job, Answer]):
    """Up to `slots` processes, each started when there is a job for it and kept for the next one.

    `do` answers a job. A process that dies takes only its own job with it: what `lost` makes of how it died is the
    answer then. Each process computes with `threads` threads; None leaves that to torch.
    """

    def __init__(
        self, do: Callable[[Job], Answer], slots: int, *, lost: Callable[[str], Answer], threads: int | None = None
    ) -> None:
        self.slots = slots
        self._do = do
        self._lost = lost
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

    def wait(self, seconds: float | None = None) -> list[tuple[Job, Answer]]:
        """The jobs that ended, one at least or at the latest after some seconds."""
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
        process = self._context.Process(target=_work, args=(there, self._do, self._threads), daemon=True)
        process.start()
        there.close()  # so that this end hears of it when the worker dies
        return _Worker(process, here)

    def _collect(self, worker: _Worker) -> tuple[Job, Answer]:
        job = self._busy.pop(worker)
        try:
            answer: Answer = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join()
            worker.pipe.close()
            return job, self._lost(_how_it_died(worker.process.exitcode))
        self._idle.append(worker)
        return job, answer


def _work(pipe: Connection, do: Callable[[Job], object], threads: int | None) -> None:
    """The life of a worker: job after job, until there are no more."""
    end_with_parent()
    if threads is not None:
        torch.set_num_threads(threads)
    with suppress(EOFError):
        while True:
            pipe.send(do(pipe.recv()))


def end_with_parent() -> None:
    """Let a worker end when its parent says so or is gone, and not before.

    A worker whose parent was killed would go on writing runs that another process may have taken up again.
    """
    # Ctrl-C reaches all processes, and the parent ends its workers in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch_parent, daemon=True).start()


def _watch_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _how_it_died(code: int | None) -> str:
    """A process's exit code in words."""
    if code is not None and code < 0:
        return f"its worker process was killed by {signal.Signals(-code).name}"
    return f"its worker process ended with code {code}"
