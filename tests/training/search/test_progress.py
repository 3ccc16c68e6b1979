"""What trials are at is shown while they train, and how each ended is said once."""

from __future__ import annotations

import io
import json
from pathlib import Path
from time import sleep

import optuna
import pytest
from rich.console import Console
from rich.progress import Progress

from irene.training.search.progress import Watcher, watched
from irene.training.search.trials import DIVERGED


def begin(study: optuna.Study, out: Path, stage: str = "", epoch: int = 0) -> optuna.Trial:
    """A trial that has come to a stage and an epoch of it."""
    trial = study.ask()
    folder = out / "trials" / str(trial.number)
    folder.mkdir(parents=True)
    if stage:
        (folder / "metrics.jsonl").write_text(json.dumps({"stage": stage, "epoch": epoch, "loss": 1.0}) + "\n")
    return trial


def test_running_trials_are_shown_with_their_stage_and_epoch(tmp_path: Path) -> None:
    study, said = optuna.create_study(direction="maximize"), io.StringIO()
    study.tell(study.ask(), 0.1)  # before this search went on
    progress = Progress(console=Console(file=said))
    watcher = Watcher(study, tmp_path, 3, progress)

    def shown() -> list[tuple[str, str]]:
        watcher.look()
        return [(task.description, task.fields["note"]) for task in progress.tasks]

    assert shown() == [("all trials", "0 of 3")]
    one, other = begin(study, tmp_path, "member-2", 6), begin(study, tmp_path)
    assert shown() == [("all trials", "0 of 3"), ("trial 1", "member-2, epoch 7"), ("trial 2", "")]
    study.tell(one, 0.5)
    other.set_user_attr(DIVERGED, "the loss became nan")
    study.tell(other, state=optuna.trial.TrialState.FAIL)
    last = begin(study, tmp_path, "member-1")
    assert shown() == [("all trials", "2 of 3"), ("trial 3", "member-1, epoch 1")]
    study.tell(last, state=optuna.trial.TrialState.FAIL)  # interrupted, which the search says itself
    assert shown() == [("all trials", "2 of 3")]
    assert said.getvalue().splitlines() == ["trial 1: 0.5000 with ", "trial 2: fail (the loss became nan) with "]


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_terminal_is_shown_what_is_not_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr("irene.training.search.progress._LOOK_SECONDS", 0.01)
    study, said = optuna.create_study(direction="maximize"), io.StringIO()
    console = Console(file=said, force_terminal=terminal, force_interactive=terminal, width=100)
    with watched(study, tmp_path, 2, console):
        trial = begin(study, tmp_path, "member-1", 4)
        while terminal and "member-1, epoch 5" not in said.getvalue():
            sleep(0.01)
        study.tell(trial, 0.5)
    assert "trial 0: 0.5000" in said.getvalue()
    assert ("all trials" in said.getvalue()) == terminal
