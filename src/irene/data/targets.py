"""Targets as they come (names, numbers, one column or several) turned into class indices or values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irene.errors import DataError, some_of
from irene.types import Task, check_task_name

Array = NDArray[Any]
_COARSE = 0.3  # of the spread of values: rounding to smaller steps adds less than a hundredth to their variance
_EXACT = 2**53  # up to here float64 has every whole number


@dataclass(frozen=True)
class Targets:
    """Targets of train and test, ready for training, with the names of the classes or values."""

    task: Task
    train: Tensor
    test: Tensor
    classes: tuple[str, ...]


def as_array(values: Any) -> Array:
    """Targets or inputs from a tensor, an array or nested lists."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def encode_targets(
    train: Array,
    test: Array,
    *,
    task: Task | None = None,
    classes: Sequence[str] | None = None,
    learnt: bool = True,
) -> Targets:
    """Train and test targets for the task: unless it is given, fractions mean regression and all else classification.

    Classes are to be learnt, which takes two samples of each, unless `learnt` says that they are known already.
    """
    if task is not None:
        check_task_name(task)
    names = list(classes or ())
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise DataError(f"every class or value needs a name of its own, and {twice!r} occurs twice: rename one of them")
    if task is None and is_one_hot(train):
        raise DataError(
            f"the targets look like one-hot classes, shape {train.shape}: turn them into class indices, such as "
            "argmax(1), or use task regression for values that only look so"
        )
    if task == "regression" or (task is None and train.dtype.kind == "f"):
        return _values(train, test, classes)
    return _classes(_one_column(train), _one_column(test), classes, learnt)


def is_one_hot(targets: Tensor | Array) -> bool:
    """Whether every row has a single 1, for its class, and zeros: such rows are hardly values to predict."""
    if targets.ndim != 2 or targets.shape[0] == 0 or targets.shape[1] < 2:
        return False
    return bool(((targets == 0) | (targets == 1)).all()) and bool(((targets == 1).sum(1) == 1).all())


def _values(train: Array, test: Array, names: Sequence[str] | None) -> Targets:
    for part in (train, test):
        if part.dtype.kind not in "fiub":
            raise DataError(f"regression needs numbers as targets, got {part.dtype}: did you mean classification?")
    if words := too_coarse(train):
        raise DataError(words)
    with np.errstate(over="ignore"):  # what does not fit becomes infinite and is refused below
        parts = [_two_columns(part.astype(np.float32)) for part in (train, test)]
    for part in parts:
        if not np.isfinite(part).all():
            row = int(np.argwhere(~np.isfinite(part))[0][0])
            raise DataError(f"the target of sample {row} is not a finite number: correct or remove the sample")
    width = parts[0].shape[1]
    names = tuple(names) if names else ("target",) if width == 1 else tuple(f"target{i}" for i in range(width))
    if not width == parts[1].shape[1] == len(names):
        raise DataError(
            f"regression needs as many test values and names as train values: got {width} train values, "
            f"{parts[1].shape[1]} test values and {len(names)} names per sample"
        )
    return Targets("regression", torch.from_numpy(parts[0]), torch.from_numpy(parts[1]), names)


def _classes(train: Array, test: Array, names: Sequence[str] | None, learnt: bool) -> Targets:
    train, test = _labels(train), _labels(test)
    if names and train.dtype.kind != "U":
        known: Array = np.arange(len(names))  # whole numbers are indices into the given names
    else:
        seen = train if learnt or train.dtype.kind != test.dtype.kind else np.concatenate([train, test])
        known = np.array(sorted(names)) if names else np.unique(seen)
    parts = [_index(part, known, where) for part, where in ((train, "train"), (test, "test"))]
    if names and train.dtype.kind == "U":
        place = np.array([list(names).index(str(name)) for name in known])
        parts = [place[part] for part in parts]
    classes = tuple(names) if names else tuple(str(value) for value in known)
    if learnt:
        check_classes(parts[0], classes)
    return Targets("classification", torch.from_numpy(parts[0]), torch.from_numpy(parts[1]), classes)


def check_classes(train: Array, classes: Sequence[str]) -> None:
    """Refuse data that no classifier can be trained and checked on."""
    if len(classes) < 2:
        raise DataError(f"classification needs 2 or more classes, got {len(classes)}: {', '.join(classes)}")
    for name, count in zip(classes, np.bincount(train, minlength=len(classes)), strict=True):
        if count < 2:
            raise DataError(
                f"class {name!r} has too few training samples, expected 2 or more, got {count}: add "
                "samples or leave the class out (to predict numbers as values, use task regression)"
            )


def _labels(values: Array) -> Array:
    """Class labels as whole numbers or text."""
    if values.dtype.kind == "b":
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        if not (np.isfinite(values) & (values == np.round(values))).all():
            raise DataError("classification needs whole numbers or names as targets, got fractions or NaN")
        _check_distinct(values, _EXACT)
        return values.astype(np.int64)
    if values.dtype.kind in "iu":
        _check_distinct(values, np.iinfo(np.int64).max)
        return values.astype(np.int64)
    if values.dtype.kind == "U" or all(isinstance(value, str) for value in values):
        return values.astype(np.str_)
    raise DataError(f"classification needs whole numbers or names as targets, got {values.dtype}")


def _check_distinct(values: Array, most: int) -> None:
    """Refuse numbers that would become others."""
    large = values[np.abs(values) > most] if values.dtype.kind == "f" else values[values > most]
    if len(large):
        raise DataError(
            f"classes that are numbers go up to {most}, got {large[0]:.20g}: give numbers that large as names, such as "
            "text with a letter in it"
        )


def _index(labels: Array, known: Array, where: str) -> Array:
    if len(labels) and labels.dtype.kind != known.dtype.kind:
        raise DataError(f"train and {where} targets must both be numbers or both be names")
    index = np.searchsorted(known, labels).clip(max=len(known) - 1).astype(np.int64)
    unknown = np.flatnonzero(known[index] != labels) if len(labels) else labels
    if len(unknown):
        row = int(unknown[0])
        raise DataError(
            f"{where} sample {row} has the unknown class {str(labels[row])!r}: expected one of "
            f"{some_of([str(value) for value in known])}"
        )
    return index


def _one_column(targets: Array) -> Array:
    if targets.ndim == 2 and targets.shape[1] == 1:
        return targets[:, 0]
    if targets.ndim != 1:
        raise DataError(
            f"classification needs one class per sample, shape (N,), got {targets.shape}: "
            "turn one-hot targets into class indices, or use task regression"
        )
    return targets


def too_coarse(values: Tensor | Array) -> str:
    """What is wrong with values whose differences float32, in which all answers are kept, cannot tell; else nothing."""
    known = as_array(values).astype(np.float64)
    if len(known) < 2 or not np.isfinite(known).all():
        return ""
    columns = known.reshape(len(known), -1)
    with np.errstate(over="ignore"):  # values too large for float32 are refused elsewhere
        spread, largest = columns.std(0), np.abs(columns).max(0)
    step = np.finfo(np.float32).eps * largest
    coarse = np.flatnonzero((spread > 0) & (step > _COARSE * spread))
    if not len(coarse):
        return ""
    k = coarse[0]
    return (
        f"targets near {largest[k]:g} differ by {spread[k]:.3g}, and float32, in which answers are kept, has steps of "
        f"{step[k]:.3g} there: subtract a constant, such as the mean of the training targets, from targets and answers"
    )


def _two_columns(targets: Array) -> Array:
    if targets.ndim not in (1, 2):
        raise DataError(f"regression needs targets of shape (N,) or (N, K), got {targets.shape}")
    return targets[:, None] if targets.ndim == 1 else targets
