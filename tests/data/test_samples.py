"""Samples keep inputs, targets and ids together."""

from __future__ import annotations

import pytest
import torch

from irene.data import Augment, Column, Data, Samples
from irene.data.lazy import LazyInputs
from irene.errors import DataError, OptionError


def make(count: int = 5) -> Samples:
    return Samples(torch.arange(count * 2.0).reshape(count, 2), torch.arange(count) % 2, torch.arange(count) + 100)


def test_a_subset_keeps_rows_together_and_in_order() -> None:
    part = make().subset(torch.tensor([3, 1]))
    assert part.inputs is not None
    assert part.inputs.tolist() == [[6, 7], [2, 3]]
    assert part.targets.tolist() == [1, 1]
    assert part.ids.tolist() == [103, 101]
    assert len(part) == 2
    assert part.read([1]).tolist() == [[2, 3]]


def test_an_empty_subset_keeps_the_shape() -> None:
    empty = make().subset(torch.arange(0))
    assert len(empty) == 0
    assert empty.shape == (2,)


def test_uneven_parts_are_refused() -> None:
    with pytest.raises(DataError, match="5 inputs, 4 targets and 5 ids"):
        Samples(torch.zeros(5, 2), torch.zeros(4), torch.arange(5))
    with pytest.raises(DataError, match="exactly one"):
        Samples(None, torch.zeros(4), torch.arange(4))


def test_data_checks_its_task_and_shapes() -> None:
    with pytest.raises(OptionError, match="task must be one of"):
        Data(name="x", task="ranking", train=make(), test=make(), classes=("a", "b"), fingerprint="")
    other = Samples(torch.zeros(5, 3), torch.zeros(5, dtype=torch.int64), torch.arange(5))
    with pytest.raises(DataError, match="must be the same"):
        Data(name="x", task="classification", train=make(), test=other, classes=("a", "b"), fingerprint="")


def test_augment_is_false_when_it_does_nothing() -> None:
    assert not Augment()
    assert Augment(crop=1)
    assert Augment(flip=True)
    with pytest.raises(OptionError, match="crop"):
        Augment(crop=-1)


@pytest.mark.parametrize("column", [Column("age"), Column("colour", ("blue", "red"))])
def test_columns_survive_json(column: Column) -> None:
    assert Column.from_dict(column.to_dict()) == column
    assert column.width == (2 if column.categories else 1)


def test_samples_and_data_are_shown_in_one_line() -> None:
    train, test = make(1200), make(2)
    assert repr(train) == "Samples(1,200 of shape (2,))"
    about = {"name": "mine", "task": "classification", "classes": ("a", "b"), "fingerprint": ""}
    shown = "Data(mine, classification, 2 outputs, 1,200 train and 2 test samples of shape (2,)"
    assert repr(Data(train=train, test=test, **about)) == f"{shown})"
    lazy = LazyInputs([(torch.zeros(2), 0)] * 1200, torch.arange(1200), (2,), torch.float32)
    read_later = Samples(None, train.targets, train.ids, lazy)
    assert repr(read_later) == "Samples(1,200 of shape (2,), read as needed)"
    assert repr(Data(train=read_later, test=test, **about)) == f"{shown}, read as needed)"
