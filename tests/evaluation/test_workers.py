"""Jobs in processes of their own: they are done side by side, and a killed one is nobody else's trouble."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import closing

import pytest
import torch

from irene.data import Data
from irene.evaluation.jobs import Job, Outcome
from irene.evaluation.workers import default_workers, job_workers
from irene.processes import Workers, cores
from irene.run import Run
from irene.training.options import LoopOptions

ENDLESS = LoopOptions(epochs=1_000_000, batch_size=32)


def until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("nothing happened for a minute")


def collect(pool: Workers[Job, Outcome], count: int) -> dict[str, Outcome]:
    """The outcomes of so many jobs."""
    ended: dict[str, Outcome] = {}

    def enough() -> bool:
        ended.update({job.name: outcome for job, outcome in pool.wait(0.0)})
        return len(ended) == count

    until(enough)
    return ended


def test_a_killed_worker_costs_only_its_job(make_job: Callable[..., Job]) -> None:
    endless, short = make_job("average", loop=ENDLESS), make_job("single")
    with closing(job_workers(2, threads=1)) as pool:
        before = set(multiprocessing.active_children())
        pool.start(endless)
        (worker,) = set(multiprocessing.active_children()) - before
        pool.start(short)
        until((endless.folder / "metrics.jsonl").exists)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        ended = collect(pool, 2)
        assert ended["average"] == Outcome("lost", "its worker process was killed by SIGKILL")
        assert ended["single"].status == "finished"
        assert Run.open(short.folder).finished

        pool.start(make_job("snapshot"))  # in the worker that is left
        assert collect(pool, 1)["snapshot"].status == "finished"
    assert not set(multiprocessing.active_children()) - before
    assert not Run.open(endless.folder, unfinished=True).finished


def test_closing_ends_workers_in_the_middle_of_a_job(make_job: Callable[..., Job]) -> None:
    endless = make_job("average", loop=ENDLESS)
    before = set(multiprocessing.active_children())
    with closing(job_workers(1)) as pool:
        pool.start(endless)
        until((endless.folder / "metrics.jsonl").exists)
        assert pool.wait(0.0) == []
    assert not set(multiprocessing.active_children()) - before


def test_as_many_workers_as_cores_and_memory_allow(blobs: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_workers(torch.device("cuda"), blobs) == 1
    monkeypatch.setattr("irene.evaluation.workers.cores", lambda: 64)
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 3 * 2**18}  # three gigabytes
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert default_workers(torch.device("cpu"), blobs) == 2
    pages["SC_PHYS_PAGES"] = 2**10
    assert default_workers(torch.device("cpu"), blobs) == 1
    pages["SC_PHYS_PAGES"] = 2**30
    assert default_workers(torch.device("cpu"), blobs) == 64


def test_cores() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
