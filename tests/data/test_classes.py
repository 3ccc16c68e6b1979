"""Targets follow the order of the names a model answers with."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from irene.data import Data, from_arrays
from irene.data.classes import align_classes
from irene.errors import DataError

X = np.zeros((12, 2))


def named(*labels: object) -> Data:
    y = np.array(labels * (12 // len(labels)))
    return from_arrays(X, y, x_test=X, y_test=y, name="mine")


def test_by_name() -> None:
    data = align_classes(named("cat", "dog", "ant"), ("dog", "bee", "ant", "cat"))
    assert data.classes == ("dog", "bee", "ant", "cat")
    assert data.train.targets[:3].tolist() == data.test.targets[:3].tolist() == [3, 0, 2]


def test_by_number_where_the_data_has_no_names() -> None:
    data = align_classes(named(2, 5), ("ant", "bee", "cat", "dog", "elk", "fly"))
    assert data.train.targets[:2].tolist() == [2, 5]


def test_names_that_are_numbers_are_names_first() -> None:
    assert align_classes(named(2, 5), ("5", "2")).train.targets[:2].tolist() == [1, 0]


def test_a_stray_number_does_not_turn_all_others_into_places() -> None:
    with pytest.raises(DataError, match="mine has the class '0', which is none of the 3 known: 1, 2, 3"):
        align_classes(named(0, 1, 2), ("1", "2", "3"))


def test_the_same_classes_and_values_stay() -> None:
    data = named("cat", "dog")
    assert align_classes(data, ["cat", "dog"]) is data
    values = from_arrays(X, np.linspace(0, 1, 12), seed=0)
    assert align_classes(values, ["price"]) is values
    assert torch.is_floating_point(values.train.targets)


def test_an_unknown_class_is_named() -> None:
    with pytest.raises(DataError, match="mine has the class 'dog', which is none of the 2 known: cat, ant"):
        align_classes(named("cat", "dog"), ("cat", "ant"))
    with pytest.raises(DataError, match=r"mine has the class '5', which is none .* rename it, or name the outputs"):
        align_classes(named(2, 5), ("a", "b", "c"))
