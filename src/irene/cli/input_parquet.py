"""Samples in parquet files, read a piece at a time: columns of a table, lists of numbers, or encoded images."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from irene.cli.input_arrays import as_samples
from irene.data import Column
from irene.data.cells import Cells, check_names
from irene.data.images import read_image
from irene.data.like import Unseen
from irene.data.table import encode
from irene.errors import DataError, first_line, import_extra


def read_parquet(
    path: Path, shape: tuple[int, ...], columns: Sequence[Column], *, batch_size: int, unseen: Unseen
) -> Iterator[Tensor]:
    """The rows of a parquet file as batches of raw inputs.

    A run that was trained on a table takes its columns by their names. Other runs take a column `x` with a list of a
    sample's numbers, nested or flat, or a column `image` with the bytes of an image file (or a struct that has them
    as `bytes`).
    """
    import_extra("pyarrow", "parquet")
    from pyarrow import ArrowException, parquet

    try:
        # Opened here, as pyarrow takes no names that are not UTF-8.
        with path.open("rb") as content, parquet.ParquetFile(content) as file:
            wanted = _wanted(path, file.schema_arrow.names, columns, shape)
            before = 0
            for batch in file.iter_batches(batch_size=batch_size, columns=wanted):
                if columns:
                    yield encode(_cells(path, batch, before), columns, unseen=unseen)
                else:
                    yield _inputs(path, batch, before, shape)
                before += len(batch)
    except (ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as a parquet file: {first_line(error)}") from None
    if not before:
        raise DataError(f"{path} holds no samples")


def _wanted(path: Path, names: Sequence[str], columns: Sequence[Column], shape: tuple[int, ...]) -> list[str]:
    check_names(path, names)
    if columns:
        return [column.name for column in columns if column.name in names]
    for name in ("x", "image") if len(shape) == 3 else ("x",):
        if name in names:
            return [name]
    also = " or image, of encoded images" if len(shape) == 3 else ""
    raise DataError(f"{path} has the columns {', '.join(names)}: expected x, of lists of numbers{also}")


def _cells(path: Path, batch: Any, before: int) -> Cells:
    """Rows of a table as a CSV file would hold them, so that both are read by the same rules."""
    names = tuple(batch.schema.names)
    texts = [_texts(path, name, batch.column(name).to_pylist(), before) for name in names]
    return Cells(path, names, list(zip(*texts, strict=True)), before=before)


def _texts(path: Path, name: str, cells: list[Any], before: int) -> list[str]:
    try:
        return [_text(cell) for cell in cells]
    except UnicodeDecodeError as error:
        row = before + cells.index(error.object) + 1
        raise DataError(
            f"{path}, row {row}, column {name!r}: the bytes {error.object[:20]!r} are not UTF-8 text; write it as text"
        ) from None


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return (cell.decode() if isinstance(cell, bytes) else str(cell)).strip()


def _inputs(path: Path, batch: Any, before: int, shape: tuple[int, ...]) -> Tensor:
    (name,) = batch.schema.names
    cells = batch.column(name).to_pylist()
    for row, cell in enumerate(cells, before + 1):
        if _is_missing(cell):
            raise DataError(f"{path}, row {row}, column {name!r}: the value is missing; fill it in or remove the row")
    if name == "image":
        return torch.stack([_image(path, row, cell, shape) for row, cell in enumerate(cells, before + 1)])
    try:
        values = np.array(cells)
        if values.ndim != 1 + len(shape):
            values = values.reshape(len(cells), *shape)
    except ValueError:
        raise DataError(f"{path} has lists that are not samples of shape {shape}, which the run takes") from None
    return as_samples(path, values, shape, first=before + 1)


def _is_missing(cell: Any) -> bool:
    """Whether there is no value, or none in some place of a list, nested or flat."""
    if not isinstance(cell, list):
        return cell is None
    return None in cell or (bool(cell) and isinstance(cell[0], list) and any(map(_is_missing, cell)))


def _image(path: Path, row: int, cell: Any, shape: tuple[int, ...]) -> Tensor:
    content = cell.get("bytes") if isinstance(cell, dict) else cell
    if not isinstance(content, bytes):
        raise DataError(f"{path}, row {row}: column 'image' must hold the bytes of an image file")
    try:
        return read_image(io.BytesIO(content), shape)
    except DataError as error:
        raise DataError(f"{path}, row {row}: {error}") from None
