"""Jobs on Ray: without it a clear word, and with it, one task a job."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from irene.data import Data
from irene.errors import MissingExtraError
from irene.evaluation.experiment import Experiment, Variant
from irene.evaluation.jobs import Source
from irene.evaluation.ray_tasks import RayTasks
from irene.training.options import LoopOptions


class RayError(Exception):
    """As ray.exceptions.RayError."""


class WorkerCrashedError(RayError):
    """As ray.exceptions.WorkerCrashedError."""


class FakeRay(ModuleType):
    """What is used of ray, in this process: a task is run when it is waited for, the last one first.

    As with a cluster that was started elsewhere, tasks begin in a folder that is not the caller's.
    """

    def __init__(self, elsewhere: Path) -> None:
        super().__init__("ray")
        self.elsewhere = elsewhere
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
            def named(name: str) -> Any:
                def submit(*arguments: Any) -> str:
                    reference = f"task-{len(self.tasks)}-{name}"
                    self.tasks[reference] = lambda: function(*arguments)
                    return reference

                return SimpleNamespace(remote=submit)

            return SimpleNamespace(options=named)

        return decorate

    def wait(self, references: list[str], *, num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        return references[-num_returns:], references[:-num_returns]

    def get(self, reference: str) -> Any:
        if "snapshot" in reference:
            raise WorkerCrashedError
        with chdir(self.elsewhere):
            return self.tasks[reference]()

    def cancel(self, reference: str, *, force: bool) -> None:
        self.cancelled.append(reference)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> FakeRay:
    fake = FakeRay(tmp_path_factory.mktemp("elsewhere"))
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


def test_paths_mean_what_they_mean_to_the_caller(
    ray: FakeRay, blobs: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "points.npz", x=blobs.train.inputs, y=blobs.train.targets)
    monkeypatch.chdir(tmp_path)
    loop = LoopOptions(epochs=1, batch_size=32)
    experiment = Experiment(
        data=Source(spec="npz:points.npz"), out=Path("runs"), seeds=1, device="cpu", loop=loop, ray=True
    )
    done = experiment.run([Variant(method="single")])
    assert done.outcomes["single-s0"].status == "finished"
    assert [run.path for run in done.runs] == [tmp_path / "runs" / "single-s0"]


def test_closing_cancels(ray: FakeRay, blobs: Data, tmp_path: Path) -> None:
    experiment = Experiment(data=blobs, out=tmp_path, loop=LoopOptions(epochs=2, batch_size=32))
    pool = RayTasks(gpus=1)
    (job,) = experiment.jobs([Variant(method="average")])[:1]
    pool.start(job)
    pool.close()
    assert ray.cancelled == ["task-0-average-t3-s0"]
    assert ray.asked["num_gpus"] == 1
