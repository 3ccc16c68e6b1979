"""Folders of images: both layouts, both ways of reading, and every way they can be wrong."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from irene.data import Loader, folder, load
from irene.data.folder import from_folder
from irene.errors import DataError, OptionError


def paint(path: Path, value: int, size: tuple[int, int] = (6, 5), mode: str = "RGB") -> None:
    """Write an image of one grey level; size is (width, height)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value,) * 3).save(path)


def one_level(root: Path, per_class: int = 5) -> Path:
    for c, name in enumerate(["cat", "dog"]):
        for i in range(per_class):
            paint(root / name / f"{i}.png", 100 * c + i)
    return root


def test_one_level_is_split(tmp_path: Path) -> None:
    data = from_folder(one_level(tmp_path))
    assert data.classes == ("cat", "dog")
    assert data.shape == (3, 5, 6)
    assert torch.bincount(data.test.targets).tolist() == [1, 1]
    assert sorted(torch.cat([data.train.ids, data.test.ids]).tolist()) == list(range(10))
    assert data.train.inputs is not None
    level = data.train.inputs[:, 0, 0, 0].long()
    assert torch.equal(level, 100 * data.train.targets + data.train.ids % 5)


def test_train_and_test_folders_are_used(tmp_path: Path) -> None:
    one_level(tmp_path / "train")
    paint(tmp_path / "test" / "dog" / "x.jpg", 7)
    data = load(f"folder:{tmp_path}")
    assert len(data.train) == 10
    assert data.test.targets.tolist() == [1]
    assert data.test.ids.tolist() == [10]


@pytest.mark.parametrize("names", [("train", "val"), ("Test", "train")])
def test_parts_of_data_are_no_classes(tmp_path: Path, names: tuple[str, str]) -> None:
    for name in names:
        one_level(tmp_path / name)
    with pytest.raises(DataError, match=f"has the folders {names[0]} and {names[1]}: expected train and test"):
        from_folder(tmp_path)


def test_a_class_may_be_called_as_a_part_is(tmp_path: Path) -> None:
    for name in ("train", "plane"):
        paint(tmp_path / name / "0.png", 1)
        paint(tmp_path / name / "1.png", 2)
        paint(tmp_path / name / "2.png", 3)
    assert from_folder(tmp_path).classes == ("plane", "train")


def test_lazy_and_in_memory_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_level(tmp_path)
    near = from_folder(tmp_path)
    monkeypatch.setattr(folder, "IN_MEMORY_BYTES", 0)
    far = from_folder(tmp_path)
    assert far.train.inputs is None
    assert near.train.inputs is not None
    assert torch.equal(far.train.read(range(len(far.train))), near.train.inputs)
    assert torch.equal(far.train.targets, near.train.targets)
    assert far.shape == near.shape


def test_the_lazy_fingerprint_follows_names_and_sizes_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "IN_MEMORY_BYTES", 0)
    one_level(tmp_path)
    first = from_folder(tmp_path).fingerprint
    assert from_folder(tmp_path).fingerprint == first
    (tmp_path / "cat" / "0.png").rename(tmp_path / "cat" / "00.png")
    renamed = from_folder(tmp_path).fingerprint
    with (tmp_path / "cat" / "00.png").open("ab") as file:
        file.write(b"\0")
    assert len({first, renamed, from_folder(tmp_path).fingerprint}) == 3


def test_the_fingerprint_does_not_depend_on_where_the_folder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "IN_MEMORY_BYTES", 0)
    here, there = one_level(tmp_path / "a"), one_level(tmp_path / "b")
    assert from_folder(here).fingerprint == from_folder(there).fingerprint


def test_different_sizes_become_the_most_common_or_the_asked_one(tmp_path: Path) -> None:
    one_level(tmp_path)
    paint(tmp_path / "cat" / "large.png", 5, (20, 10))
    assert from_folder(tmp_path).shape == (3, 5, 6)
    assert from_folder(tmp_path, size=8).shape == (3, 8, 8)
    assert load(f"folder:{tmp_path}", size=4).shape == (3, 4, 4)


def test_grey_images_have_one_channel(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for i in range(3):
            paint(tmp_path / name / f"{i}.png", i, mode="L")
    assert from_folder(tmp_path).shape == (1, 5, 6)


def test_other_files_and_hidden_folders_are_ignored(tmp_path: Path) -> None:
    one_level(tmp_path)
    (tmp_path / "cat" / "notes.txt").write_text("hello")
    (tmp_path / ".cache").mkdir()
    (tmp_path / "README").write_text("hello")
    paint(tmp_path / "cat" / "more" / "9.PNG", 9)
    assert len(from_folder(tmp_path, test_fraction=0).train) == 11


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere is not a folder"):
        from_folder(tmp_path / "nowhere")


def test_an_empty_class_is_named(tmp_path: Path) -> None:
    one_level(tmp_path)
    (tmp_path / "emu").mkdir()
    with pytest.raises(DataError, match=r"class folder .*emu holds no images"):
        from_folder(tmp_path)


def test_a_class_that_may_not_be_read_is_not_called_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_level(tmp_path)
    real = os.scandir

    def scandir(path: Path) -> Any:
        if Path(path).name == "dog":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(DataError, match=r"dog cannot be read \(Permission denied\)"):
        from_folder(tmp_path)


def test_linked_folders_count(tmp_path: Path) -> None:
    one_level(tmp_path / "data")
    paint(tmp_path / "elsewhere" / "9.png", 9)
    (tmp_path / "data" / "cat" / "more").symlink_to(tmp_path / "elsewhere")
    assert len(from_folder(tmp_path / "data", test_fraction=0).train) == 11


def test_a_folder_without_classes_is_refused(tmp_path: Path) -> None:
    paint(tmp_path / "a.png", 1)
    with pytest.raises(DataError, match="no class folders"):
        from_folder(tmp_path)


def test_a_class_with_one_image_is_refused(tmp_path: Path) -> None:
    one_level(tmp_path)
    paint(tmp_path / "emu" / "a.png", 1)
    with pytest.raises(DataError, match="class 'emu' has too few training samples"):
        from_folder(tmp_path)


def test_a_class_only_in_test_is_refused(tmp_path: Path) -> None:
    one_level(tmp_path / "train")
    paint(tmp_path / "test" / "emu" / "a.png", 1)
    with pytest.raises(DataError, match="unknown class 'emu'"):
        from_folder(tmp_path)


def test_a_size_that_cannot_work_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="size"):
        from_folder(one_level(tmp_path), size=0)


@pytest.mark.parametrize("lazy", [False, True])
def test_an_unreadable_image_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lazy: bool) -> None:
    one_level(tmp_path)
    (tmp_path / "dog" / "broken.png").write_bytes(b"\x89PNG nothing")
    if lazy:
        monkeypatch.setattr(folder, "IN_MEMORY_BYTES", 0)
    with pytest.raises(DataError, match=r"broken\.png cannot be read"):
        from_folder(tmp_path)


def test_an_image_found_damaged_while_training_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "IN_MEMORY_BYTES", 0)
    one_level(tmp_path)
    noise = np.random.RandomState(0).randint(0, 256, (64, 64, 3)).astype(np.uint8)
    broken = tmp_path / "dog" / "cut.png"
    Image.fromarray(noise).save(broken)
    broken.write_bytes(broken.read_bytes()[:3000])  # the head is whole, the body is not
    data = from_folder(tmp_path, test_fraction=0)
    loader = Loader(data.train, batch_size=4, device="cpu", shuffle=True)
    with pytest.raises(DataError, match=r"cut\.png cannot be read") as caught:
        list(loader.epoch(0))
    assert "\n" not in str(caught.value)
