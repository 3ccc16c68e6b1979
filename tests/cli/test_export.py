"""`irene export` writes a folder that predicts as the run does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from irene.run import Run
from irene.runtime.export import load_irene

Irene = Callable[..., Any]


def test_export_as_torch_programs(irene: Irene, run_folder: Path, files: Path, tmp_path: Path) -> None:
    said = irene("export", run_folder, "--format", "pt2", "--out", tmp_path / "out", "--json").json
    assert (said["format"], said["precision"], said["members"], said["points"]) == ("pt2", "fp32", 3, ["trained"])
    assert said["bytes"] > 1000
    inputs = np.load(files / "points.npz")["x"].astype(np.float32)
    found = load_irene.load(tmp_path / "out").predict(inputs)
    wanted = Run.open(run_folder).cascade().predict(torch.from_numpy(inputs))
    assert np.array_equal(found.members_used, wanted.members_used.numpy())
    assert np.array_equal(found.labels, wanted.labels.numpy())


def run_readme(folder: Path) -> list[str]:
    """What the program in a folder's README prints in a process of its own, which must load neither irene nor torch."""
    (code,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    code += "import sys; assert not {'irene', 'torch'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_readme_runs_and_names_the_points(irene: Irene, run_folder: Path, tmp_path: Path) -> None:
    folder, out = Path(shutil.copytree(run_folder, tmp_path / "run")), tmp_path / "out"
    for wish in ("--cost 1.4 --name cheap", "--max-drop 5% --name careful", "--p99 1000 --name timed"):
        assert irene("calibrate", folder, *wish.split(), "--policy", "margin").code == 0
    assert irene("export", folder, "--out", out).code == 0
    run = Run.open(folder)
    wanted = run.cascade().predict(torch.zeros(4, 5))
    names = [run.manifest["data"]["classes"][label] for label in wanted.labels.tolist()]
    assert run_readme(out) == [f"{name} {used}" for name, used in zip(names, wanted.members_used, strict=True)]
    text = (out / "README.md").read_text()
    assert "pip install numpy onnxruntime" in text
    points = re.findall(r"^\| `(.*)` \| (.*) \|$", text, re.MULTILINE)
    assert [name for name, _ in points] == load_irene.load(out).points == ["trained", "cheap", "careful", "timed"]
    assert points[0][1] == "selector: as the run was trained"
    assert points[1][1].startswith("margin for cost 1.40 members: ")
    assert points[2][1].startswith("margin for max-drop 5%: ")
    in_torch = [words.endswith(" (times are those of the members in torch, in float32)") for _, words in points]
    assert in_torch == [False, False, False, True]


def test_the_readme_of_values_runs(irene: Irene, tmp_path: Path) -> None:
    folder, out = tmp_path / "run", tmp_path / "out"
    assert irene("train", "single", "--data", "diabetes", "--epochs", "1", "--out", folder).code == 0
    assert irene("export", folder, "--out", out).code == 0
    (value, used) = run_readme(out)[0].strip("[").split("] ")
    wanted = Run.open(folder).cascade().predict(torch.zeros(4, 10))
    assert (float(value), int(used)) == (pytest.approx(float(wanted.values[0, 0]), rel=1e-3), 1)
    assert "holds the values of `progression`" in (out / "README.md").read_text()


def test_export_in_int8(irene: Irene, run_folder: Path, files: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run_folder, tmp_path / "run")
    assert irene("calibrate", run, "--cost", "1.4", "--policy", "margin", "--name", "cheap").code == 0
    flags = ("--int8", "--data", f"npz:{files / 'points.npz'}", "--point", "cheap", "--max-loss", "9%")
    done = irene("export", run, *flags, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert all(
        words in done.out for words in ("3 in onnx, int8", "cheap", "whole", "before int8", "load_irene", "README.md")
    )
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert list(manifest["points"]) == ["cheap"]
    assert manifest["points"]["cheap"]["asked"] == {"cost": 1.4, "unit": "members"}
    assert set(manifest["quantisation"]["changes"]) == {"whole", "cheap"}


def test_a_point_of_other_data_stays_in_float(irene: Irene, run_folder: Path, files: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run_folder, tmp_path / "run")
    points = np.load(files / "points.npz")
    np.savez(tmp_path / "new.npz", x=points["x"] * 1.1, y=points["y"])
    mine = ("--cost", "1.4", "--policy", "margin", "--name", "mine")
    assert irene("calibrate", run, *mine, "--data", f"npz:{tmp_path / 'new.npz'}").code == 0
    int8 = ("--int8", "--data", f"npz:{files / 'points.npz'}")
    words = irene("export", run, "--out", tmp_path / "out", *int8, "--point", "mine").mistake
    assert words.startswith("operating point mine with int8 members: it was calibrated on other samples")
    assert not (tmp_path / "out").exists()
    done = irene("export", run, "--out", tmp_path / "others", *int8, "--max-loss", "9%")
    assert "left out: operating point mine with int8 members: it was calibrated" in " ".join(done.out.split())
    others = load_irene.load(tmp_path / "others")
    assert others.points == ["trained"]
    assert list(others.manifest["left_out"]) == ["mine"]
    assert irene("export", run, "--out", tmp_path / "out", "--format", "pt2", "--point", "mine").code == 0


def test_export_refuses_what_does_not_fit(irene: Irene, run_folder: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    for flags, words in (
        ((), "say where to write the folder"),
        ((*out, "--format", "tflite"), "--format must be one of onnx, openvino, pt2, got 'tflite'"),
        ((*out, "--point", "dear"), "no operating point is called 'dear'"),
        ((*out, "--data", "digits"), "are for --int8"),
        ((*out, "--int8"), "name its data (npz:points.npz) with --data"),
        ((*out, "--int8", "--data", "digits"), "is not the data that"),
        ((*out, "--int8", "--max-loss", "1"), "--max-loss 1 would be 100%"),
        ((*out, "--max-loss", "3%"), "--max-loss is what --int8 may cost: leave it out"),
        ((*out, "--int8", "--max-loss", "-5%"), "--max-loss is an accuracy that int8 may cost, 0 or more, got -5%"),
        (("--out", run_folder), "exists already"),
        (("--out", run_folder / "run.json" / "out"), "cannot be written: "),
    ):
        assert words in irene("export", run_folder, *flags).mistake
    assert not (tmp_path / "out").exists()
