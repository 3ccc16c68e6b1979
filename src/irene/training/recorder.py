"""Progress for people and figures for files, while a training runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from irene.errors import import_extra
from irene.files import as_json, write_atomically


class Recorder:
    """Shows a progress bar with ETA, appends each epoch's figures to metrics.jsonl, and to TensorBoard if asked."""

    def __init__(
        self, path: Path | None = None, *, console: Console | None = None, tensorboard: Path | None = None
    ) -> None:
        self.path = path
        self.console = console or Console(quiet=True)
        self._writer: Any = None
        if tensorboard is not None:
            import_extra("tensorboard", "tensorboard")
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(tensorboard))

    @contextmanager
    def stage(self, name: str, epochs: int, done: int) -> Iterator[Callable[[int, dict[str, float]], None]]:
        """Show the progress of one stage, of which `done` epochs were trained before: call what it gives every epoch.

        It takes the number of the epoch and its figures, records these and moves the bar.
        """
        columns = (
            TextColumn("{task.description:<14}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("epochs"),
            TimeElapsedColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task(name, total=epochs, completed=done, note="")

            def record(epoch: int, figures: dict[str, float]) -> None:
                self.write({"stage": name, "epoch": epoch, **figures})
                progress.update(task, advance=1, note=f"loss {figures.get('base', figures['loss']):.3f}")

            yield record

    def write(self, record: dict[str, Any]) -> None:
        """Append one line to metrics.jsonl."""
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(as_json(record), allow_nan=False) + "\n")
        if self._writer is not None:
            for key, value in record.items():
                if isinstance(value, float):
                    self._writer.add_scalar(f"{record['stage']}/{key}", value, record["epoch"])

    def drop_after(self, stage: str, epoch: int) -> None:
        """Forget the lines of a stage from an epoch on, which a resumed training writes again."""
        if self.path is None or not self.path.exists():
            return
        lines = self.path.read_text(errors="replace").splitlines()
        kept = [line for line in lines if not _is_after(line, stage, epoch)]
        if len(kept) < len(lines):
            write_atomically(self.path, "".join(line + "\n" for line in kept).encode())

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _is_after(line: str, stage: str, epoch: int) -> bool:
    try:
        record = json.loads(line)
        return bool(record["stage"] == stage and record["epoch"] >= epoch)
    except (ValueError, TypeError, KeyError):  # a line cut off by a kill, or damaged
        return True
