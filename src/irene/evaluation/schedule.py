"""Does jobs, each one after the job whose members it takes, and shows their progress."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from irene.evaluation.jobs import Job, Outcome
from irene.run_files import reached

_LOOK_SECONDS = 1.0  # how often the progress of running jobs is read


class Pool(Protocol):
    """Whatever does jobs: processes of this machine, or a cluster."""

    slots: int

    def start(self, job: Job) -> None: ...

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]: ...

    def close(self) -> None: ...


def run_jobs(jobs: Sequence[Job], pool: Pool, console: Console | None = None) -> dict[str, Outcome]:
    """Do all jobs and say what became of each, by name.

    A job that takes members of another waits for that one to end. If it ended badly, the job trains its own.
    """
    outcomes: dict[str, Outcome] = {}
    waiting = list(jobs)
    running: dict[Job, TaskID] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[note]}"))
    with closing(pool), Progress(*columns, console=console or Console(quiet=True), transient=True) as progress:
        overall = progress.add_task("all runs", total=len(jobs), note=f"0 of {len(jobs)}")
        while waiting or running:
            for job in _ready(waiting, running)[: pool.slots - len(running)]:
                waiting.remove(job)
                pool.start(job)
                running[job] = progress.add_task(escape(job.name), total=None, note="")
            for job, outcome in pool.wait(_LOOK_SECONDS):
                outcomes[job.name] = outcome
                progress.remove_task(running.pop(job))
                progress.update(overall, advance=1, note=f"{len(outcomes)} of {len(jobs)}")
                progress.console.print(escape(_say(job, outcome)), highlight=False)
            for job, task in running.items():
                progress.update(task, note=escape(reached(job.folder)))
    return outcomes


def _ready(waiting: Sequence[Job], running: Iterable[Job]) -> list[Job]:
    """The waiting jobs that take members of no job that is still to end."""
    open_folders = {job.folder for job in (*waiting, *running)}
    return [job for job in waiting if job.members_of not in open_folders]


def _say(job: Job, outcome: Outcome) -> str:
    if outcome.status == "finished":
        return f"{job.name}: trained in {outcome.seconds:.0f} s"
    if outcome.status == "unfit":
        return f"{job.name}: left out, {outcome.message}"
    return f"{job.name}: {outcome.status}, {outcome.message}"
