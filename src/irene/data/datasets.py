"""Data from torch Datasets: tensors stay in memory, anything else is read as it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, Subset, TensorDataset

from irene.data.arrays import aside_count, from_arrays
from irene.data.fingerprint import data_fingerprint
from irene.data.lazy import LazyInputs
from irene.data.samples import Augment, Data, Samples
from irene.data.stratify import take_aside
from irene.data.targets import Array, Targets, as_array, encode_targets
from irene.errors import DataError
from irene.types import Task


def from_datasets(
    train: Dataset[Any],
    test: Dataset[Any] | None = None,
    *,
    task: Task | None = None,
    name: str = "dataset",
    classes: Sequence[str] | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    augment: Augment | None = None,
) -> Data:
    """Data from any torch Datasets that yield (input, target).

    Inputs are read when a batch needs them, targets once. Without a test Dataset, a stratified test set is
    set aside. Whole-number or text targets mean classification and fractions regression, unless `task` says
    otherwise. `classes` names the classes (or the values, for regression).
    """
    options: dict[str, Any] = {"task": task, "name": name, "classes": classes, "augment": augment}
    if isinstance(train, TensorDataset) and (test is None or isinstance(test, TensorDataset)):
        x, y = _pair(train)
        x_test, y_test = (None, None) if test is None else _pair(test)
        return from_arrays(x, y, x_test=x_test, y_test=y_test, test_fraction=test_fraction, seed=seed, **options)

    length, targets = _length(train), read_targets(train)
    if classes is None and task != "regression":
        classes = _class_names(train, targets)
    if test is None:
        encoded = encode_targets(targets, targets[:0], task=task, classes=classes)
        stay, aside = take_aside(encoded.train, aside_count(length, test_fraction), seed)
        everything = Samples(None, encoded.train, torch.arange(length), LazyInputs.of(train, length))
        return lazily_read(name, encoded, everything.subset(stay), everything.subset(aside), augment=augment)
    tests = _length(test)
    encoded = encode_targets(targets, read_targets(test), task=task, classes=classes)
    return lazily_read(
        name,
        encoded,
        Samples(None, encoded.train, torch.arange(length), LazyInputs.of(train, length)),
        Samples(None, encoded.test, torch.arange(tests) + length, LazyInputs.of(test, tests)),
        augment=augment,
    )


def lazily_read(
    name: str,
    targets: Targets,
    train: Samples,
    test: Samples,
    *,
    notes: object = None,
    augment: Augment | None = None,
) -> Data:
    """Data whose inputs are read later, fingerprinted over targets, ids and `notes` on the inputs."""
    tensors = [tensor for part in (train, test) for tensor in (part.targets, part.ids)]
    return Data(
        name=name,
        task=targets.task,
        train=train,
        test=test,
        classes=targets.classes,
        fingerprint=data_fingerprint(targets.task, targets.classes, tensors, [list(train.shape), notes]),
        augment=augment or Augment(),
    )


def read_targets(dataset: Dataset[Any]) -> Array:
    """The targets of a Dataset; its inputs are not read where it publishes `targets` or `labels`."""
    if isinstance(dataset, Subset):
        return read_targets(dataset.dataset)[list(dataset.indices)]
    length = _length(dataset)
    if getattr(dataset, "target_transform", None) is None:
        for attribute in ("targets", "labels"):
            published = getattr(dataset, attribute, None)
            if published is not None and np.size(as_array(published)) == length and _agree(dataset, published):
                return as_array(published)
    return np.array([_target(dataset[i]) for i in range(length)])


def _agree(dataset: Dataset[Any], published: Any) -> bool:
    """Whether published targets are what the Dataset yields, judged by its first and last sample."""
    values = as_array(published)
    return all(bool(values[i] == _target(dataset[i])) for i in (0, len(values) - 1))


def _target(sample: Any) -> Any:
    if not isinstance(sample, tuple | list) or len(sample) != 2:
        raise DataError(f"a Dataset must yield (input, target) pairs, got {type(sample).__name__}")
    return as_array(sample[1]).squeeze()[()]


def _length(dataset: Dataset[Any]) -> int:
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise DataError("a Dataset must have a length and yield samples by number: streams are not supported")
    length = len(dataset)
    if length == 0:
        raise DataError("the Dataset has no samples")
    return length


def _pair(dataset: TensorDataset) -> tuple[Any, Any]:
    if len(dataset.tensors) != 2:
        raise DataError(f"a TensorDataset must hold inputs and targets, got {len(dataset.tensors)} tensors")
    return dataset.tensors


def _class_names(dataset: Dataset[Any], targets: Array) -> Sequence[str] | None:
    """The class names a Dataset publishes, where its targets are indices into them."""
    names = getattr(dataset, "classes", None)
    if not isinstance(names, list | tuple) or targets.dtype.kind not in "iu":
        return None
    fits = all(isinstance(name, str) for name in names) and targets.min() >= 0 and targets.max() < len(names)
    return names if fits else None
