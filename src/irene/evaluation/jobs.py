"""Job: one run that a comparison or a study needs, and what became of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from irene.data import Data, load
from irene.errors import DataError, IreneError, OptionError
from irene.run import Run
from irene.training.options import LoopOptions
from irene.training.train import TrainOptions, is_trained, train
from irene.types import Task

Status = Literal["finished", "unfit", "failed", "lost"]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Data by name: each process that needs it loads it for itself, once."""

    spec: str
    target: str | None = None
    task: Task | None = None
    root: Path | None = None
    size: int | None = None

    def load(self) -> Data:
        return _load(self)


@lru_cache(maxsize=1)
def _load(source: Source) -> Data:
    return load(source.spec, target=source.target, task=source.task, root=source.root, size=source.size)


def loaded(data: Source | Data) -> Data:
    """The data itself, however it was given."""
    return data.load() if isinstance(data, Source) else data


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """One training: a method on data with a seed, into a folder."""

    folder: Path
    method: str
    data: Source | Data
    options: TrainOptions
    loop: LoopOptions
    own: Any = None  # the method's own options
    members_of: Path | None = None  # the run whose members it may take, where that has been trained

    @property
    def name(self) -> str:
        return self.folder.name

    def is_done(self) -> bool:
        """Whether it was done before; other runs in its folder are an error."""
        return is_trained(
            self.method, loaded(self.data), self.folder, options=self.options, loop=self.loop, method_options=self.own
        )

    def run(self) -> Run:
        """Train, or go on where an earlier attempt was interrupted."""
        shared = self.members_of
        return train(
            self.method,
            loaded(self.data),
            self.folder,
            options=self.options,
            loop=self.loop,
            method_options=self.own,
            resume=True,
            members_of=Run.open(shared) if shared is not None and _is_finished(shared) else None,
        )


@dataclass(frozen=True)
class Outcome:
    """What became of a job: `unfit` is a method that cannot work with this data or these options."""

    status: Status
    message: str = ""
    seconds: float = 0.0


def do(job: Job) -> Outcome:
    """Do a job; whatever goes wrong is an outcome too, so that the other jobs go on."""
    started = time.monotonic()
    try:
        job.run()
    except (DataError, OptionError) as error:
        # A training that was refused before it began has removed its run again.
        status: Status = "failed" if job.folder.exists() else "unfit"
        return Outcome(status, str(error), time.monotonic() - started)
    except IreneError as error:
        return Outcome("failed", str(error), time.monotonic() - started)
    except Exception as error:
        return Outcome("failed", f"unexpected {type(error).__name__}: {error}", time.monotonic() - started)
    return Outcome("finished", seconds=time.monotonic() - started)


def _is_finished(folder: Path) -> bool:
    try:
        return Run.open(folder, unfinished=True).finished
    except IreneError:
        return False
