"""`irene export` writes a folder that predicts as the run does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
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


def test_export_in_int8(irene: Irene, run_folder: Path, files: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run_folder, tmp_path / "run")
    assert irene("calibrate", run, "--cost", "1.4", "--policy", "margin", "--name", "cheap").code == 0
    flags = ("--int8", "--data", f"npz:{files / 'points.npz'}", "--point", "cheap", "--max-loss", "9%")
    done = irene("export", run, *flags, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert all(words in done.out for words in ("3 in onnx, int8", "cheap", "whole", "before int8", "load_irene"))
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert list(manifest["points"]) == ["cheap"]
    assert manifest["points"]["cheap"]["asked"] == {"cost": 1.4, "unit": "members"}
    assert set(manifest["quantisation"]["changes"]) == {"whole", "cheap"}


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
        (("--out", run_folder), "exists already"),
    ):
        assert words in irene("export", run_folder, *flags).mistake
    assert not (tmp_path / "out").exists()
