"""From the files a user names to batches of raw inputs that a run takes."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from irene.cli.predict_parquet import read_parquet
from irene.data import Column
from irene.data.arrays import as_inputs
from irene.data.images import EXTENSIONS, read_image
from irene.data.table import read_features
from irene.errors import DataError

_KINDS = "images, folders of images, .npz, .csv or .parquet files"


@dataclass(frozen=True, eq=False)
class Rows:
    """Some inputs, with the file and the row of it that each came from."""

    places: list[tuple[str, int]]
    inputs: Tensor


def read_rows(paths: Sequence[Path], about: dict[str, Any], *, batch_size: int, skip: int = 0) -> Iterator[Rows]:
    """Batches of the samples in images, folders of images and files of data, in the order they were named.

    `about` is the record a run keeps of its training data: the shape of a sample, and a table's columns. The first
    `skip` batches are left out, images among them unread; the others are the same as without it.
    """
    for number, read in enumerate(_batches(paths, about, batch_size)):
        if number >= skip:
            yield read()


def _batches(paths: Sequence[Path], about: dict[str, Any], batch_size: int) -> Iterator[Callable[[], Rows]]:
    """The batches as functions that read them."""
    shape = tuple(about["shape"])
    images: list[Path] = []
    for path in paths:
        found = _images(path)
        if found:
            if len(shape) != 3:
                raise DataError(
                    f"{path} holds images and the run takes rows of {shape[0]} features: give a table or an .npz file"
                )
            images += found
            continue
        yield from _image_batches(images, shape, batch_size)
        images = []
        start = 0
        for inputs in _data(path, about, shape, batch_size):
            places = [(str(path), start + row) for row in range(len(inputs))]
            yield partial(Rows, places, inputs)
            start += len(inputs)
    yield from _image_batches(images, shape, batch_size)


def _images(path: Path) -> list[Path]:
    """The image files a path stands for; none for a file of data."""
    if path.is_dir():
        files = [file for file in path.rglob("*") if file.suffix.lower() in EXTENSIONS and file.is_file()]
        if not files:
            raise DataError(f"{path} holds no images: expected some of {', '.join(sorted(EXTENSIONS))}")
        return sorted(files)
    if not path.is_file():
        raise DataError(f"{path} is not there: give {_KINDS}")
    kind = path.suffix.lower()
    if kind in EXTENSIONS:
        return [path]
    if kind not in (".npz", ".csv", ".parquet"):
        raise DataError(f"{path} is of no kind that can be read: give {_KINDS}")
    return []


def _image_batches(paths: list[Path], shape: tuple[int, ...], batch_size: int) -> Iterator[Callable[[], Rows]]:
    for start in range(0, len(paths), batch_size):
        yield partial(_read_images, paths[start : start + batch_size], shape)


def _read_images(paths: list[Path], shape: tuple[int, ...]) -> Rows:
    return Rows([(str(path), 0) for path in paths], torch.stack([read_image(path, shape) for path in paths]))


def _data(path: Path, about: dict[str, Any], shape: tuple[int, ...], batch_size: int) -> Iterator[Tensor]:
    if path.suffix.lower() == ".parquet":
        return read_parquet(path, about, batch_size=batch_size)
    inputs = _table(path, about) if path.suffix.lower() == ".csv" else _arrays(path, shape)
    return iter(inputs.split(batch_size))


def _table(path: Path, about: dict[str, Any]) -> Tensor:
    if "columns" not in about:
        fitting = (
            "images or .npz files" if len(about["shape"]) == 3 else "an .npz file with rows of features as its array x"
        )
        raise DataError(f"{path} is a table, and the run has no names of columns to read it by: give {fitting}")
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
