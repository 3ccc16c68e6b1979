"""`irene points` lists what was calibrated."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

Irene = Callable[..., Any]


def test_none_yet(irene: Irene, run_folder: Path) -> None:
    assert irene("points", run_folder, "--json").json == {"run": str(run_folder), "points": []}
    assert "make one with `irene calibrate`" in irene("points", run_folder).out


def test_every_point_with_what_was_asked_and_expected(irene: Irene, run_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run_folder, tmp_path / "run")
    irene("calibrate", run, "--cost", "1.5", "--name", "fast")
    irene("calibrate", run, "--max-drop", "5%", "--policy", "confidence", "--name", "safe")
    irene("calibrate", run, "--cost", "1.4", "--name", "fast")
    fast, safe = irene("points", run, "--json").json["points"]
    assert (fast["name"], fast["version"], fast["asked"]["cost"]) == ("fast", 2, 1.4)
    assert (safe["name"], safe["version"], safe["policy"]) == ("safe", 1, "confidence")
    shown = " ".join(irene("points", run).out.split())
    assert "margin for cost 1.40 members" in shown
    assert "confidence for max-drop 5%" in shown
    assert "version 2" in shown


def test_values_have_no_accuracy(irene: Irene, tmp_path: Path, make_bank: Callable[..., Any]) -> None:
    make_bank(300, task="regression").save(tmp_path / "bank.safetensors")
    run = tmp_path / "run"
    assert irene("bank", tmp_path / "bank.safetensors", "--out", run).code == 0
    done = irene("calibrate", run, "--max-drop", "10%")
    assert done.code == 0, done.err
    assert "mse" in done.out
    assert "mse" in irene("points", run).out
