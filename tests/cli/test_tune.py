"""`irene tune` finds hyper-parameters and says how to train with them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from irene.run import Run
from irene.training.selecting import fit_selector

Irene = Callable[..., Any]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irene.training.methods.irene.fit_selector", partial(fit_selector, epochs=2))


def test_from_a_search_to_a_run(irene: Irene, files: Path, tmp_path: Path) -> None:
    flags = ("--data", f"npz:{files / 'points.npz'}", "--members", "2", "--epochs", "1", "--batch-size", "32")
    out = tmp_path / "tune"
    done = irene("tune", *flags, "--cost", "1.3", "--trials", "4", "--out", out, "--json")
    said = done.json
    assert sum(said["trials"].values()) == 4
    assert set(said["best"]["parameters"]) == {
        "selector_lr",
        "selector_decay",
        "loss_weights.ensemble",
        "loss_weights.cost",
        "loss_weights.rank",
    }
    assert 0 < said["best"]["value"] <= 1
    assert Run.open(said["best"]["run"]).method == "irene"
    assert "trial 0: " in done.err
    words = shlex.split(said["train"])
    assert words[:3] == ["irene", "train", "irene"]
    assert irene(*words[1:], "--out", tmp_path / "run").code == 0
    options = Run.open(tmp_path / "run").manifest["options"]
    assert options["method"]["selector_lr"] == pytest.approx(said["best"]["parameters"]["selector_lr"], rel=1e-3)
    assert (options["method"]["cost"], options["loop"]["epochs"]) == (1.3, 1)
    shown = irene("tune", *flags, "--cost", "1.3", "--trials", "4", "--out", out).out
    shown = " ".join(shown.split())  # nothing left to do
    assert "train with it: irene train irene" in shown
    assert f"{said['best']['value']:.4f}" in shown


def test_mistakes(irene: Irene, files: Path, tmp_path: Path) -> None:
    data = ("--data", f"npz:{files / 'points.npz'}", "--out", tmp_path / "tune")
    for flags, words in (
        (("--out", tmp_path / "tune"), "give the data to train on"),
        ((*data, "--trials", "0"), "must be at least 1"),
        ((*data, "--validation", "some"), "--validation takes a share"),
        ((*data, "--set", "nonsense=1"), "is no option of irene"),
        ((*data, "--set", "selector_lr=0.01"), "--set selector_lr is what is searched for: leave it out"),
        ((*data, "--cost", "9", "--trials", "1"), "cannot be reached"),
    ):
        assert words in irene("tune", *flags).mistake


def test_without_optuna_nothing_is_begun(irene: Irene, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert irene("tune", "--data", "digits").mistake == (
        "optuna is not installed: run pip install 'irene-ensemble[tune]'"
    )
    assert list(workplace.iterdir()) == []
