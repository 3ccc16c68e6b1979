"""--readers: the same results from several processes, the same mistakes, and nobody left after Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from irene.data import folder, loader
from irene.run import Run

Irene = Callable[..., Any]
TRAIN = ("train", "average", "--members", "2", "--epochs", "2", "--batch-size", "8", "--device", "cpu")


@pytest.fixture(autouse=True)
def _read_lazily(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "IN_MEMORY_BYTES", 0)


@pytest.fixture
def photos(tmp_path: Path, write_photos: Callable[..., None]) -> Path:
    write_photos(tmp_path / "photos", [(16, 16)] * 24)
    return tmp_path / "photos"


@pytest.fixture
def read_by(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many readers there were for each epoch that was read by some."""
    found = []

    def noted(inputs: Any, batches: Sequence[Any], seed: int, readers: int) -> Any:
        found.append(readers)
        return read_ahead(inputs, batches, seed, readers)

    read_ahead = loader.read_ahead
    monkeypatch.setattr(loader, "read_ahead", noted)
    return found


def test_a_run_is_the_same_with_readers(irene: Irene, photos: Path, tmp_path: Path, read_by: list[int]) -> None:
    runs = []
    for readers in ("0", "2"):
        done = irene(*TRAIN, "--data", f"folder:{photos}", "--readers", readers, "--out", tmp_path / readers)
        assert done.code == 0, done.err
        runs.append(Run.open(tmp_path / readers))
    assert read_by == [2] * 8, "two members: two epochs each, and their answers on two splits"
    one, other = ([entry["sha256"] for entry in run.manifest["members"]] for run in runs)
    assert one == other
    assert runs[0].manifest["options"] == runs[1].manifest["options"]
    assert torch.equal(runs[0].bank("test").outputs, runs[1].bank("test").outputs)


def test_other_data_is_read_by_readers(irene: Irene, photo_run: Path, photos: Path, read_by: list[int]) -> None:
    data = ("--data", f"folder:{photos}")
    said = [irene("evaluate", photo_run, *data, "--readers", readers, "--json").json for readers in (0, 2)]
    assert said[0] == said[1]
    assert read_by == [2] * 2, "train and test samples"
    wish = (*data, "--cost", 1.5, "--policy", "margin", "--json")
    said = [irene("calibrate", photo_run, *wish, "--readers", readers).json["point"] for readers in (0, 2)]
    assert said[0]["expected"] == said[1]["expected"]
    assert read_by == [2] * 3


def test_a_broken_image_is_the_same_mistake(irene: Irene, photo_run: Path, photos: Path) -> None:
    path = photos / "light" / "23.png"
    path.write_bytes(path.read_bytes()[:200])
    said = [irene("evaluate", photo_run, "--data", f"folder:{photos}", "--readers", n).mistake for n in (0, 2)]
    assert said[0] == said[1]
    assert said[0].startswith(f"{path} cannot be read as an image")


def test_readers_that_cannot_be_meant(irene: Irene, run_folder: Path, photos: Path, workplace: Path) -> None:
    before = sorted(workplace.iterdir())
    for arguments, words in (
        (
            ("train", "single", "--data", "digits", "--readers", 2),
            "readers read what does not fit in memory, and digits",
        ),
        ((*TRAIN, "--data", f"folder:{photos}", "--readers", -1), "readers must be 0 or more processes, got -1"),
        (("evaluate", run_folder, "--readers", 2), "--readers say how to read --data"),
    ):
        assert words in irene(*arguments).mistake
    assert sorted(workplace.iterdir()) == before


SLOWLY = """
import sys, time
from irene.cli import main
from irene.data import folder

read = folder.read_image

def slowly(*arguments):
    time.sleep(0.01)
    return read(*arguments)

folder.IN_MEMORY_BYTES, folder.read_image = 0, slowly
sys.exit(main(sys.argv[1:]))
"""


def test_nobody_is_left_after_control_c(photos: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SLOWLY, *TRAIN[:5], "100", "--data", f"folder:{photos}", "--readers", "2"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "run")], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        metrics = tmp_path / "run" / "metrics.jsonl"
        deadline = time.monotonic() + 120
        while not (metrics.exists() and metrics.read_text()):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline, "the training got nowhere"
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to the readers too
        said = process.communicate(timeout=60)[1]  # until the last reader is gone: they have stderr, too
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert said.splitlines()[-1] == "irene: interrupted"
    assert "Traceback" not in said
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "training"
