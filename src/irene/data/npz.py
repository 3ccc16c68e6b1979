"""Data from a numpy .npz file: arrays x and y, or x_train, y_train, x_test and y_test."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from irene.data.arrays import from_arrays
from irene.data.like import Like
from irene.data.samples import Data
from irene.data.targets import Array
from irene.errors import DataError, first_line
from irene.types import Task


def from_npz(path: str | Path, *, task: Task | None = None, seed: int = 0, like: Like | None = None) -> Data:
    """Data from the arrays of a .npz file; an array `classes` may name the classes."""
    path = Path(path)
    arrays = read_npz(path)
    apart = "x_train" in arrays
    x, y = ("x_train", "y_train") if apart else ("x", "y")
    missing = [key for key in (x, y) if key not in arrays]
    if missing:
        raise DataError(
            f"{path} has no array {' and no array '.join(missing)}: expected x and y, or x_train, y_train, "
            f"x_test and y_test, found {', '.join(sorted(arrays)) or 'none'}"
        )
    names = arrays.get("classes")
    return from_arrays(
        arrays[x],
        arrays[y],
        x_test=arrays.get("x_test"),
        y_test=arrays.get("y_test"),
        task=task,
        name=f"npz:{path.name}",
        classes=None if names is None else [str(name) for name in names],
        seed=seed,
        like=like,
    )


def read_npz(path: Path, *, only: str | None = None) -> dict[str, Array]:
    """The arrays of a .npz file by their names; with `only`, no other is read, and it may not be there."""
    if not path.is_file():
        raise DataError(f"{path} is not a file: expected a .npz file")
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not a .npz file, or it is cut short: write it with numpy.savez")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if only in (None, name)}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{path} cannot be read as a .npz file: {first_line(error)}; write it with numpy.savez, and names as "
            "text and not as objects, by .astype(str)"
        ) from error
