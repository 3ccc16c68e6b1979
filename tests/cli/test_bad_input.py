"""Bad input through the real command: one clear line, exit code 2, nothing changed on disk."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

Irene = Callable[..., Any]


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content, and every folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"a folder"
        for path in folder.rglob("*")
    }


@pytest.fixture
def mistake(irene: Irene, workplace: Path) -> Callable[..., str]:
    """The one line the command says to these arguments, having left the current folder as it was."""

    def run(*arguments: object) -> str:
        before = tree(workplace)
        line: str = irene(*arguments).mistake
        assert tree(workplace) == before
        return line

    return run


Mistake = Callable[..., str]


def test_a_missing_folder(mistake: Mistake) -> None:
    assert mistake("train", "average", "--data", "folder:photos") == (
        "photos is not a folder: expected one with a sub-folder of images per class"
    )


def test_a_truncated_cifar_file(mistake: Mistake, workplace: Path) -> None:
    folder = workplace / "data" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    record = 1 + 3 * 32 * 32
    (folder / "data_batch_1.bin").write_bytes(bytes(9_999 * record))
    line = mistake("train", "average", "--data", "cifar10", "--out", "run")
    assert "data_batch_1.bin is damaged" in line
    assert f"{10_000 * record} bytes" in line


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("run.json", b'{"format": 1, "sta', "not readable as JSON"),
        ("run.json", b"[]", "format 1 expected"),
        ("run.json", None, "not a run"),
        ("banks/test.safetensors", b"nothing", "its SHA-256 is not the one in run.json"),
        ("banks/test.safetensors", None, "missing"),
    ],
)
def test_a_corrupt_run(
    mistake: Mistake, workplace: Path, run_folder: Path, file: str, content: bytes | None, words: str
) -> None:
    shutil.copytree(run_folder, workplace / "run")
    damaged = workplace / "run" / file
    damaged.unlink() if content is None else damaged.write_bytes(content)
    for line in (mistake("evaluate", "run"), mistake("report", "run", "--out", "report.html")):
        assert words in line
        assert "run" in line


def test_a_damaged_member(mistake: Mistake, workplace: Path, run_folder: Path, files: Path) -> None:
    shutil.copytree(run_folder, workplace / "run")
    (workplace / "run" / "members" / "0.safetensors").write_bytes(b"nothing")
    line = mistake("predict", "run", files / "points.npz", "--out", "answers.csv")
    assert "members/0.safetensors: damaged" in line


def test_an_unfinished_run(mistake: Mistake, workplace: Path, run_folder: Path) -> None:
    manifest = json.loads((run_folder / "run.json").read_text())
    (workplace / "run").mkdir()
    (workplace / "run" / "run.json").write_text(json.dumps(manifest | {"status": "training"}))
    assert "--resume" in mistake("evaluate", "run")


def test_an_unknown_backbone(mistake: Mistake, files: Path) -> None:
    line = mistake("train", "average", "--data", "digits", "--backbone", "resnet19", "--out", "deep/below/run")
    assert "no backbone is called 'resnet19': did you mean resnet18" in line
    assert "'cnn' takes images" in mistake(
        "train", "average", "--data", f"npz:{files / 'points.npz'}", "--backbone", "cnn"
    )


def test_text_in_a_numeric_column(mistake: Mistake, workplace: Path) -> None:
    rows = [f"{number},{number % 2}" for number in range(40)]
    rows[6] = "many,0"
    (workplace / "table.csv").write_text("\n".join(["size,kind", *rows]) + "\n")
    line = mistake("train", "average", "--data", "csv:table.csv", "--target", "kind")
    assert line == "table.csv, row 7 (line 8), column 'size': expected a number, got 'many'; correct or remove it"


def test_an_empty_class(mistake: Mistake, workplace: Path) -> None:
    for name in ("cat", "dog"):
        (workplace / "photos" / name).mkdir(parents=True)
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(workplace / "photos" / "cat" / "1.png")
    line = mistake("train", "average", "--data", "folder:photos")
    assert line == "class folder photos/dog holds no images: add some or remove the folder"


def test_a_directory_that_is_taken(mistake: Mistake, workplace: Path) -> None:
    (workplace / "mine").mkdir()
    (workplace / "mine" / "notes.txt").write_text("keep me")
    assert "exists already" in mistake("train", "average", "--data", "digits", "--out", "mine")


def test_options_a_method_finds_wrong_only_when_it_starts(mistake: Mistake, files: Path) -> None:
    data = ("--data", f"npz:{files / 'points.npz'}")
    assert "heldout above 0, --heldout" in mistake("train", "irene", *data, "--heldout", "0")
    assert "selector features" in mistake("train", "irene", *data, "--features", "colour")
    assert "heldout must be a share" in mistake("train", "irene", *data, "--heldout", "1.5")


def test_an_extra_that_is_missing(mistake: Mistake, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    line = mistake("train", "single", "--data", f"npz:{files / 'points.npz'}", "--tensorboard", "--out", "deep/run")
    assert line == "tensorboard is not installed: run pip install 'irene-ensemble[tensorboard]'"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train", "averige", "--data", "digits"), "did you mean average?"),
        (("train", "average"), "--data digits"),
        (("train", "average", "--data", "moon"), "unknown data 'moon'"),
        (("train", "average", "--data", "digits", "--task", "guessing"), "task must be one of"),
        (("train", "average", "--data", "digits", "--target", "size"), "target has no meaning for digits"),
        (("train", "average", "--data", "digits", "--device", "abacus"), "device must be"),
        (("train", "average", "--data", "digits", "--heldout", "some"), "--heldout takes a share"),
        (("train", "average", "--data", "digits", "--members", "0"), "at least one member"),
        (("train", "average", "--data", "digits", "--resume"), "give --out"),
        (("evaluate", "nowhere"), "not a run"),
        (("predict", "nowhere", "x.png"), "not a run"),
        (("data", "csv:nowhere.csv", "--target", "x"), "nowhere.csv is not a file"),
    ],
)
def test_other_slips(mistake: Mistake, arguments: tuple[str, ...], words: str) -> None:
    assert words in mistake(*arguments)
