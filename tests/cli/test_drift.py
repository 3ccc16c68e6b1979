"""`irene drift` says when to recalibrate, without labels."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irene.bank import Bank

Irene = Callable[..., Any]


@pytest.fixture
def run(irene: Irene, run_folder: Path, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(run_folder, tmp_path / "run"))
    assert irene("calibrate", folder, "--cost", "1.5").code == 0
    return folder


def test_files_and_sources(irene: Irene, run: Path, files: Path, tmp_path: Path) -> None:
    points = files / "points.npz"
    same = irene("drift", run, "--data", points, "--json").json
    assert (same["samples"], same["point"]) == (240, "calibrated")
    assert sum(same["used"]) == pytest.approx(1)
    source = irene("drift", run, "--data", f"npz:{points}", "--json").json
    assert source["samples"] == 48  # its test samples
    assert "too few samples" in source["verdict"]
    np.savez(tmp_path / "far.npz", x=np.load(points)["x"] * 0.05)
    far = irene("drift", run, "--data", tmp_path / "far.npz", "--json").json
    assert far["recalibrate"]
    both = irene("drift", run, "--data", points, "--data", tmp_path / "far.npz", "--json").json
    assert both["samples"] == 480
    shown = " ".join(irene("drift", run, "--data", tmp_path / "far.npz").out.split())
    assert "recalibrate" in shown
    assert "--name calibrated --data SPEC" in shown


def test_outputs_from_elsewhere(irene: Irene, lifelike_bank: Callable[..., Bank], tmp_path: Path) -> None:
    lifelike_bank(2000).save(tmp_path / "bank.safetensors")
    run = tmp_path / "run"
    irene("bank", tmp_path / "bank.safetensors", "--out", run)
    irene("calibrate", run, "--cost", "1.5")
    for name, bank in (("same", lifelike_bank(800, seed=5)), ("hard", lifelike_bank(800, skills=(0.5,) * 3, seed=5))):
        np.savez(tmp_path / f"{name}.npz", outputs=bank.outputs[:, :, 0].numpy())
        said = irene("drift", run, "--data", tmp_path / f"{name}.npz", "--json").json
        assert said["recalibrate"] == (name == "hard")
    np.savez(tmp_path / "two.npz", outputs=np.zeros((9, 2, 5)))
    assert "outputs of 2 members" in irene("drift", run, "--data", tmp_path / "two.npz").mistake


def test_mistakes(irene: Irene, run: Path, run_folder: Path, tmp_path: Path) -> None:
    for arguments, words in (
        (("--data", tmp_path / "gone.npz"), "gone.npz is not there"),
        (("--data", "nonsense"), "unknown data 'nonsense'"),
        (("--data", "digits"), "samples of shape [1, 8, 8]"),
        (("--data", "digits", "--point", "other"), "no operating point is called 'other' (there are: calibrated)"),
        ((), "--data"),
    ):
        assert words in irene("drift", run, *arguments).mistake
    assert "make it with `irene calibrate`" in irene("drift", run_folder, "--data", "digits").mistake
