"""What the files a user names stand for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from irene.cli.inputs import find_files, read_rows
from irene.errors import DataError

Irene = Callable[..., Any]
IMAGES = {"shape": (1, 6, 6)}


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """A folder with images in two folders, and other files."""
    for name in ("b/2.png", "b/1.PNG", "a/3.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("L", (6, 6), 100).save(tmp_path / name)
    (tmp_path / "b" / "notes.txt").write_text("hello")
    np.savez(tmp_path / "more.npz", x=np.full((5, 1, 6, 6), 7, dtype=np.uint8))
    return tmp_path


def test_folders_stand_for_their_images(album: Path) -> None:
    paths = [album / "b", album / "more.npz", album / "a" / "3.jpg", album]
    names = ["b/1.PNG", "b/2.png", "more.npz", "a/3.jpg", "a/3.jpg", "b/1.PNG", "b/2.png"]
    assert find_files(paths, IMAGES) == [album / name for name in names]


def test_linked_folders_count(album: Path) -> None:
    (album / "a" / "link").symlink_to(album / "b")
    names = ["a/3.jpg", "a/link/1.PNG", "a/link/2.png"]
    assert find_files([album / "a"], IMAGES) == [album / name for name in names]


def test_a_link_to_nothing_is_refused(album: Path) -> None:
    (album / "b" / "9.png").symlink_to(album / "gone.png")
    assert find_files([album / "a"], IMAGES) == [album / "a" / "3.jpg"]
    with pytest.raises(DataError, match=r"9\.png is a broken link: repair or remove it"):
        find_files([album], IMAGES)


@pytest.mark.parametrize("skip", range(5))
def test_batches_are_the_same_whichever_were_skipped(album: Path, skip: int) -> None:
    found = find_files([album / "b", album / "a", album / "more.npz"], IMAGES)
    batches = list(read_rows(found, IMAGES, batch_size=2, skip=skip, warn=pytest.fail))
    rows = [("b/1.PNG", 0), ("b/2.png", 0), ("a/3.jpg", 0), *(("more.npz", row) for row in range(5))]
    places = [(str(album / name), row) for name, row in rows]
    expected = [places[:2], places[2:3], places[3:5], places[5:7], places[7:]]
    assert [batch.places for batch in batches] == expected[skip:]
    assert all(len(batch.inputs) == len(batch.places) for batch in batches)


def test_all_files_are_looked_at_before_the_first_is_read(
    irene: Irene, run_folder: Path, files: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for name, words in (("gone.npz", "gone.npz is not there"), ("notes.txt", "is not of a kind that can be read")):
        assert words in irene("predict", run_folder, files / "points.npz", tmp_path / name).mistake


def test_a_file_that_may_not_be_read_is_refused(album: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: path.name != "more.npz")
    assert len(find_files([album], IMAGES)) == 3
    with pytest.raises(DataError, match=r"more\.npz cannot be read"):
        find_files([album, album / "more.npz"], IMAGES)
