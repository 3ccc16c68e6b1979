"""How predictions come along, for people who watch."""

from __future__ import annotations

from time import perf_counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn

from irene.cli.predictions import Answers, Record


class Progress:
    """Counts samples and members, and shows both with the speed while there is a terminal to show it on.

    `alone` says that nothing else is written to that terminal meanwhile. The speed is that of reading and answering,
    without the time in which the answers got ready.
    """

    def __init__(self, console: Console, answers: Answers, *, alone: bool) -> None:
        self._answers = answers
        self.samples = 0
        self.members = 0
        self._earlier = 0  # samples that an interrupted call answered
        self._begun = perf_counter()
        self._bar = Bar(SpinnerColumn(), TextColumn("{task.description}"), console=console, transient=True)
        self._shown = alone and console.is_terminal
        self._task = self._bar.add_task("starting")

    @property
    def mean_members(self) -> float:
        return self.members / self.samples if self.samples else 0.0

    @property
    def samples_per_s(self) -> float:
        seconds = perf_counter() - self._begun - self._answers.getting_ready_s
        return (self.samples - self._earlier) / max(seconds, 1e-9)

    @property
    def words(self) -> str:
        samples = "1 sample" if self.samples == 1 else f"{self.samples:,} samples"
        return f"{samples}, {self.mean_members:.2f} members a sample, {self.samples_per_s:,.0f} a second"

    def go_on(self, samples: int, members: int) -> None:
        """Count what an interrupted call answered already."""
        self.samples, self.members, self._earlier = samples, members, samples

    def seen(self, records: list[Record]) -> list[Record]:
        """Count records, and hand them on."""
        self.samples += len(records)
        self.members += sum(record["members_used"] for record in records)
        self._bar.update(self._task, description=self.words)
        return records

    def __enter__(self) -> Self:
        if self._shown:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._bar.stop()
