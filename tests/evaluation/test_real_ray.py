"""Jobs on a real Ray, where it is installed: tasks train, and a lost worker costs only its own job."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from irene.data import Data
from irene.evaluation.experiment import Experiment, Variant
from irene.evaluation.ray_tasks import RayTasks
from irene.evaluation.schedule import run_jobs
from irene.training.options import LoopOptions


@dataclass(frozen=True, eq=False)
class Deadly:
    """A job whose first attempts kill the process they are in."""

    folder: Path
    kills: int
    members_of: None = None

    @property
    def name(self) -> str:
        return self.folder.name

    def run(self) -> None:
        self.folder.mkdir(exist_ok=True)
        attempt = len(list(self.folder.iterdir()))
        (self.folder / str(attempt)).touch()
        if attempt < self.kills:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    found = pytest.importorskip("ray", exc_type=ImportError)
    found.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    found.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test
    yield found
    found.shutdown()


def test_a_comparison_is_trained(ray: Any, blobs: Data, tmp_path: Path) -> None:
    loop = LoopOptions(epochs=2, batch_size=32)
    experiment = Experiment(data=blobs, out=tmp_path, seeds=1, device="cpu", loop=loop, ray=True)
    done = experiment.run([Variant(method=name) for name in ("single", "average", "woc")])
    assert [run.method for run in done.runs] == ["single", "average", "woc"]
    assert not done.lost()


def test_a_lost_worker_costs_only_its_job(ray: Any, tmp_path: Path) -> None:
    again, never, other = (
        Deadly(tmp_path / name, kills) for name, kills in (("again", 1), ("never", 99), ("other", 0))
    )
    jobs: list[Any] = [again, never, other]
    outcomes = run_jobs(jobs, RayTasks())
    assert {name: outcome.status for name, outcome in outcomes.items()} == {
        "again": "finished",
        "never": "lost",
        "other": "finished",
    }
    assert len(list(again.folder.iterdir())) == 2, "Ray started it again"
