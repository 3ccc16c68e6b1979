"""Which trial is the best, and how each is spoken of."""

from __future__ import annotations

from pathlib import Path

import optuna

from irene.training.search.trials import completed, describe, keep_best, trial_folder


def make_study(*trials: tuple[float | None, str]) -> optuna.Study:
    study = optuna.create_study(direction="maximize")
    for value, state in trials:
        study.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState[state],
                value=value,
                params={"lr": 0.1},
                distributions={"lr": optuna.distributions.FloatDistribution(0, 1)},
            )
        )
    return study


def test_the_best_trial_was_trained_to_its_end() -> None:
    study = make_study((0.5, "COMPLETE"), (0.9, "PRUNED"), (0.7, "COMPLETE"), (0.7, "COMPLETE"), (None, "FAIL"))
    assert [trial.number for trial in completed(study)] == [2, 3, 0]
    said = [describe(trial) for trial in study.trials]
    assert said[:2] == ["trial 0: 0.5000 with lr=0.1", "trial 1: pruned with lr=0.1"]
    assert said[4] == "trial 4: fail with lr=0.1"


def test_only_the_best_run_is_kept(tmp_path: Path) -> None:
    study = make_study((0.5, "COMPLETE"), (0.9, "PRUNED"), (0.7, "COMPLETE"))
    for number in range(4):
        (tmp_path / "trials" / str(number)).mkdir(parents=True)
    keep_best(study, tmp_path, study.trials[1])
    left = sorted(path.name for path in (tmp_path / "trials").iterdir())
    assert left == ["2", "3"]  # the last is still training


def test_a_trial_that_goes_on_has_the_folder_of_the_one_before(tmp_path: Path) -> None:
    study = make_study((0.5, "COMPLETE"))
    study.enqueue_trial({"lr": 0.2}, user_attrs={"continues": "7"})
    assert trial_folder(tmp_path, study.trials[0]) == tmp_path / "trials" / "0"
    assert trial_folder(tmp_path, study.trials[1]) == tmp_path / "trials" / "7"
