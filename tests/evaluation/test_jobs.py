"""What becomes of a job, whatever goes wrong in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from irene.data import Data
from irene.errors import TrainingError
from irene.evaluation import jobs
from irene.evaluation.jobs import Job, Source, do
from irene.run import Run
from irene.training.options import LoopOptions


def test_a_job_is_done_once(make_job: Callable[..., Job]) -> None:
    job = make_job("average")
    assert not job.is_done()
    assert do(job).status == "finished"
    assert job.is_done()
    written = (job.folder / "run.json").stat().st_mtime_ns
    assert do(job).status == "finished"
    assert (job.folder / "run.json").stat().st_mtime_ns == written


def test_a_method_that_does_not_fit_leaves_nothing(make_job: Callable[..., Job], curve: Data) -> None:
    job = make_job("woc", data=curve)
    outcome = do(job)
    assert outcome.status == "unfit"
    assert "this is regression" in outcome.message
    assert not job.folder.exists()


def test_another_run_in_the_folder_is_a_failure(make_job: Callable[..., Job]) -> None:
    do(make_job("average"))
    outcome = do(make_job("average", loop=LoopOptions(epochs=3)))
    assert outcome.status == "failed"
    assert "started with options.loop.epochs " in outcome.message


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TrainingError("the loss became nan"), "the loss became nan"),
        (ZeroDivisionError("oh"), "unexpected ZeroDivisionError: oh"),
    ],
)
def test_whatever_is_raised_is_an_outcome(
    make_job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def fail(*arguments: Any, **options: Any) -> Run:
        raise error

    monkeypatch.setattr(jobs, "train", fail)
    outcome = do(make_job("average"))
    assert (outcome.status, outcome.message) == ("failed", message)


def test_members_are_taken_from_a_run_that_is_finished(make_job: Callable[..., Job], tmp_path: Path) -> None:
    shared = make_job("woc", members_of=tmp_path / "average")
    do(make_job("average"))
    do(shared)
    alone = make_job("woc", folder=tmp_path / "alone", members_of=tmp_path / "nobody")
    do(alone)
    average, taken, own = (Run.open(folder) for folder in (tmp_path / "average", shared.folder, alone.folder))
    assert taken.epochs() == average.epochs(), "with the very seconds they took"
    assert own.epochs() != average.epochs()
    digests = [[member["sha256"] for member in run.manifest["members"]] for run in (average, taken, own)]
    assert digests[0] == digests[1] == digests[2]


def test_a_source_is_loaded_once() -> None:
    assert Source(spec="digits").load() is Source(spec="digits").load()
