"""What the trials of a search are at, on the screen while they train."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from irene.run_files import reached
from irene.training.search.trials import describe, has_ended, load_optuna, trial_folder

if TYPE_CHECKING:
    import optuna

_LOOK_SECONDS = 1.0  # how often the study and the progress of running trials are read


class Watcher:
    """Says of each trial of a study how it ended, and shows where those that run are, whichever process they are in."""

    def __init__(self, study: optuna.Study, out: Path, left: int, progress: Progress) -> None:
        self.progress = progress
        self._study = study
        self._out = out
        self._left = left
        self._known = {trial.number for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()}
        self._ended = 0
        self._running: dict[int, TaskID] = {}
        self._overall = progress.add_task("all trials", total=left, note=f"0 of {left}")

    def look(self) -> None:
        """Say and show what has changed since the last look."""
        running = load_optuna().trial.TrialState.RUNNING
        for trial in self._study.get_trials(deepcopy=False):
            if trial.state == running:
                self._show(trial)
            elif trial.state.is_finished() and trial.number not in self._known:
                self._say(trial)

    def _show(self, trial: optuna.trial.FrozenTrial) -> None:
        if trial.number not in self._running:
            self._running[trial.number] = self.progress.add_task(f"trial {trial.number}", total=None, note="")
        note = reached(trial_folder(self._out, trial))
        self.progress.update(self._running[trial.number], note=escape(note))

    def _say(self, trial: optuna.trial.FrozenTrial) -> None:
        self._known.add(trial.number)
        if trial.number in self._running:
            self.progress.remove_task(self._running.pop(trial.number))
        if not has_ended(trial):
            return
        self._ended += 1
        self.progress.update(self._overall, advance=1, note=f"{self._ended} of {self._left}")
        self.progress.console.print(describe(trial), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def watched(study: optuna.Study, out: Path, left: int, console: Console) -> Iterator[None]:
    """Watch the trials of a study until the block ends."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_interactive) as progress:
        watcher, over = Watcher(study, out, left, progress), Event()

        def keep_looking() -> None:
            while not over.wait(_LOOK_SECONDS):
                watcher.look()

        thread = Thread(target=keep_looking, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            watcher.look()
