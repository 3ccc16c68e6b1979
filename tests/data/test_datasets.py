"""Torch Datasets become data that is read lazily, with targets read once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from irene.data import from_arrays, from_datasets, split
from irene.data.datasets import read_targets
from irene.errors import DataError


class Counted(Dataset[Any]):
    """Yields (index, target) and counts how often it is read."""

    def __init__(self, targets: list[Any], offset: int = 0) -> None:
        self.given = targets
        self.offset = offset
        self.reads = 0

    def __len__(self) -> int:
        return len(self.given)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        self.reads += 1
        return torch.tensor([float(index + self.offset)]), self.given[index]


class Published(Counted):
    def __init__(self, targets: list[Any], published: list[Any], **attributes: Any) -> None:
        super().__init__(targets)
        self.targets = published
        for name, value in attributes.items():
            setattr(self, name, value)


def test_inputs_are_read_when_needed_and_follow_their_ids() -> None:
    dataset = Counted([i % 2 for i in range(40)])
    data = from_datasets(dataset)
    reads = dataset.reads
    parts = split(data)
    assert dataset.reads == reads
    assert data.train.inputs is None
    assert data.shape == (1,)
    for samples in (parts.train, parts.heldout, parts.test):
        assert samples.read(range(len(samples)))[:, 0].tolist() == samples.ids.tolist()
        assert torch.equal(samples.targets, samples.ids % 2)
    assert len(set(torch.cat([parts.train.ids, parts.heldout.ids, parts.test.ids]).tolist())) == 40


def test_a_test_dataset_is_numbered_after_train() -> None:
    data = from_datasets(Counted([0, 1] * 3), Counted([1, 0], offset=6))
    assert data.test.ids.tolist() == [6, 7]
    assert data.test.read([0, 1])[:, 0].tolist() == [6, 7]
    assert data.test.targets.tolist() == [1, 0]


def test_published_targets_spare_reading() -> None:
    labels = [i % 3 for i in range(30)]
    dataset = Published(labels, labels)
    assert read_targets(dataset).tolist() == labels
    assert dataset.reads == 2


def test_published_targets_that_are_not_what_is_yielded_are_not_trusted() -> None:
    labels = [i % 3 for i in range(30)]
    assert read_targets(Published(labels, [9] * 30)).tolist() == labels
    assert read_targets(Published(labels, labels[:4])).tolist() == labels
    transformed = Published(labels, [0, *[9] * 28, 2], target_transform=lambda value: value)
    assert read_targets(transformed).tolist() == labels


def test_a_subset_takes_its_part_of_the_targets() -> None:
    labels = [i % 3 for i in range(30)]
    assert read_targets(Subset(Published(labels, labels), [4, 8, 0])).tolist() == [1, 2, 0]


def test_published_class_names_are_used_where_they_fit() -> None:
    labels = [0, 1] * 4
    assert from_datasets(Published(labels, labels, classes=["cat", "dog"])).classes == ("cat", "dog")
    assert from_datasets(Published(labels, labels, classes=["cat"])).classes == ("0", "1")
    assert from_datasets(Published(labels, labels, classes=["cat", "dog"]), task="regression").classes == ("target",)


def test_names_and_several_values_are_taken_as_targets() -> None:
    assert from_datasets(Counted(["b", "a"] * 4)).classes == ("a", "b")
    values = from_datasets(Counted([torch.tensor([0.5, float(i)]) for i in range(10)]))
    assert values.task == "regression"
    assert values.train.targets.shape == (8, 2)
    assert from_datasets(Counted([torch.tensor([0.5])] * 10)).outputs == 1


def test_tensors_stay_in_memory() -> None:
    x, y = torch.randn(20, 3), torch.arange(20) % 2
    data = from_datasets(TensorDataset(x, y))
    assert data.train.inputs is not None
    assert data.fingerprint == from_arrays(x, y).fingerprint
    assert len(from_datasets(TensorDataset(x, y), TensorDataset(x, y)).test) == 20


def test_the_fingerprint_follows_targets_and_split() -> None:
    labels = [i % 2 for i in range(40)]
    first = from_datasets(Counted(labels))
    assert first.fingerprint == from_datasets(Counted(labels)).fingerprint
    assert first.fingerprint != from_datasets(Counted(labels), seed=1).fingerprint
    assert first.fingerprint != from_datasets(Counted([1 - label for label in labels])).fingerprint


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        yield torch.zeros(1), 0


class Single(Counted):
    def __getitem__(self, index: int) -> Any:
        return torch.zeros(1)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (Stream(), "streams are not supported"),
        (Counted([]), "no samples"),
        (Single([0, 1]), r"must yield \(input, target\) pairs, got Tensor"),
        (TensorDataset(torch.zeros(4, 2)), "inputs and targets, got 1 tensors"),
        (Counted([0, 0, 1]), "class '1' has too few"),
    ],
)
def test_datasets_that_cannot_work_are_refused(dataset: Dataset[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_datasets(dataset)
