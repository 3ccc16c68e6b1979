"""Data from numpy arrays, torch tensors or nested lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from irene.data.fingerprint import data_fingerprint
from irene.data.lazy import channels_first
from irene.data.like import Like
from irene.data.samples import Augment, Column, Data, Samples
from irene.data.stratify import take_aside
from irene.data.targets import as_array, encode_targets
from irene.errors import DataError, OptionError
from irene.types import Task


def as_inputs(values: Any, *, first: int = 0) -> Tensor:
    """Inputs of all samples as uint8 images (N, C, H, W) or float32 features (N, ...).

    An error names a sample by its number, counted from `first` on.
    """
    array = as_array(values)
    if array.dtype.kind not in "fiub":
        raise DataError(f"inputs must be numbers, got {array.dtype}: turn names into numbers, or use csv:PATH")
    if array.ndim < 2:
        raise DataError(f"inputs must have shape (N, features) or (N, C, H, W), got {array.shape}")
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        images = torch.from_numpy(np.require(array, requirements=["C", "W"]))
        return channels_first(images) if images.ndim == 4 else images.unsqueeze(1)
    with np.errstate(over="ignore"):  # what does not fit becomes infinite and is refused below
        features = torch.from_numpy(array.astype(np.float32))
    if not bool(features.isfinite().all()):
        row = int((~features.isfinite()).nonzero()[0, 0])
        raise DataError(f"sample {first + row} has an input that is not a finite number: correct or remove it")
    return channels_first(features) if features.ndim == 4 else features


def aside_count(samples: int, fraction: float) -> int:
    """How many samples are set aside for testing."""
    if not 0 <= fraction < 1:
        raise OptionError(f"test_fraction must be from 0 to below 1, got {fraction}")
    return max(round(samples * fraction), 1) if fraction else 0


def from_arrays(
    x: Any,
    y: Any,
    *,
    x_test: Any = None,
    y_test: Any = None,
    task: Task | None = None,
    name: str = "arrays",
    classes: Sequence[str] | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    augment: Augment | None = None,
    like: Like | None = None,
) -> Data:
    """Data from arrays or tensors; without test arrays a stratified test set is set aside.

    Whole-number or text targets mean classification and fractions regression, unless `task` says otherwise, or `like`
    for a model that is there already. `classes` names the classes (or the values, for regression).
    """
    task, learnt = task or (like.task if like else None), like is None
    if (x_test is None) != (y_test is None):
        raise DataError("x_test and y_test must come together: give both or neither")
    inputs, targets = as_inputs(x), as_array(y)
    _check_lengths(name, inputs, targets)
    if x_test is None:
        encoded = encode_targets(targets, targets[:0], task=task, classes=classes, learnt=learnt)
        stay, aside = take_aside(encoded.train, aside_count(len(inputs), test_fraction), seed, fewer=not learnt)
        everything = Samples(inputs, encoded.train, torch.arange(len(inputs)))
        train, test = everything.subset(stay), everything.subset(aside)
    else:
        test_inputs, test_targets = as_inputs(x_test), as_array(y_test)
        _check_lengths(f"{name} (test)", test_inputs, test_targets)
        encoded = encode_targets(targets, test_targets, task=task, classes=classes, learnt=learnt)
        train = Samples(inputs, encoded.train, torch.arange(len(inputs)))
        test = Samples(test_inputs, encoded.test, torch.arange(len(test_inputs)) + len(inputs))
    return in_memory(name=name, task=encoded.task, train=train, test=test, classes=encoded.classes, augment=augment)


def in_memory(
    *,
    name: str,
    task: Task,
    train: Samples,
    test: Samples,
    classes: tuple[str, ...],
    augment: Augment | None = None,
    columns: tuple[Column, ...] = (),
    target: str | None = None,
) -> Data:
    """Data whose inputs are all in memory, fingerprinted over every byte."""
    tensors = [t for part in (train, test) for t in (part.inputs, part.targets, part.ids) if t is not None]
    return Data(
        name=name,
        task=task,
        train=train,
        test=test,
        classes=classes,
        fingerprint=data_fingerprint(task, classes, tensors),
        augment=augment or Augment(),
        columns=columns,
        target=target,
    )


def _check_lengths(name: str, inputs: Tensor, targets: Any) -> None:
    if targets.ndim == 0 or len(inputs) != len(targets):
        raise DataError(f"{name}: every sample needs one target, got {len(inputs)} inputs and {targets.size} targets")
    if len(inputs) == 0:
        raise DataError(f"{name}: there are no samples")
