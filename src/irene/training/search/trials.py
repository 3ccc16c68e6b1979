"""The trials of a search: which have ended how, and where their runs are."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.errors import import_extra

if TYPE_CHECKING:
    import optuna

DIVERGED = "diverged"  # the attribute of a trial whose training could not go on, with the reason


def load_optuna() -> Any:
    """Optuna, with its own messages switched off."""
    optuna = import_extra("optuna", "tune")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def trial_folder(out: Path, trial: optuna.Trial | optuna.trial.FrozenTrial) -> Path:
    """Where a trial trains; one that was interrupted goes on in its old place."""
    return out / "trials" / str(trial.user_attrs.get("continues", trial.number))


def completed(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """The trials that were trained to their end, the best first."""
    state = load_optuna().trial.TrialState.COMPLETE  # a pruned one has a value too, the last it told
    trials = study.get_trials(deepcopy=False, states=(state,))
    found = [(trial.value, trial) for trial in trials if trial.value is not None]
    return [trial for _, trial in sorted(found, key=lambda pair: (-pair[0], pair[1].number))]


def keep_best(study: optuna.Study, out: Path, ended: optuna.trial.FrozenTrial) -> None:
    """Remove the runs of trials that have ended, but for the best one's."""
    complete = completed(study)
    best = complete[0].number if complete else None
    for trial in (ended, *complete):
        if trial.number != best:
            shutil.rmtree(trial_folder(out, trial), ignore_errors=True)


def has_ended(trial: optuna.trial.FrozenTrial) -> bool:
    """Whether a trial came to an end of its own, and was not interrupted or ended with the whole search."""
    states = load_optuna().trial.TrialState
    return trial.state in (states.COMPLETE, states.PRUNED) or DIVERGED in trial.user_attrs


def describe(trial: optuna.trial.FrozenTrial) -> str:
    """One line about a trial that has ended."""
    values = ", ".join(f"{name}={value:.3g}" for name, value in trial.params.items())
    state = trial.state.name.lower()
    ended = f"{trial.value:.4f}" if state == "complete" else state
    why = f" ({trial.user_attrs[DIVERGED]})" if DIVERGED in trial.user_attrs else ""
    return f"trial {trial.number}: {ended}{why} with {values}"
