"""Experiment: methods on data over several seeds, of which only what is missing is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from irene.data import Data
from irene.devices import pick_device
from irene.errors import OptionError
from irene.evaluation.jobs import Job, Outcome, Source, loaded
from irene.evaluation.ray_tasks import RayTasks
from irene.evaluation.schedule import Pool, run_jobs
from irene.evaluation.workers import default_workers, job_workers
from irene.files import check_room
from irene.run import Run
from irene.training.methods import find_method
from irene.training.options import LoopOptions
from irene.training.train import TrainOptions

_LARGE = 10_000


def default_loop(data: Data) -> LoopOptions:
    """How members are trained by default: few samples take fewer epochs of smaller batches."""
    return LoopOptions(epochs=15, batch_size=64) if len(data.train) < _LARGE else LoopOptions()


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A method, with options of its own if it has any; `name` says how it differs from its plain form."""

    method: str
    members: int = 3
    own: Any = None
    name: str = ""

    def folder(self, seed: int) -> str:
        """The name of its run: irene-without-rank-t3-s0."""
        size = "" if find_method(self.method).members else f"t{self.members}"
        return "-".join(part for part in (self.method, self.name, size, f"s{seed}") if part)


@dataclass(frozen=True, kw_only=True)
class Done:
    """The runs of an experiment, and what became of those that had to be trained."""

    runs: list[Run]
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def left_out(self) -> dict[str, str]:
        """The runs that this data or these options do not allow, with the reason."""
        return {name: one.message for name, one in self.outcomes.items() if one.status == "unfit"}

    def lost(self) -> dict[str, str]:
        """The runs that should be there and are not, with what happened."""
        return {name: one.message for name, one in self.outcomes.items() if one.status in ("failed", "lost")}


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """What is the same for all runs of a comparison or study, and where they go.

    Seeds are 0, 1, ... below `seeds`. `workers` processes train side by side; None takes as many as cores and memory
    allow, one on a GPU. `ray` makes each run a task of a Ray cluster instead.
    """

    data: Source | Data
    out: Path
    seeds: int = 3
    backbones: tuple[str, ...] = ()
    heldout: float | int | None = None
    device: str = "auto"
    loop: LoopOptions | None = None  # None: as `default_loop` says
    workers: int | None = None
    ray: bool = False
    console: Console | None = None
    command: str = ""  # what was typed, for the record of each run

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise OptionError(f"an experiment needs at least one seed, got {self.seeds}")
        if self.workers is not None and self.workers < 1:
            raise OptionError(f"at least one worker is needed to train, got {self.workers}")

    def run(self, variants: Sequence[Variant]) -> Done:
        """Train what is missing and open all runs, seed by seed."""
        jobs = self.jobs(variants)
        missing = [job for job in jobs if not job.is_done()]
        outcomes: dict[str, Outcome] = {}
        if missing:
            check_room(missing[0].folder)  # once, and not by every job
            outcomes = run_jobs(missing, self._pool(len(missing)), self.console)
        there = [job for job in jobs if job.name not in outcomes or outcomes[job.name].status == "finished"]
        runs = [Run.open(job.folder) for job in there]
        for run in runs:
            if self.command and "command" not in run.manifest:
                run.note_command(self.command)
        return Done(runs=runs, outcomes=outcomes)

    def jobs(self, variants: Sequence[Variant]) -> list[Job]:
        """All the runs, seed by seed, whether they are there or not."""
        loop = self.loop or default_loop(loaded(self.data))
        return [self._job(variant, seed, loop, variants) for seed in range(self.seeds) for variant in variants]

    def _job(self, variant: Variant, seed: int, loop: LoopOptions, variants: Sequence[Variant]) -> Job:
        """The job of one run; it takes members of another variant where that has the ones it would train."""
        method = find_method(variant.method)
        needed = method.members or variant.members
        like = next((one for one in variants if one.method == method.members_of and one.members >= needed), None)
        out = self.out.resolve()  # workers may have another current folder
        several = self.backbones[: variant.members] if len(self.backbones) > 1 else self.backbones
        return Job(
            folder=out / variant.folder(seed),
            method=variant.method,
            data=self.data,
            options=TrainOptions(
                members=variant.members, backbones=several, heldout=self.heldout, seed=seed, device=self.device
            ),
            loop=loop,
            own=variant.own,
            members_of=None if like is None else out / like.folder(seed),
        )

    def _pool(self, jobs: int) -> Pool:
        device = pick_device(self.device)
        if self.ray:
            return RayTasks(gpus=int(device.type == "cuda"))
        workers = self.workers or default_workers(device, loaded(self.data))
        # However few jobs are left, threads stay the same: they decide the last digits, also those of a resumed run.
        threads = max(1, torch.get_num_threads() // workers) if device.type == "cpu" else None
        return job_workers(min(workers, jobs), threads=threads)
