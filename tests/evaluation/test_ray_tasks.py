"""Jobs on Ray: without it a clear word, and with it, one task a job."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from irene.data import Data
from irene.errors import MissingExtraError
from irene.evaluation.experiment import Experiment, Variant
from irene.evaluation.ray_tasks import RayTasks
from irene.training.options import LoopOptions


class RayError(Exception):
    """As ray.exceptions.RayError."""


class WorkerCrashedError(RayError):
    """As ray.exceptions.WorkerCrashedError."""


class FakeRay(ModuleType):
    """What is used of ray, in this process: a task is run when it is waited for, the last one first."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.exceptions = SimpleNamespace(RayError=RayError)
        self.tasks: dict[str, Callable[[], Any]] = {}
        self.asked: dict[str, Any] = {}
        self.begun = 0
        self.cancelled: list[str] = []

    def init(self, **options: Any) -> None:
        self.begun += 1

    def remote(self, **resources: Any) -> Callable[[Callable[..., Any]], Any]:
        self.asked = resources

        def decorate(function: Callable[..., Any]) -> Any:
            def submit(job: Any) -> str:
                reference = f"task-{len(self.tasks)}-{job.name}"
                self.tasks[reference] = lambda: function(job)
                return reference

            return SimpleNamespace(remote=submit)

        return decorate

    def wait(self, references: list[str], *, num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        return references[-num_returns:], references[:-num_returns]

    def get(self, reference: str) -> Any:
        if "snapshot" in reference:
            raise WorkerCrashedError
        return self.tasks[reference]()

    def cancel(self, reference: str, *, force: bool) -> None:
        self.cancelled.append(reference)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    return fake


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'irene-ensemble\[ray\]'"):
        RayTasks()


def test_each_job_is_a_task_and_a_lost_one_costs_only_itself(ray: FakeRay, blobs: Data, tmp_path: Path) -> None:
    experiment = Experiment(
        data=blobs, out=tmp_path, seeds=1, device="cpu", loop=LoopOptions(epochs=2, batch_size=32), ray=True
    )
    done = experiment.run([Variant(method=name) for name in ("single", "average", "snapshot")])
    assert len(ray.tasks) == 3
    assert ray.begun == 1
    assert ray.asked == {"num_cpus": 1, "num_gpus": 0}
    assert [run.method for run in done.runs] == ["single", "average"]
    assert done.lost() == {"snapshot-t3-s0": "its Ray worker was lost (WorkerCrashedError)"}


def test_closing_cancels(ray: FakeRay, blobs: Data, tmp_path: Path) -> None:
    experiment = Experiment(data=blobs, out=tmp_path, loop=LoopOptions(epochs=2, batch_size=32))
    pool = RayTasks(gpus=1)
    (job,) = experiment.jobs([Variant(method="average")])[:1]
    pool.start(job)
    pool.close()
    assert ray.cancelled == ["task-0-average-t3-s0"]
    assert ray.asked["num_gpus"] == 1
