"""Jobs as tasks of a Ray cluster, whose machines all see the folder that runs are written to."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from irene.errors import import_extra
from irene.evaluation.jobs import Job, Outcome, do


class RayTasks:
    """Every job a task; Ray decides where and when, and starts one again whose worker was lost."""

    def __init__(self, *, gpus: int = 0) -> None:
        self._ray = ray = import_extra("ray", "ray")
        ray.init(ignore_reinit_error=True, log_to_driver=False)
        self._do = ray.remote(num_cpus=1, num_gpus=gpus)(_do_from)
        self._folder = os.getcwd()
        self._running: dict[Any, Job] = {}
        self.slots = 1_000_000  # Ray itself knows how many fit

    def start(self, job: Job) -> None:
        """Submit a job."""
        self._running[self._do.options(name=job.name).remote(self._folder, job)] = job

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """The jobs that ended, at the latest after some seconds."""
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        return [(self._running.pop(task), self._outcome(task)) for task in ready]

    def close(self) -> None:
        """Cancel what is still running; it can be taken up again later."""
        for task in self._running:
            self._ray.cancel(task, force=True)
        self._running.clear()

    def _outcome(self, task: Any) -> Outcome:
        try:
            outcome: Outcome = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            return Outcome("lost", f"its Ray worker was lost ({type(error).__name__})")
        return outcome


def _do_from(folder: str, job: Job) -> Outcome:
    """Do a job in the folder it was given in, so that relative paths of data are right."""
    with suppress(OSError):  # a machine without that folder can still do jobs whose data has a name or a whole path
        os.chdir(folder)  # workers begin where their cluster was started
    return do(job)
