"""Data from a CSV file: numeric columns become features, text columns one feature per category."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from irene.data.arrays import aside_count, in_memory
from irene.data.cells import Cells, holds_text, is_missing, numbers, read_cells
from irene.data.samples import Column, Data, Samples
from irene.data.stratify import take_aside
from irene.data.targets import Array, encode_targets
from irene.errors import DataError, OptionError
from irene.types import Task

FEW_VALUES = 20  # whole numbers with no more distinct values than this are taken as classes
MOST_CATEGORIES = 1000


def from_csv(
    path: str | Path,
    *,
    target: str | None,
    task: Task | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
) -> Data:
    """Data from a comma-separated file; `target` names the column to predict.

    A target of text, or of whole numbers with 20 distinct values or fewer, means classification, any other
    regression, unless `task` says so. Categories of text columns are those of the training rows; a text seen
    only elsewhere becomes all zeros.
    """
    cells = read_cells(Path(path))
    if target is None or target not in cells.names:
        known = ", ".join(cells.names)
        asked = "no target column was named" if target is None else f"there is no column {target!r}"
        raise OptionError(f"{asked}: use --target with one of the columns of {cells.path}: {known}")
    names = [name for name in cells.names if name != target]
    if not names:
        raise DataError(f"{cells.path} has only the column {target!r}: expected columns to predict it from")
    raw, found = _target(cells, target, task)
    classes = None if found == "classification" else (target,)
    targets = encode_targets(raw, raw[:0], task=found, classes=classes)
    stay, aside = take_aside(targets.train, aside_count(len(raw), test_fraction), seed)
    columns = tuple(_column(cells, name, stay.tolist()) for name in names)
    everything = Samples(_encode(cells, columns), targets.train, torch.arange(len(raw)))
    return in_memory(
        name=f"csv:{cells.path.name}",
        task=targets.task,
        train=everything.subset(stay),
        test=everything.subset(aside),
        classes=targets.classes,
        columns=columns,
    )


def read_features(path: str | Path, columns: Sequence[Column]) -> Tensor:
    """(N, features) the rows of a CSV file, encoded as the training table was; other columns are ignored."""
    cells = read_cells(Path(path))
    missing = [column.name for column in columns if column.name not in cells.names]
    if missing:
        raise DataError(f"{cells.path} has no column {missing[0]!r}: the model was trained with it")
    return _encode(cells, columns)


def _target(cells: Cells, name: str, task: Task | None) -> tuple[Array, Task]:
    """The target column as text or numbers, and the task it means."""
    column = cells.column(name)
    for row, cell in enumerate(column):
        if is_missing(cell):
            raise DataError(f"{cells.place(row, name)}: the target is missing; fill it in or remove the row")
    if task != "regression" and holds_text(cells, name):
        return np.array(column), "classification"
    values = np.array(numbers(cells, name))
    whole = bool((values == np.round(values)).all())
    if task is None:
        task = "classification" if whole and len(np.unique(values)) <= FEW_VALUES else "regression"
    if task == "classification" and not whole:
        return np.array(column), task  # fractions asked for as classes are names
    return values, task


def _column(cells: Cells, name: str, train_rows: list[int]) -> Column:
    if not holds_text(cells, name):
        return Column(name)
    column = cells.column(name)
    categories = tuple(sorted({column[row] for row in train_rows}))
    if len(categories) > MOST_CATEGORIES:
        raise DataError(
            f"{cells.path}, column {name!r} has {len(categories)} different texts, at most {MOST_CATEGORIES} "
            "can be told apart: remove or group them"
        )
    return Column(name, categories)


def _encode(cells: Cells, columns: Sequence[Column]) -> Tensor:
    blocks = []
    for column in columns:
        if column.categories is None:
            blocks.append(np.array(numbers(cells, column.name))[:, None])
        else:
            texts = np.array(cells.column(column.name))
            blocks.append(texts[:, None] == np.array(column.categories)[None, :])
    return torch.from_numpy(np.concatenate(blocks, axis=1).astype(np.float32))
