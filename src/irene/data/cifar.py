"""CIFAR-10 and CIFAR-100 in the layouts their authors publish: binary, and Python pickles read safely."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from irene.data.arrays import from_arrays
from irene.data.samples import Augment, Data
from irene.data.targets import Array
from irene.data.unpickle import read_arrays
from irene.errors import DataError

_PIXELS = 3 * 32 * 32
_AGAIN = "unpack the archive again"


@dataclass(frozen=True)
class Cifar:
    """Where the published files of a CIFAR set are and how many records each holds."""

    name: str
    archive: str
    binary_folder: str
    python_folder: str
    train_files: tuple[str, ...]
    test_file: str
    train_records: int
    """Records in each training file."""
    test_records: int
    label_bytes: int
    """Bytes before the pixels of a binary record; the last of them is the class."""
    label_key: bytes
    class_count: int
    binary_names: str
    python_names: tuple[str, bytes]


CIFAR10 = Cifar(
    name="cifar10",
    archive="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    binary_folder="cifar-10-batches-bin",
    python_folder="cifar-10-batches-py",
    train_files=tuple(f"data_batch_{i}" for i in range(1, 6)),
    test_file="test_batch",
    train_records=10_000,
    test_records=10_000,
    label_bytes=1,
    label_key=b"labels",
    class_count=10,
    binary_names="batches.meta.txt",
    python_names=("batches.meta", b"label_names"),
)
CIFAR100 = Cifar(
    name="cifar100",
    archive="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    binary_folder="cifar-100-binary",
    python_folder="cifar-100-python",
    train_files=("train",),
    test_file="test",
    train_records=50_000,
    test_records=10_000,
    label_bytes=2,
    label_key=b"fine_labels",
    class_count=100,
    binary_names="fine_label_names.txt",
    python_names=("meta", b"fine_label_names"),
)


def data_root(root: str | Path | None) -> Path:
    """Where data sets lie: the folder given, else the environment's IRENE_DATA, else ./data."""
    return Path(root if root is not None else os.environ.get("IRENE_DATA") or "data")


def read_cifar(layout: Cifar, root: str | Path | None = None) -> Data:
    """A CIFAR set from its binary folder, or else its python folder, below `root`."""
    root = data_root(root)
    binary, python = root / layout.binary_folder, root / layout.python_folder
    folder = binary if binary.is_dir() else python
    if not folder.is_dir():
        raise DataError(
            f"{layout.name} was not found: expected {layout.binary_folder} or {layout.python_folder} in "
            f"{root}; unpack {layout.archive} there, or name the folder that holds it by --root or IRENE_DATA"
        )
    read = _read_binary if folder == binary else _read_python
    parts = [read(layout, folder, name, layout.train_records) for name in layout.train_files]
    images = np.concatenate([part[0] for part in parts])
    labels = np.concatenate([part[1] for part in parts])
    test_images, test_labels = read(layout, folder, layout.test_file, layout.test_records)
    return from_arrays(
        images,
        labels,
        x_test=test_images,
        y_test=test_labels,
        name=layout.name,
        classes=_class_names(layout, folder),
        augment=Augment(crop=4, flip=True),
    )


def _read_binary(layout: Cifar, folder: Path, name: str, records: int) -> tuple[Array, Array]:
    path = folder / f"{name}.bin"
    width = layout.label_bytes + _PIXELS
    _check_size(path, records * width, exact=True)
    rows = np.fromfile(path, dtype=np.uint8).reshape(records, width)
    labels = rows[:, layout.label_bytes - 1].astype(np.int64)
    _check_labels(layout, path, labels)
    return rows[:, layout.label_bytes :].reshape(records, 3, 32, 32), labels


def _read_python(layout: Cifar, folder: Path, name: str, records: int) -> tuple[Array, Array]:
    path = folder / name
    _check_size(path, records * _PIXELS, exact=False)
    batch = _unpickle(path)
    images, numbers = batch.get(b"data"), batch.get(layout.label_key)
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape != (records, _PIXELS):
        raise DataError(f"{path} must hold uint8 pixels of shape ({records}, {_PIXELS}): {_AGAIN}")
    if (
        not isinstance(numbers, list)
        or len(numbers) != records
        or not all(isinstance(number, int) for number in numbers)
    ):
        raise DataError(f"{path} must hold a list of {records} class numbers: {_AGAIN}")
    labels = np.array(numbers)
    _check_labels(layout, path, labels)
    return images.reshape(records, 3, 32, 32), labels


def _unpickle(path: Path) -> dict[Any, Any]:
    try:
        with path.open("rb") as file:
            content = read_arrays(file)
    except DataError as error:
        size = path.stat().st_size
        raise DataError(f"{path} ({size} bytes) was refused: {error}: {_AGAIN}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} must hold a dictionary, got {type(content).__name__}: {_AGAIN}")
    return content


def _check_size(path: Path, expected: int, *, exact: bool) -> None:
    if not path.is_file():
        raise DataError(f"{path} is missing: {_AGAIN}")
    found = path.stat().st_size
    if found < expected or (exact and found != expected):
        least = "" if exact else "at least "
        raise DataError(f"{path} is damaged: expected {least}{expected} bytes, found {found}: {_AGAIN}")


def _check_labels(layout: Cifar, path: Path, labels: Array) -> None:
    wrong = np.flatnonzero((labels < 0) | (labels >= layout.class_count))
    if len(wrong):
        raise DataError(
            f"{path} is damaged: record {wrong[0]} has class {labels[wrong[0]]}, expected 0 to "
            f"{layout.class_count - 1}: {_AGAIN}"
        )


def _class_names(layout: Cifar, folder: Path) -> tuple[str, ...]:
    """Class names from the file beside the records; their numbers where that file is not there."""
    binary = folder.name == layout.binary_folder
    path = folder / (layout.binary_names if binary else layout.python_names[0])
    if not path.exists():
        return tuple(map(str, range(layout.class_count)))
    if binary:
        names = tuple(path.read_text(encoding="utf-8", errors="replace").split())
    else:
        raw = _unpickle(path).get(layout.python_names[1])
        listed = raw if isinstance(raw, list) else []
        names = tuple(n.decode("utf-8", "replace") if isinstance(n, bytes) else str(n) for n in listed)
    if len(names) != layout.class_count:
        raise DataError(f"{path} must name {layout.class_count} classes, got {len(names)}: {_AGAIN}")
    return names
