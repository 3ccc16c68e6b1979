"""The real command, run in this process, and small runs it made."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from irene.cli import main

FAST = ("--epochs", "3", "--batch-size", "32")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on stdout."""
        (line,) = self.out.splitlines()
        value = json.loads(line)
        assert isinstance(value, dict)
        return value

    @property
    def mistake(self) -> str:
        """The one line of a user's mistake: exit code 2, nothing on stdout, no traceback."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert line.startswith("irene: ")
        return line.removeprefix("irene: ")


Irene = Callable[..., Done]


@pytest.fixture
def irene(capsys: pytest.CaptureFixture[str]) -> Irene:
    """Runs the command with these arguments."""

    def run(*arguments: object) -> Done:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """points.npz with three classes of points, and table.csv with a text column, in one folder."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=240)
    centres = rng.normal(size=(3, 5)) * 1.5
    np.savez(folder / "points.npz", x=centres[labels] + rng.normal(size=(240, 5)), y=labels)
    lines = ["colour,size,kind"]
    for label, noise in zip(labels, rng.normal(size=240), strict=True):
        lines.append(f"{('red', 'green', 'blue')[label]},{label + noise:.4f},{('oak', 'elm', 'ash')[label]}")
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="session")
def run_folder(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of irene on points.npz."""
    folder = tmp_path_factory.mktemp("runs") / "points"
    assert main(["train", "irene", "--data", f"npz:{files / 'points.npz'}", "--out", str(folder), *FAST]) == 0
    return folder


@pytest.fixture(scope="session")
def table_run(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the average ensemble on table.csv."""
    folder = tmp_path_factory.mktemp("runs") / "table"
    data = ("--data", f"csv:{files / 'table.csv'}", "--target", "kind")
    assert main(["train", "average", *data, "--members", "2", "--out", str(folder), *FAST]) == 0
    return folder


@pytest.fixture(scope="session")
def write_photos() -> Callable[[Path, Sequence[tuple[int, int]]], None]:
    """Writes dark images of these heights and widths and light ones of the same, in a folder each."""

    def write(folder: Path, sizes: Sequence[tuple[int, int]]) -> None:
        rng = np.random.default_rng(0)
        for name, level in (("dark", 40), ("light", 200)):
            (folder / name).mkdir(parents=True)
            for number, size in enumerate(sizes):
                pixels = rng.integers(level - 30, level + 30, size, dtype=np.uint8)
                Image.fromarray(pixels).save(folder / name / f"{number:02}.png")

    return write


@pytest.fixture(scope="session")
def photo_run(tmp_path_factory: pytest.TempPathFactory, write_photos: Callable[..., None]) -> Path:
    """A run on dark and light images, in the folder beside them."""
    folder = tmp_path_factory.mktemp("photos")
    write_photos(folder / "photos", [(6, 6)] * 12)
    flags = ["--members", "2", "--epochs", "5", "--batch-size", "8", "--out", str(folder / "run")]
    assert main(["train", "average", "--data", f"folder:{folder / 'photos'}", *flags]) == 0
    return folder / "run"
