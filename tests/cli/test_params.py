"""What several verbs share is checked in each of them alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from irene.run import Run

Irene = Callable[..., Any]


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "RUN"),
        ("calibrate", "RUN", "--cost", "1.5"),
        ("drift", "RUN", "--data", "digits"),
        ("predict", "RUN", "photo.png"),
        ("bench", "RUN", "--quick"),
        ("train", "single", "--data", "digits"),
        ("tune", "--data", "digits"),
        ("compare", "--data", "digits"),
        ("compare", "RUN"),
        ("study", "pareto", "--data", "digits"),
        ("import", "model.onnx"),
        ("demo",),
    ],
)
def test_a_device_that_is_not_there_is_refused(
    irene: Irene, run_folder: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    words = [str(run_folder) if word == "RUN" else word for word in command]
    assert (
        irene(*words, "--device", "cuda").mistake
    ) == "device cuda was asked for and torch sees none here: use auto or --device cpu"
    assert not list(workplace.iterdir())


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory, write_photos: Callable[..., None]) -> str:
    """Dark and light images, no two of one size."""
    folder = tmp_path_factory.mktemp("photos")
    write_photos(folder, [(20 + number, 60 - number) for number in range(24)])
    return f"folder:{folder}"


def test_images_have_the_size_that_is_asked_for(irene: Irene, photos: str, tmp_path: Path) -> None:
    data = ("--data", photos, "--size", 8)
    fast = ("--epochs", 1, "--batch-size", 16)
    assert irene("data", photos, "--size", 8, "--json").json["shape"] == [1, 8, 8]
    assert irene("train", "average", *data, *fast, "--members", 2, "--out", tmp_path / "run").code == 0
    run = Run.open(tmp_path / "run")
    assert run.manifest["data"]["shape"] == [1, 8, 8]
    assert irene("compare", *data, *fast, "--methods", "single", "--seeds", 1, "--out", tmp_path / "all").code == 0
    assert Run.open(tmp_path / "all" / "single-s0").manifest["data"] == run.manifest["data"]
    same = irene("evaluate", run.path, "--data", photos, "--json").json  # read as the run takes them
    assert (same["split"], same["test"]["accuracy"]) == ("test", run.figures["test"]["accuracy"])


def test_int8_reads_images_as_the_run_takes_them(irene: Irene, photos: str, tmp_path: Path) -> None:
    flags = ("--size", 8, "--epochs", 1, "--batch-size", 16, "--members", 2, "--heldout", 16)
    assert irene("train", "average", "--data", photos, *flags, "--out", tmp_path / "run").code == 0
    int8 = ("--int8", "--data", photos, "--max-loss", "99%")
    done = irene("export", tmp_path / "run", *int8, "--out", tmp_path / "out", "--json")
    assert done.code == 0
    assert done.json["precision"] == "int8"


def test_a_search_says_the_size_to_train_with(irene: Irene, photos: str, tmp_path: Path) -> None:
    flags = ("--size", 8, "--epochs", 1, "--members", 2, "--trials", 1)
    said = irene("tune", "--data", photos, *flags, "--out", tmp_path / "search", "--json").json
    assert "--size 8" in said["train"]


def test_a_size_is_for_images_of_a_folder(irene: Irene) -> None:
    assert irene("train", "single", "--data", "digits", "--size", 8).mistake.startswith(
        "size has no meaning for digits"
    )
