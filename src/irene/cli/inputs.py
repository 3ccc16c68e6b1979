"""From the files a user names to batches of raw inputs that a run takes."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from irene.data import Column
from irene.data.arrays import as_inputs
from irene.data.images import EXTENSIONS, read_image
from irene.data.table import read_features
from irene.errors import DataError


@dataclass(frozen=True, eq=False)
class Rows:
    """Some inputs, with the file and the row of it that each came from."""

    places: list[tuple[str, int]]
    inputs: Tensor


def read_rows(paths: Sequence[Path], about: dict[str, Any], *, batch_size: int) -> Iterator[Rows]:
    """Batches of the samples in images, folders of images, .npz and .csv files, in the order they were named.

    `about` is the record a run keeps of its training data: the shape of a sample, and a table's columns.
    """
    shape = tuple(about["shape"])
    images: list[Path] = []
    for path in paths:
        found = _images(path)
        if found:
            if len(shape) != 3:
                raise DataError(
                    f"{path} holds images and the run takes rows of {shape[0]} features: give a .csv or .npz"
                )
            images += found
            continue
        yield from _image_batches(images, shape, batch_size)
        images = []
        inputs = _table(path, about) if path.suffix.lower() == ".csv" else _arrays(path, shape)
        for start in range(0, len(inputs), batch_size):
            part = inputs[start : start + batch_size]
            yield Rows([(str(path), start + row) for row in range(len(part))], part)
    yield from _image_batches(images, shape, batch_size)


def _images(path: Path) -> list[Path]:
    """The image files a path stands for; none for a .csv or .npz file."""
    if path.is_dir():
        files = [file for file in path.rglob("*") if file.suffix.lower() in EXTENSIONS and file.is_file()]
        if not files:
            raise DataError(f"{path} holds no images: expected some of {', '.join(sorted(EXTENSIONS))}")
        return sorted(files)
    if not path.is_file():
        raise DataError(f"{path} is not there: give images, folders of images, .npz or .csv files")
    kind = path.suffix.lower()
    if kind in EXTENSIONS:
        return [path]
    if kind not in (".npz", ".csv"):
        raise DataError(f"{path} is of no kind that can be read: give images, folders of images, .npz or .csv files")
    return []


def _image_batches(paths: list[Path], shape: tuple[int, ...], batch_size: int) -> Iterator[Rows]:
    for start in range(0, len(paths), batch_size):
        part = paths[start : start + batch_size]
        yield Rows([(str(path), 0) for path in part], torch.stack([read_image(path, shape) for path in part]))


def _table(path: Path, about: dict[str, Any]) -> Tensor:
    if "columns" not in about:
        raise DataError(f"{path} is a table and the run was not trained on one: give images or .npz files")
    return read_features(path, [Column.from_dict(column) for column in about["columns"]])


def _arrays(path: Path, shape: tuple[int, ...]) -> Tensor:
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not a .npz file, or it is cut short: write it with numpy.savez(path, x=inputs)")
    try:
        with np.load(path, allow_pickle=False) as archive:
            inputs = as_inputs(archive["x"])
    except KeyError:
        raise DataError(f"{path} has no array x: write the inputs with numpy.savez(path, x=inputs)") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} cannot be read as a .npz file: {error}") from None
    if not len(inputs):
        raise DataError(f"{path} holds no samples: its array x is empty")
    if tuple(inputs.shape[1:]) != shape:
        raise DataError(f"{path} has samples of shape {tuple(inputs.shape[1:])}, the run takes {shape}")
    return inputs
