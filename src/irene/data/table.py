"""Data from a CSV file: numeric columns become features, text columns one feature per category."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from irene.data.arrays import aside_count, in_memory
from irene.data.cells import Cells, holds_text, is_missing, meaning, numbers, read_cells
from irene.data.like import Like, Unseen
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
    like: Like | None = None,
) -> Data:
    """Data from a comma-separated file; `target` names the column to predict.

    A target of text, or of whole numbers with 20 distinct values or fewer, means classification, any other
    regression, unless `task` says so. Categories of text columns are those of the training rows; a text seen
    only elsewhere becomes all zeros, unless it is one of them in another spelling, such as True for true. The task
    and the categories of a model that is there already are given by `like`, and the target where none is named.
    """
    cells = read_cells(Path(path))
    if len(cells.names) < 2:
        raise DataError(
            f"{cells.path} has only the column {cells.names[0]!r}: expected several with commas between, the target "
            "and what to predict it from"
        )
    target = target or (like.target if like else None)
    if target is None or target not in cells.names:
        known = ", ".join(cells.names)
        asked = "no target column was named" if target is None else f"there is no column {target!r}"
        raise OptionError(f"{asked}: use --target with one of the columns of {cells.path}: {known}")
    names = [name for name in cells.names if name != target]
    raw, found = _target(cells, target, task or (like.task if like else None))
    classes = None if found == "classification" else (target,)
    targets = encode_targets(raw, raw[:0], task=found, classes=classes, learnt=like is None)
    stay, aside = take_aside(targets.train, aside_count(len(raw), test_fraction), seed, fewer=like is not None)
    columns = like.columns if like else ()
    columns = columns or tuple(_column(cells, name, stay.tolist()) for name in names)
    inputs = encode(cells, columns, unseen=like.unseen if like else None)
    everything = Samples(inputs, targets.train, torch.arange(len(raw)))
    return in_memory(
        name=f"csv:{cells.path.name}",
        task=targets.task,
        train=everything.subset(stay),
        test=everything.subset(aside),
        classes=targets.classes,
        columns=columns,
        target=target,
    )


def read_features(path: str | Path, columns: Sequence[Column], *, unseen: Unseen | None = None) -> Tensor:
    """(N, features) the rows of a CSV file, encoded as the training table was; other columns are ignored."""
    return encode(read_cells(Path(path)), columns, unseen=unseen)


def encode(cells: Cells, columns: Sequence[Column], *, unseen: Unseen | None = None) -> Tensor:
    """(N, features) the rows of a table by the columns of training."""
    missing = [column.name for column in columns if column.name not in cells.names]
    if missing:
        found = ", ".join(map(repr, cells.names))
        raise DataError(
            f"{cells.path} has no column {missing[0]!r}, with which the model was trained: it has {found}; the first "
            "line must name the columns of training, separated by commas"
        )
    blocks = []
    for column in columns:
        if column.categories is None:
            blocks.append(np.array(numbers(cells, column.name))[:, None])
        else:
            blocks.append(_one_hot(cells, column.name, column.categories, unseen))
    return torch.from_numpy(np.concatenate(blocks, axis=1).astype(np.float32))


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


def _one_hot(cells: Cells, name: str, categories: Sequence[str], unseen: Unseen | None) -> Array:
    """(N, categories) which category each row holds: the one written so, else the first that means the same."""
    written = {category: position for position, category in enumerate(categories)}
    meant = {meaning(category): position for category, position in reversed(written.items())}
    texts = cells.column(name)
    found = np.array([written[text] if text in written else meant.get(meaning(text), -1) for text in texts])
    if unseen is not None and (found < 0).any():
        row = int((found < 0).argmax())
        unseen(name, f"{cells.place(row, name)}: {texts[row]!r} was not seen in training and counts as no category")
    block: Array = found[:, None] == np.arange(len(categories))
    return block
