"""Targets of every kind become class indices or values, or a clear error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from irene.data.targets import Targets, encode_targets
from irene.errors import DataError, OptionError


def encode(train: Any, test: Any = (), **options: Any) -> Targets:
    train = np.asarray(train)
    return encode_targets(train, np.asarray(test) if len(test) else train[:0], **options)


def test_whole_numbers_are_classes_in_order() -> None:
    found = encode([7, 3, 3, 7], [7])
    assert found.task == "classification"
    assert found.classes == ("3", "7")
    assert found.train.tolist() == [1, 0, 0, 1]
    assert found.test.tolist() == [1]
    assert found.train.dtype == torch.int64


def test_names_are_classes() -> None:
    found = encode(["dog", "cat", "cat", "dog"])
    assert found.classes == ("cat", "dog")
    assert found.train.tolist() == [1, 0, 0, 1]


def test_given_names_are_indexed_by_number_or_matched_by_name() -> None:
    assert encode([0, 1, 1, 0], classes=["no", "a"]).classes == ("no", "a")
    found = encode(["a", "no", "a", "no"], classes=["no", "a"])
    assert found.classes == ("no", "a")
    assert found.train.tolist() == [1, 0, 1, 0]


def test_fractions_are_values_in_two_dimensions() -> None:
    found = encode([0.5, 1.5], [2.5])
    assert found.task == "regression"
    assert found.train.tolist() == [[0.5], [1.5]]
    assert found.test.shape == (1, 1)
    assert found.train.dtype == torch.float32
    assert encode(np.zeros((4, 2))).classes == ("target0", "target1")


def test_one_hot_classes_are_no_values() -> None:
    hot = np.eye(3)[[0, 1, 2, 0]]
    with pytest.raises(DataError, match=r"look like one-hot classes, shape \(4, 3\): turn them into class indices"):
        encode(hot)
    assert encode(hot, task="regression").train.shape == (4, 3)


def test_classes_that_are_known_already_may_lack_samples_in_one_part() -> None:
    found = encode([0, 0, 2, 2], [1, 2], learnt=False)
    assert (found.classes, found.train.tolist(), found.test.tolist()) == (("0", "1", "2"), [0, 0, 2, 2], [1, 2])
    with pytest.raises(DataError, match="test sample 0 has the unknown class '1'"):
        encode([0, 0, 2, 2], [1, 2])


@pytest.mark.parametrize(
    "numbers", [np.array([1e17, 1e17, 2e17]), np.array([2**63, 2**63, 5], dtype=np.uint64), np.array([-1e19, 1.0, 1.0])]
)
def test_numbers_that_would_become_others_are_no_classes(numbers: Any) -> None:
    with pytest.raises(DataError, match=r"classes that are numbers go up to \d+, got .*: give numbers that large as"):
        encode(numbers, task="classification")


def test_values_that_float32_cannot_tell_apart_are_refused() -> None:
    seconds = 1.7e9 + 0.5 + np.arange(20)
    with pytest.raises(DataError, match=r"targets near 1\.7e\+09 differ by 5\.77, .*: subtract a constant"):
        encode(seconds)
    assert encode(seconds - 1.7e9).train.shape == encode(np.full(20, 1.7e9)).train.shape == (20, 1)


def test_the_task_can_be_said() -> None:
    assert encode([1, 2, 3], task="regression").train.tolist() == [[1], [2], [3]]
    assert encode([1.0, 2.0, 1.0, 2.0], task="classification").classes == ("1", "2")
    assert encode(np.array([[True], [False]] * 2)).train.tolist() == [1, 0, 1, 0]
    with pytest.raises(OptionError, match="task must be one of"):
        encode([1, 2], task="ranking")


@pytest.mark.parametrize(
    ("train", "test", "options", "message"),
    [
        ([0, 0, 1], (), {}, "class '1' has too few training samples, expected 2 or more, got 1"),
        ([0, 0, 1, 1], (), {"classes": ["a", "b", "c"]}, "class 'c' has too few .* got 0"),
        ([0, 0, 1, 1], (), {"classes": ["a", "a"]}, "a name of its own, and 'a' occurs twice"),
        ([[0.5, 1.0]], (), {"classes": ["a", "a"]}, "a name of its own, and 'a' occurs twice"),
        ([0, 0, 0], (), {}, "2 or more classes, got 1: 0"),
        ([0, 0, 1, 1], [2], {}, "test sample 0 has the unknown class '2'"),
        ([0, 0, 5, 5], (), {"classes": ["a", "b"]}, "train sample 2 has the unknown class '5'"),
        ([0, 0, 1, 1], ["a"], {}, "both be numbers or both be names"),
        ([0.5, 1.5], (), {"task": "classification"}, "got fractions"),
        ([float("nan"), 1.0], (), {"task": "classification"}, "got fractions or NaN"),
        (["a", "b"], (), {"task": "regression"}, "needs numbers as targets"),
        ([1.0, 2.0], ["a"], {"task": "regression"}, "needs numbers as targets"),
        ([1.0, float("inf")], (), {}, "target of sample 1 is not a finite number"),
        ([1.0, 1e300], (), {}, "target of sample 1 is not a finite number"),
        ([[0, 1], [1, 0]], (), {}, "one-hot"),
        ([[[0.5]]], (), {}, r"\(N,\) or \(N, K\)"),
        ([[0.5, 1.0]], [[0.5]], {}, "as many test values"),
        ([None, 3], (), {}, "whole numbers or names"),
    ],
)
def test_targets_that_cannot_work_are_refused(train: Any, test: Any, options: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        encode(train, test, **options)
    assert "\n" not in str(caught.value)
