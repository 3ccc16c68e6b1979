"""Samples in parquet files, read a piece at a time: columns of a table, lists of numbers, or encoded images."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from irene.data import Column
from irene.data.arrays import as_inputs
from irene.data.images import read_image
from irene.errors import DataError, MissingExtraError


def read_parquet(path: Path, about: dict[str, Any], *, batch_size: int) -> Iterator[Tensor]:
    """The rows of a parquet file as batches of raw inputs.

    A run that was trained on a table takes its columns by their names. Other runs take a column `x` with a list of a
    sample's numbers, nested or flat, or a column `image` with the bytes of an image file (or a struct that has them
    as `bytes`).
    """
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet") from None
    shape = tuple(about["shape"])
    columns = [Column.from_dict(column) for column in about.get("columns", [])]
    try:
        with parquet.ParquetFile(path) as file:
            wanted = _wanted(path, file.schema_arrow.names, columns, shape)
            start = 0
            for batch in file.iter_batches(batch_size=batch_size, columns=wanted):
                yield _inputs(path, start, batch, columns, shape)
                start += len(batch)
    except (ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path} cannot be read as a parquet file: {reason}") from None
    if not start:
        raise DataError(f"{path} holds no samples")


def _wanted(path: Path, names: Sequence[str], columns: Sequence[Column], shape: tuple[int, ...]) -> list[str]:
    if columns:
        missing = [column.name for column in columns if column.name not in names]
        if missing:
            raise DataError(f"{path} has no column {missing[0]!r}: the model was trained with it")
        return [column.name for column in columns]
    for name in ("x", "image") if len(shape) == 3 else ("x",):
        if name in names:
            return [name]
    also = " or image, of encoded images" if len(shape) == 3 else ""
    raise DataError(f"{path} has the columns {', '.join(names)}: expected x, of lists of numbers{also}")


def _inputs(path: Path, start: int, batch: Any, columns: Sequence[Column], shape: tuple[int, ...]) -> Tensor:
    if columns:
        blocks = [_block(path, start, batch.column(column.name).to_pylist(), column) for column in columns]
        return torch.from_numpy(np.concatenate(blocks, axis=1).astype(np.float32))
    (name,) = batch.schema.names
    cells = batch.column(name).to_pylist()
    empty = [row for row, cell in enumerate(cells) if cell is None]
    if empty:
        raise DataError(f"{path}, row {start + empty[0]}, column {name!r}: the value is missing; remove the row")
    if name == "image":
        return torch.stack([_image(path, start + row, cell, shape) for row, cell in enumerate(cells)])
    try:
        values = np.array(cells).reshape(len(cells), *shape)
    except ValueError:
        raise DataError(f"{path} has lists that are no samples of shape {shape}, which the run takes") from None
    whole = np.issubdtype(values.dtype, np.integer) and len(shape) == 3
    return as_inputs(values.astype(np.uint8) if whole else values)


def _block(path: Path, start: int, cells: list[Any], column: Column) -> Any:
    if column.categories is not None:
        texts = np.array([str(cell).strip() for cell in cells])
        return texts[:, None] == np.array(column.categories)[None, :]
    for row, cell in enumerate(cells):
        if not isinstance(cell, int | float) or not np.isfinite(cell):
            raise DataError(f"{path}, row {start + row}, column {column.name!r}: expected a number, got {cell!r}")
    return np.array(cells, dtype=np.float64)[:, None]


def _image(path: Path, row: int, cell: Any, shape: tuple[int, ...]) -> Tensor:
    content = cell.get("bytes") if isinstance(cell, dict) else cell
    if not isinstance(content, bytes):
        raise DataError(f"{path}, row {row}: column 'image' must hold the bytes of an image file")
    try:
        return read_image(io.BytesIO(content), shape)
    except DataError as error:
        raise DataError(f"{path}, row {row}: {error}") from None
