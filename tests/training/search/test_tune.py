"""The search keeps the best run, goes on after an interruption, and runs side by side."""

from __future__ import annotations

import io
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from torch import nn

from irene.calibration.frontier import frontier
from irene.data import Data
from irene.errors import MissingExtraError, RunError, TrainingError
from irene.run import Run
from irene.training.methods.irene import IreneOptions
from irene.training.options import LoopOptions
from irene.training.search import trial
from irene.training.search.trial import TuneOptions, search_for
from irene.training.search.tune import Tuned, _alone, tune
from irene.training.selecting import fit_selector
from irene.training.train import TrainOptions

LOOP = LoopOptions(epochs=1, batch_size=32)
TRAIN = TrainOptions(members=2, device="cpu")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irene.training.methods.irene.fit_selector", partial(fit_selector, epochs=2))


def search(data: Data, out: Path, trials: int, console: Console | None = None, **more: Any) -> Tuned:
    options = TuneOptions(trials=trials, validation=60, **more)
    return tune(data, out, options=options, train=TRAIN, loop=LOOP, own=IreneOptions(cost=1.4), console=console)


def trials(data: Data, out: Path) -> list[Any]:
    study = search_for(data, out, options=TuneOptions(validation=60), train=TRAIN, loop=LOOP).study()
    return list(study.trials)


def states(data: Data, out: Path) -> list[str]:
    return [one.state.name for one in trials(data, out)]


def test_the_best_run_is_kept_and_is_worth_what_is_said(blobs: Data, tmp_path: Path) -> None:
    tuned = search(blobs, tmp_path, 5, startup=9)
    assert tuned.trials == {"complete": 5}
    assert [path.name for path in (tmp_path / "trials").iterdir()] == [tuned.run.name]
    run = Run.open(tuned.run)
    bank = run.bank("test")  # of the trial: the samples to judge by
    assert len(bank) == 60
    assert set(bank.ids.tolist()) < set(blobs.train.ids.tolist())
    curve = frontier(bank, run.policy(), run.aggregation)
    nearest = int((curve.cost_M - 1.4).abs().argmin())
    assert tuned.value == pytest.approx(float(curve.quality_M[nearest]))
    assert tuned.standard_error == pytest.approx((tuned.value * (1 - tuned.value) / 60) ** 0.5)
    options = run.manifest["options"]["method"]
    assert options["selector_lr"] == tuned.parameters["selector_lr"]
    assert options["loss_weights"]["rank"] == tuned.parameters["loss_weights.rank"]
    if tuned.importances:
        assert sum(tuned.importances.values()) == pytest.approx(1)
        assert tuned.picture is not None
        assert tuned.picture.exists()


def test_without_optuna_nothing_is_begun(blobs: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"irene-ensemble\[tune\]"):
        search(blobs, tmp_path / "out", 2)
    assert not (tmp_path / "out").exists()


def test_a_search_goes_on_and_draws_anew(blobs: Data, tmp_path: Path) -> None:
    search(blobs, tmp_path, 2)
    tuned = search(blobs, tmp_path, 3)
    assert sum(tuned.trials.values()) == 3
    lines = [json.loads(line) for line in (tmp_path / "study.log").read_text().splitlines()]
    rates = [line["param_value_internal"] for line in lines if line.get("param_name") == "selector_lr"]
    assert len(rates) == len(set(rates)) == 3
    assert search(blobs, tmp_path, 3).value == tuned.value  # nothing left to do
    with pytest.raises(RunError, match=r"was started with loop\.\w+ .* was asked for; continue with the same"):
        tune(blobs, tmp_path, options=TuneOptions(validation=60), train=TRAIN, own=IreneOptions(cost=1.4))


@pytest.mark.parametrize("killed", [False, True])
def test_an_interrupted_trial_goes_on_in_its_place(
    blobs: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    told = trial._Watch.__call__
    stages: list[str] = []

    def interrupted(self: Any, stage: str, model: nn.Module) -> None:
        stages.append(stage)
        if stages == ["member-1", "member-2"]:
            raise KeyboardInterrupt
        told(self, stage, model)

    monkeypatch.setattr(trial._Watch, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search(blobs, tmp_path, 1)
    assert (tmp_path / "trials" / "0" / "stages" / "member-2.safetensors").exists()
    if killed:  # without time to say so
        log = (tmp_path / "study.log").read_text().splitlines()
        (tmp_path / "study.log").write_text("\n".join(log[:-1]) + "\n")
        assert states(blobs, tmp_path) == ["RUNNING"]
    tuned = search(blobs, tmp_path, 1)
    assert states(blobs, tmp_path) == ["FAIL", "COMPLETE"]
    assert tuned.run == tmp_path / "trials" / "0"
    written = json.loads((tmp_path / "trials" / "0" / "run.json").read_text())
    assert written["status"] == "finished"
    further = search(blobs, tmp_path, 2)
    assert further.trials == {"complete": 2, "fail": 1}
    assert Run.open(further.run).finished
    rates = [one.params["selector_lr"] for one in trials(blobs, tmp_path) if one.state.name == "COMPLETE"]
    assert len(set(rates)) == 2  # it is not taken up once more


def test_member_one_is_trained_once(blobs: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[str] = []
    before = trial.train

    def counting(*args: Any, taken: dict[str, Any], **more: Any) -> Run:
        trained.extend(taken)
        return before(*args, taken=taken, **more)

    monkeypatch.setattr(trial, "train", counting)
    search(blobs, tmp_path, 3)
    assert trained == ["member-1", "member-1"]  # taken by the second trial and the third


def test_one_search_at_a_time(blobs: Data, tmp_path: Path) -> None:
    with _alone(tmp_path), pytest.raises(RunError, match="is being searched already; use --workers"):
        search(blobs, tmp_path, 1)


def test_trials_that_diverge_do_not_end_the_search(
    blobs: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverge(*args: Any, **more: Any) -> Run:
        raise TrainingError("the loss became nan")

    monkeypatch.setattr(trial, "train", diverge)
    said = io.StringIO()
    with pytest.raises(TrainingError, match="no trial was trained to its end"):
        search(blobs, tmp_path, 2, Console(file=said))
    assert states(blobs, tmp_path) == ["FAIL", "FAIL"]
    lines = said.getvalue().splitlines()
    assert [line.partition(" with ")[0] for line in lines] == [f"trial {n}: fail (the loss became nan)" for n in (0, 1)]


def test_a_mistake_does_not_bind_the_search(blobs: Data, tmp_path: Path) -> None:
    options = TuneOptions(trials=1, validation=60)
    with pytest.raises(ValueError, match="cannot be reached"):
        tune(blobs, tmp_path, options=options, train=TRAIN, loop=LOOP, own=IreneOptions(cost=7.0))
    assert search(blobs, tmp_path, 1).trials == {"complete": 1, "fail": 1}


def test_side_by_side_in_one_study(blobs: Data, tmp_path: Path) -> None:
    said = io.StringIO()
    tuned = search(blobs, tmp_path, 3, Console(file=said), workers=2)
    assert sum(tuned.trials.values()) == 3
    assert sorted(line.split(":")[0] for line in said.getvalue().splitlines()) == ["trial 0", "trial 1", "trial 2"]
    assert Run.open(tuned.run).finished


def test_a_mistake_in_a_worker_is_told(blobs: Data, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be reached"):
        tune(
            blobs,
            tmp_path,
            options=TuneOptions(trials=2, workers=2, validation=60),
            train=TRAIN,
            loop=LOOP,
            own=IreneOptions(cost=7.0),
        )
