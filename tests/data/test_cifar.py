"""CIFAR in both published layouts, with few records, and every way its files can be wrong."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from irene.data import Augment, load, sources
from irene.data.cifar import CIFAR10, CIFAR100, Cifar, data_root, read_cifar
from irene.errors import DataError

SMALL10 = replace(CIFAR10, train_records=8, test_records=5)
SMALL100 = replace(CIFAR100, train_records=200, test_records=7)


def content(layout: Cifar) -> dict[str, tuple[np.ndarray, list[int]]]:
    """Pixels and classes of every file, every class at least twice in train."""
    random = np.random.RandomState(0)
    files, start = {}, 0
    for name in (*layout.train_files, layout.test_file):
        records = layout.test_records if name == layout.test_file else layout.train_records
        pixels = random.randint(0, 256, (records, 3072)).astype(np.uint8)
        files[name] = (pixels, [(start + i) % layout.class_count for i in range(records)])
        start += records
    return files


def class_names(layout: Cifar) -> list[str]:
    return [f"name{i}" for i in range(layout.class_count)]


def write_binary(layout: Cifar, root: Path) -> Path:
    folder = root / layout.binary_folder
    folder.mkdir()
    for name, (pixels, labels) in content(layout).items():
        head = np.zeros((len(pixels), layout.label_bytes), np.uint8)
        head[:, -1] = labels
        (folder / f"{name}.bin").write_bytes(np.concatenate([head, pixels], axis=1).tobytes())
    (folder / layout.binary_names).write_text("\n".join(class_names(layout)) + "\n\n")
    return folder


def write_python(layout: Cifar, root: Path) -> Path:
    folder = root / layout.python_folder
    folder.mkdir()
    for name, (pixels, labels) in content(layout).items():
        batch = {b"data": pixels, layout.label_key: labels, b"filenames": [b"x.png"] * len(labels)}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=3))
    names = {layout.python_names[1]: [name.encode() for name in class_names(layout)]}
    (folder / layout.python_names[0]).write_bytes(pickle.dumps(names, protocol=3))
    return folder


@pytest.mark.parametrize("layout", [SMALL10, SMALL100], ids=lambda layout: layout.name)
def test_both_layouts_hold_the_same_data(layout: Cifar, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "p").mkdir()
    write_binary(layout, tmp_path / "b")
    write_python(layout, tmp_path / "p")
    binary, python = read_cifar(layout, tmp_path / "b"), read_cifar(layout, tmp_path / "p")
    files = content(layout)
    pixels = np.concatenate([files[name][0] for name in layout.train_files]).reshape(-1, 3, 32, 32)
    assert binary.train.inputs is not None
    assert binary.train.inputs.dtype == torch.uint8
    assert np.array_equal(binary.train.inputs.numpy(), pixels)
    assert binary.train.targets.tolist() == [label for name in layout.train_files for label in files[name][1]]
    assert binary.test.targets.tolist() == files[layout.test_file][1]
    assert binary.test.ids.tolist() == list(range(len(pixels), len(pixels) + layout.test_records))
    assert binary.classes == tuple(class_names(layout))
    assert binary.augment == Augment(crop=4, flip=True)
    assert binary.name == layout.name
    assert binary.fingerprint == python.fingerprint


def test_published_counts_and_names() -> None:
    assert CIFAR10.train_records * len(CIFAR10.train_files) == 50_000
    assert CIFAR100.train_records * len(CIFAR100.train_files) == 50_000


def test_load_finds_the_root_by_argument_environment_or_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "CIFAR10", SMALL10)
    write_binary(SMALL10, tmp_path)
    assert len(load("cifar10", root=tmp_path).train) == 40
    monkeypatch.setenv("IRENE_DATA", str(tmp_path))
    assert len(load("cifar10").test) == 5
    monkeypatch.delenv("IRENE_DATA")
    assert data_root(None) == Path("data")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="cifar100 was not found: expected cifar-100-binary or"):
        load("cifar100")


@pytest.mark.parametrize("change", [-1, -3073, 1])
def test_a_binary_file_of_another_size_is_named(tmp_path: Path, change: int) -> None:
    path = write_binary(SMALL10, tmp_path) / "data_batch_3.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:change] if change < 0 else whole + b"\0")
    message = rf"data_batch_3\.bin is damaged: expected {8 * 3073} bytes, found {8 * 3073 + change}"
    with pytest.raises(DataError, match=message):
        read_cifar(SMALL10, tmp_path)


@pytest.mark.parametrize(
    ("keep", "message"), [(1000, f"expected at least {8 * 3072} bytes, found 1000"), (-4, "refused")]
)
def test_a_truncated_python_file_is_named(tmp_path: Path, keep: int, message: str) -> None:
    path = write_python(SMALL10, tmp_path) / "data_batch_2"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=f"data_batch_2.*{message}"):
        read_cifar(SMALL10, tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (write_binary(SMALL10, tmp_path) / "test_batch.bin").unlink()
    with pytest.raises(DataError, match=r"test_batch\.bin is missing"):
        read_cifar(SMALL10, tmp_path)


def test_without_the_file_of_names_classes_are_numbers(tmp_path: Path) -> None:
    (write_binary(SMALL10, tmp_path) / "batches.meta.txt").unlink()
    assert read_cifar(SMALL10, tmp_path).classes == tuple("0123456789")


def test_a_class_out_of_range_is_named(tmp_path: Path) -> None:
    path = write_binary(SMALL10, tmp_path) / "data_batch_1.bin"
    content = bytearray(path.read_bytes())
    content[2 * 3073] = 10
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"data_batch_1\.bin is damaged: record 2 has class 10, expected 0 to 9"):
        read_cifar(SMALL10, tmp_path)


def test_too_few_class_names_are_refused(tmp_path: Path) -> None:
    (write_binary(SMALL10, tmp_path) / "batches.meta.txt").write_text("cat\ndog\n")
    with pytest.raises(DataError, match="must name 10 classes, got 2"):
        read_cifar(SMALL10, tmp_path)


class Bomb:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


def test_a_pickle_bomb_is_refused_and_does_not_run(tmp_path: Path) -> None:
    path = write_python(SMALL10, tmp_path) / "data_batch_1"
    bomb = {b"data": Bomb(tmp_path / "ran"), b"padding": b"\0" * 30_000}
    path.write_bytes(pickle.dumps(bomb, protocol=3))
    with pytest.raises(DataError, match=r"data_batch_1 .* was refused: it asks for .*system"):
        read_cifar(SMALL10, tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([1] * 40_000, "must hold a dictionary, got list"),
        ({b"data": np.zeros((8, 3072), np.int16)}, "must hold uint8 pixels"),
        ({b"data": np.zeros((9, 3072), np.uint8), b"labels": [0] * 9}, "must hold uint8 pixels"),
        ({b"data": np.zeros((8, 3072), np.uint8), b"labels": [0] * 7}, "list of 8 class numbers"),
        ({b"data": np.zeros((8, 3072), np.uint8), b"labels": ["a"] * 8}, "list of 8 class numbers"),
        ({b"data": np.zeros((8, 3072), np.uint8), b"labels": [-1] * 8}, "record 0 has class -1"),
    ],
)
def test_python_files_with_other_content_are_refused(tmp_path: Path, batch: object, message: str) -> None:
    path = write_python(SMALL10, tmp_path) / "data_batch_1"
    path.write_bytes(pickle.dumps(batch, protocol=3))
    with pytest.raises(DataError, match=message):
        read_cifar(SMALL10, tmp_path)
