from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet

from irene.bank import Bank
from irene.cascade import Cascade
from irene.errors import DataError, MissingExtraError, OptionError
from irene.halting.policies import Margin
from irene.types import Cost

OUTPUTS = np.random.default_rng(0).normal(size=(6, 2, 3))
LABELS = np.array([0, 1, 2, 2, 1, 0])


def write_table(path: Path, **columns: Any) -> Path:
    parquet.write_table(pyarrow.table(columns), path)
    return path


def members_as_lists(outputs: Any) -> dict[str, Any]:
    return {"small": outputs[:, 0].tolist(), "large": outputs[:, 1].tolist()}


def test_arrays_become_a_bank() -> None:
    bank = Bank.from_arrays(OUTPUTS, LABELS)
    assert bank.outputs.shape == (6, 2, 1, 3)
    assert bank.outputs.dtype == torch.float32
    np.testing.assert_allclose(bank.outputs[:, :, 0], OUTPUTS, rtol=1e-6)
    assert bank.targets.tolist() == LABELS.tolist()
    assert bank.ids.tolist() == list(range(6))
    assert bank.costs == (Cost(), Cost())


def test_arrays_may_have_heads_ids_costs_and_be_tensors() -> None:
    outputs = torch.randn(4, 2, 2, 3)
    costs = (Cost(ms=1.0), Cost(ms=5.0))
    bank = Bank.from_arrays(outputs, torch.tensor([0, 1, 2, 0]), ids=np.arange(4) + 7, costs=costs)
    assert torch.equal(bank.outputs, outputs)
    assert bank.ids.tolist() == [7, 8, 9, 10]
    assert bank.costs == costs


def test_values_are_targets_of_regression() -> None:
    bank = Bank.from_arrays(np.zeros((3, 2, 1)), np.array([0.5, 1.5, 2.5]), task="regression")
    assert bank.targets.shape == (3, 1)
    assert bank.replay().values.shape == (3, 1)


@pytest.mark.parametrize(
    ("outputs", "targets", "task", "message"),
    [
        (np.zeros((6, 2)), LABELS, "classification", r"outputs must be .*\(6, 2\)"),
        (np.zeros((0, 2, 3)), LABELS[:0], "classification", r"outputs must be .* at least one of each, .*\(0, 2, 3\)"),
        (OUTPUTS, LABELS[:5], "classification", "6 samples needs as many targets"),
        (OUTPUTS, LABELS + 1, "classification", "from 0 to 2, got 1 to 3"),
        (OUTPUTS, LABELS - 1, "classification", "from 0 to 2, got -1 to 1"),
        (OUTPUTS, LABELS / 2, "classification", "use task regression"),
        (OUTPUTS, np.zeros((6, 2)), "regression", "3 outputs a member need as many target values"),
        (OUTPUTS, np.full((6, 3), np.nan), "regression", "finite"),
        (OUTPUTS * np.inf, LABELS, "classification", "gave NaN or infinity for sample 0, the first of"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(outputs: Any, targets: Any, task: Any, message: str) -> None:
    with np.errstate(invalid="ignore"), pytest.raises(OptionError, match=message):
        Bank.from_arrays(outputs, targets, task=task)


def test_the_bank_of_a_cascade_replays_what_it_predicts(
    make_bank: Callable[..., Bank], table_members: Callable[[Bank], list[Any]], sample_numbers: Callable[[int], Any]
) -> None:
    made = make_bank(50, costs=[Cost(ms=1.0), Cost(ms=2.0), Cost(ms=3.0)])
    cascade = Cascade(table_members(made), Margin(0.7), costs=made.costs)
    inputs = sample_numbers(50)
    bank = Bank.of(cascade, inputs.numpy(), made.targets.numpy(), batch_size=7)
    assert torch.equal(bank.outputs, made.outputs)
    assert bank.costs == made.costs
    replayed, predicted = bank.replay(Margin(0.7)), cascade.predict(inputs)
    assert torch.equal(replayed.members_used, predicted.members_used)
    assert torch.equal(replayed.outputs, predicted.outputs)


def test_npz_with_everything(tmp_path: Path) -> None:
    path = tmp_path / "outputs.npz"
    np.savez(path, outputs=OUTPUTS, targets=LABELS, ids=LABELS + 10, ms=[0.5, 2.0], flops=[1e6, 2e6], parameters=[3, 4])
    bank = Bank.read(path)
    assert bank.task == "classification"
    assert torch.equal(bank.outputs, Bank.from_arrays(OUTPUTS, LABELS).outputs)
    assert bank.ids.tolist() == (LABELS + 10).tolist()
    assert bank.costs == (Cost(ms=0.5, flops=1e6, parameters=3), Cost(ms=2.0, flops=2e6, parameters=4))
    json.dumps([cost.to_dict() for cost in bank.costs])  # plain numbers, so that the bank can be saved


def test_costs_given_take_the_place_of_those_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "outputs.npz"
    np.savez(path, outputs=OUTPUTS, targets=LABELS, ms=[0.5, 2.0])
    costs = (Cost(ms=7.0), Cost(ms=8.0))
    assert Bank.read(path, costs=costs).costs == costs


@pytest.mark.parametrize("name", ["ms", "flops", "parameters"])
@pytest.mark.parametrize("wrong", [[1.0, np.inf], [1.0, np.nan], [1, -1], ["1", "fast"]])
def test_costs_that_cannot_be_are_refused(tmp_path: Path, name: str, wrong: list[Any]) -> None:
    path = tmp_path / "outputs.npz"
    np.savez(path, outputs=OUTPUTS, targets=LABELS, **{name: np.array(wrong)})
    with pytest.raises(DataError, match=rf"outputs.npz: member [12]: a cost in {name} must be a finite number"):
        Bank.read(path)


def test_fractions_as_targets_mean_regression_unless_told_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "outputs.npz"
    np.savez(path, outputs=OUTPUTS[:, :, :1], targets=LABELS.astype(float))
    assert Bank.read(path).task == "regression"
    np.savez(path, outputs=OUTPUTS[:, :, :1], targets=LABELS)
    assert Bank.read(path, task="regression").targets.shape == (6, 1)


@pytest.mark.parametrize("kind", [float, np.float32, int, bool])
def test_one_hot_targets_are_no_values_unless_told_so(tmp_path: Path, kind: Any) -> None:
    one_hot = np.eye(3)[LABELS].astype(kind)
    np.savez(tmp_path / "outputs.npz", outputs=OUTPUTS, targets=one_hot)
    with pytest.raises(DataError, match=r"class indices, got one-hot rows of shape \(6, 3\): give their argmax"):
        Bank.read(tmp_path / "outputs.npz")
    with pytest.raises(OptionError, match="got one-hot rows"):
        Bank.from_arrays(OUTPUTS, one_hot)
    assert Bank.read(tmp_path / "outputs.npz", task="regression").targets.tolist() == one_hot.tolist()
    one_hot = one_hot.astype(float)
    one_hot[0] = 0.0, 0.5, 1.0
    np.savez(tmp_path / "outputs.npz", outputs=OUTPUTS, targets=one_hot)
    assert Bank.read(tmp_path / "outputs.npz").task == "regression"


@pytest.mark.parametrize("kind", ["list", "large_list", "fixed_size_list"])
def test_parquet_with_a_column_a_member(tmp_path: Path, kind: str) -> None:
    types = {
        "list": pyarrow.list_(pyarrow.float32()),
        "large_list": pyarrow.large_list(pyarrow.float64()),
        "fixed_size_list": pyarrow.list_(pyarrow.float32(), 3),
    }
    columns = {name: pyarrow.array(rows, types[kind]) for name, rows in members_as_lists(OUTPUTS).items()}
    path = write_table(tmp_path / "outputs.parquet", target=LABELS, id=LABELS + 10, **columns)
    bank = Bank.read(path)
    np.testing.assert_allclose(bank.outputs[:, :, 0], OUTPUTS, rtol=1e-6)
    assert bank.targets.tolist() == LABELS.tolist()
    assert bank.ids.tolist() == (LABELS + 10).tolist()


def test_parquet_with_heads_and_values(tmp_path: Path) -> None:
    outputs = np.random.default_rng(1).normal(size=(6, 2, 4, 2))
    targets = np.random.default_rng(2).normal(size=(6, 2))
    path = write_table(tmp_path / "outputs.parquet", target=targets.tolist(), **members_as_lists(outputs))
    bank = Bank.read(path)
    assert bank.task == "regression"
    np.testing.assert_allclose(bank.outputs, outputs, rtol=1e-6)
    np.testing.assert_allclose(bank.targets, targets, rtol=1e-6)


def test_outputs_without_targets_are_read_where_none_are_needed(tmp_path: Path) -> None:
    np.savez(tmp_path / "outputs.npz", outputs=OUTPUTS)
    table = write_table(tmp_path / "outputs.parquet", **members_as_lists(OUTPUTS))
    for path in (tmp_path / "outputs.npz", table):
        classes = Bank.read(path, labelled=False)
        assert (classes.task, classes.targets.tolist()) == ("classification", [0] * len(OUTPUTS))
        np.testing.assert_allclose(classes.outputs[:, :, 0], OUTPUTS, rtol=1e-6)
        values = Bank.read(path, task="regression", labelled=False)
        assert values.targets.shape == (len(OUTPUTS), OUTPUTS.shape[2])


def test_a_file_that_irene_wrote_is_read_too(tmp_path: Path, make_bank: Callable[..., Bank]) -> None:
    bank = make_bank()
    bank.save(tmp_path / "bank.safetensors")
    assert torch.equal(Bank.read(tmp_path / "bank.safetensors").outputs, bank.outputs)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"target": LABELS}, "one column a member"),
        (members_as_lists(OUTPUTS), "has no targets; expected"),
        ({"target": LABELS, "small": LABELS / 2}, "column small must hold a list"),
        ({"target": LABELS, "a": [[1.0]] * 6, "b": [[1.0, 2.0]] * 6}, "as many as column a"),
        ({"target": LABELS, "a": [[1.0], [1.0, 2.0], *[[1.0]] * 4]}, "equally long"),
        ({"target": LABELS, "a": [[1.0], None, *[[1.0]] * 4]}, "in every row and equally long"),
        ({"target": LABELS, "a": [["x"]] * 6}, "column a must hold numbers"),
        ({"target": [0, None, 1, 0, 1, 0], "a": [[1.0, 2.0]] * 6}, "column target must hold numbers"),
        ({"target": LABELS, "a": [[1.0, 2.0]] * 6}, "class indices must be from 0 to 1"),
    ],
)
def test_a_parquet_file_of_another_layout_is_refused(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    path = write_table(tmp_path / "outputs.parquet", **columns)
    with pytest.raises(DataError, match=message) as caught:
        Bank.read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"targets": LABELS}, "no array outputs"),
        ({"outputs": OUTPUTS}, "has no targets; expected"),
        ({"outputs": OUTPUTS, "targets": LABELS, "ms": [1.0]}, "ms must have one value for each of 2 members"),
        ({"outputs": np.array(["x"]), "targets": LABELS}, "expected an array of numbers"),
    ],
)
def test_an_npz_file_of_another_layout_is_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = tmp_path / "outputs.npz"
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=message) as caught:
        Bank.read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["outputs.npz", "outputs.parquet", "outputs.csv"])
@pytest.mark.parametrize("there", [True, False])
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str, there: bool) -> None:
    path = tmp_path / name
    if there:
        path.write_bytes(b"neither of them")
    with pytest.raises(DataError, match=name) as caught:
        Bank.read(path)
    assert "\n" not in str(caught.value)


def test_pickled_objects_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "outputs.npz"
    np.savez(path, outputs=np.array([object()], dtype=object), targets=LABELS)
    with pytest.raises(DataError, match=r"outputs\.npz"):
        Bank.read(path)


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_table(tmp_path / "outputs.parquet", target=LABELS, **members_as_lists(OUTPUTS))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"irene-ensemble\[parquet\]"):
        Bank.read(path)
