"""From the files a user names to batches of raw inputs that a run takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from irene.cli.input_arrays import read_inputs
from irene.cli.input_parquet import read_parquet
from irene.data import Column
from irene.data.images import EXTENSIONS, find_images, is_image, read_image
from irene.data.like import Unseen
from irene.data.table import read_features
from irene.errors import DataError

_KINDS = "images, folders of images, .npz, .csv or .parquet files"


@dataclass(frozen=True, eq=False)
class Rows:
    """Some inputs, with the file and the row of it that each came from."""

    places: list[tuple[str, int]]
    inputs: Tensor


def shown(path: Path) -> str:
    """A file's name as text that every format can hold: bytes of it that are no UTF-8 are written as \\xff."""
    return str(path).encode(errors="surrogateescape").decode(errors="backslashreplace")


def find_files(paths: Sequence[Path], about: dict[str, Any]) -> list[Path]:
    """The files to read for the paths a user names, in that order: a folder stands for the images in it.

    All that can be told without reading them is checked: that they are there, and of a kind that the run takes.
    `about` is the record a run keeps of its training data: the shape of a sample, and a table's columns.
    """
    files: list[Path] = []
    for path in paths:
        found = _images_in(path) if path.is_dir() else [path]
        _check_kind(path, found[0], about)
        files += found
    return files


def read_rows(
    files: Sequence[Path], about: dict[str, Any], *, batch_size: int, skip: int = 0, warn: Callable[[str], None]
) -> Iterator[Rows]:
    """Batches of the samples in files that `find_files` found.

    The first `skip` batches are left out, images among them unread; the others are the same as without it. `warn` is
    told, once a column, of categories that were not seen in training.
    """
    for number, read in enumerate(_batches(files, about, batch_size, _once_a_column(warn))):
        if number >= skip:
            yield read()


def _images_in(folder: Path) -> list[Path]:
    images = find_images(folder)
    if not images:
        raise DataError(f"{folder} holds no images: expected some of {', '.join(sorted(EXTENSIONS))}")
    return images


def _check_kind(named: Path, file: Path, about: dict[str, Any]) -> None:
    """Refuse a file, or the folder it was found in, that cannot be read or that the run cannot take."""
    shape, kind = about["shape"], file.suffix.lower()
    if not file.is_file():
        raise DataError(f"{named} is not there: give {_KINDS}")
    if not os.access(file, os.R_OK):
        raise DataError(f"{file} cannot be read: change its permissions, or leave it out")
    if is_image(file) and len(shape) != 3:
        raise DataError(
            f"{named} holds images and the run takes rows of {shape[0]} features: give a table or an .npz file"
        )
    if kind == ".csv" and "columns" not in about:
        fitting = "images or .npz files" if len(shape) == 3 else "an .npz file with rows of features as its array x"
        raise DataError(f"{named} is a table, and the run has no names of columns to read it by: give {fitting}")
    if not is_image(file) and kind not in (".npz", ".csv", ".parquet"):
        raise DataError(f"{named} is not of a kind that can be read: give {_KINDS}")


def _once_a_column(warn: Callable[[str], None]) -> Unseen:
    told: set[str] = set()

    def unseen(column: str, words: str) -> None:
        if column not in told:
            told.add(column)
            warn(f"{words}; further ones in this column are not reported")

    return unseen


def _batches(
    files: Sequence[Path], about: dict[str, Any], batch_size: int, unseen: Unseen
) -> Iterator[Callable[[], Rows]]:
    """The batches as functions that read them; images that follow each other share batches."""
    shape = tuple(about["shape"])
    for images, group in groupby(files, key=is_image):
        if images:
            paths = list(group)
            for start in range(0, len(paths), batch_size):
                yield partial(_read_images, paths[start : start + batch_size], shape)
            continue
        for path in group:
            start = 0
            for inputs in _data(path, about, batch_size, unseen):
                places = [(shown(path), start + row) for row in range(len(inputs))]
                yield partial(Rows, places, inputs)
                start += len(inputs)


def _read_images(paths: list[Path], shape: tuple[int, ...]) -> Rows:
    return Rows([(shown(path), 0) for path in paths], torch.stack([read_image(path, shape) for path in paths]))


def _data(path: Path, about: dict[str, Any], batch_size: int, unseen: Unseen) -> Iterator[Tensor]:
    """The batches of a file that holds many samples."""
    kind, shape = path.suffix.lower(), tuple(about["shape"])
    columns = [Column.from_dict(column) for column in about.get("columns", [])]
    if kind == ".parquet":
        return read_parquet(path, shape, columns, batch_size=batch_size, unseen=unseen)
    inputs = read_features(path, columns, unseen=unseen) if kind == ".csv" else read_inputs(path, shape)
    return iter(inputs.split(batch_size))
