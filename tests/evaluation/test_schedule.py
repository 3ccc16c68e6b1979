"""Who waits for whom, and what is said about it."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from irene.data import Data
from irene.evaluation.jobs import Job, Outcome
from irene.evaluation.schedule import run_jobs
from irene.training.options import LoopOptions
from irene.training.train import TrainOptions


class Recorded:
    """A pool that ends the job it was given first, with the outcome that was foreseen for it."""

    def __init__(self, slots: int, outcomes: dict[str, Outcome]) -> None:
        self.slots = slots
        self.outcomes = outcomes
        self.running: list[Job] = []
        self.events: list[str] = []
        self.closed = False

    def start(self, job: Job) -> None:
        self.running.append(job)
        assert len(self.running) <= self.slots
        self.events.append(f"+{job.name}")

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        job = self.running.pop(0)
        self.events.append(f"-{job.name}")
        return [(job, self.outcomes.get(job.name, Outcome("finished", seconds=2.0)))]

    def close(self) -> None:
        self.closed = True


def make_job(data: Data, name: str, after: str | None = None) -> Job:
    members_of = None if after is None else Path("runs") / after
    return Job(
        folder=Path("runs") / name,
        method="average",
        data=data,
        options=TrainOptions(),
        loop=LoopOptions(),
        members_of=members_of,
    )


def test_a_job_waits_for_the_one_whose_members_it_takes(blobs: Data) -> None:
    jobs = [
        make_job(blobs, "woc", after="average"),
        make_job(blobs, "a"),
        make_job(blobs, "average"),
        make_job(blobs, "b"),
    ]
    pool = Recorded(2, {})
    outcomes = run_jobs(jobs, pool)
    assert pool.events == ["+a", "+average", "-a", "+b", "-average", "+woc", "-b", "-woc"]
    assert set(outcomes) == {"woc", "a", "average", "b"}
    assert pool.closed


def test_a_bad_end_does_not_stop_the_others_and_is_told(blobs: Data) -> None:
    screen = StringIO()
    jobs = [make_job(blobs, "average"), make_job(blobs, "woc", after="average"), make_job(blobs, "odd")]
    foreseen = {"average": Outcome("lost", "its worker died"), "odd": Outcome("unfit", "not for [this]")}
    outcomes = run_jobs(jobs, Recorded(1, foreseen), Console(file=screen, width=200))
    assert [outcomes[job.name].status for job in jobs] == ["lost", "finished", "unfit"]
    said = screen.getvalue()
    assert "average: lost, its worker died" in said
    assert "odd: left out, not for [this]" in said
    assert "woc: trained in 2 s" in said


def test_a_job_whose_source_is_not_among_the_jobs_does_not_wait(blobs: Data) -> None:
    assert run_jobs([make_job(blobs, "woc", after="average")], Recorded(1, {}))["woc"].status == "finished"
