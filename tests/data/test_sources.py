"""Loading by text or by Python objects, and the mistakes one can make in asking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from irene.data import Data, load, names
from irene.errors import OptionError

X, Y = np.zeros((20, 2), np.float32), np.arange(20) % 2


def test_every_source_is_named_in_one_line() -> None:
    assert [name for name, _ in names()] == [
        "digits",
        "diabetes",
        "cifar10",
        "cifar100",
        "folder:PATH",
        "npz:PATH",
        "csv:PATH",
    ]
    assert all(line and "\n" not in line for _, line in names())


def test_data_is_returned_as_it_is() -> None:
    data = load("digits")
    assert load(data) is data


@pytest.mark.parametrize(
    ("spec", "sizes"),
    [
        ((X, Y), (16, 4)),
        ([torch.from_numpy(X), Y.tolist()], (16, 4)),
        ((X, Y, X[:3], Y[:3]), (20, 3)),
        (TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), (16, 4)),
        ((TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)),) * 2, (20, 20)),
    ],
)
def test_python_objects_are_taken(spec: Any, sizes: tuple[int, int]) -> None:
    data = load(spec)
    assert isinstance(data, Data)
    assert (len(data.train), len(data.test)) == sizes
    assert load(spec, task="regression").task == "regression"


@pytest.mark.parametrize("spec", ["cifr10", "folder:", "folder", "csv:PATH:"[:4], "", "npz:PATH"[:3], "ftp:x"])
def test_unknown_names_are_answered_with_the_known_ones(spec: str) -> None:
    with pytest.raises(OptionError, match=rf"unknown data '{spec}'.* \(there are digits, diabetes, cifar10"):
        load(spec)


@pytest.mark.parametrize(("spec", "meant"), [("digit", "digits"), ("cifr10", "cifar10"), ("folder", "folder:PATH")])
def test_a_name_that_was_nearly_right_is_told(spec: str, meant: str) -> None:
    with pytest.raises(OptionError, match=f"unknown data '{spec}': did you mean {meant}"):
        load(spec)


def test_a_path_without_its_kind_is_told_with_it(tmp_path: Path) -> None:
    for name, kind in (("table.csv", "csv"), ("arrays.npz", "npz"), ("photos", "folder"), ("note.txt", None)):
        spec = tmp_path / name
        spec.write_text("a,b\n") if kind != "folder" else spec.mkdir()
        with pytest.raises(OptionError, match="there are digits") as caught:
            load(str(spec))
        assert (f"did you mean {kind}:{spec}?" in str(caught.value)) == (kind is not None)


@pytest.mark.parametrize("spec", [3, None, (X,), (X, Y, X)])
def test_other_objects_are_refused(spec: Any) -> None:
    with pytest.raises(OptionError, match="data must be a name"):
        load(spec)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("digits", {"target": "y"}, "target has no meaning for digits"),
        ("digits", {"task": "regression"}, "task has no meaning for digits"),
        ("npz:a.npz", {"target": "y"}, "target has no meaning"),
        ("csv:a.csv", {"size": 8}, "size has no meaning"),
        ("folder:a", {"task": "regression"}, "task has no meaning"),
        ((X, Y), {"target": "y"}, "target has no meaning for Python objects"),
        ("digits", {"task": "ranking"}, "task must be one of"),
    ],
)
def test_options_that_would_be_ignored_are_refused(spec: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        load(spec, **options)
