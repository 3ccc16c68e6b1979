"""Members and outputs from elsewhere become runs, from Python as from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from irene.bank import Bank
from irene.data import Data
from irene.errors import DataError, OptionError, RunError
from irene.evaluation.banks import unseen_samples
from irene.files import locked
from irene.imported import IMPORTED, import_members, import_outputs
from irene.run import Run


def write_model(path: Path, weight: np.ndarray, kind: int = TensorProto.FLOAT) -> Path:
    """logits = x @ weight, for inputs of one type."""
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("MatMul", ["f", "w"], ["logits"]),
        ],
        "model",
        [helper.make_tensor_value_info("x", kind, ["batch", weight.shape[0]])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", weight.shape[1]])],
        [onnx.numpy_helper.from_array(weight.astype(np.float32), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def test_members_with_data(blobs: Data, tmp_path: Path) -> None:
    weights = [np.random.default_rng(seed).normal(size=(5, 3)) for seed in range(2)]
    paths = [write_model(tmp_path / f"{index}.onnx", weight) for index, weight in enumerate(weights)]
    run = import_members(paths, tmp_path / "run", data=blobs)
    assert run.method in IMPORTED
    again = Run.open(tmp_path / "run")
    assert again.manifest["backbones"] == ["0.onnx", "1.onnx"]
    assert all(cost.ms > 0 for cost in again.costs)
    bank = again.bank("test")
    assert torch.equal(bank.targets, blobs.test.targets)
    assert blobs.test.inputs is not None
    expected = torch.stack([blobs.test.inputs @ torch.from_numpy(weight).float() for weight in weights], 1)
    torch.testing.assert_close(bank.outputs[:, :, 0], expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(again.cascade().predict(blobs.test.inputs).labels, bank.replay().labels)
    assert again.figures["test"]["cost"] == 2


def test_members_that_take_whole_numbers(tmp_path: Path) -> None:
    path = write_model(tmp_path / "bytes.onnx", np.eye(4), TensorProto.UINT8)
    run = import_members([path], tmp_path / "run", labels=["a", "b", "c", "d"])
    assert (run.manifest["data"]["shape"], run.manifest["data"]["classes"]) == ([4], ["a", "b", "c", "d"])
    images = torch.tensor([[0, 9, 0, 0], [0, 0, 0, 255]], dtype=torch.uint8)
    assert run.cascade().predict(images).labels.tolist() == [1, 3]


def test_samples_that_are_no_whole_numbers_are_refused(blobs: Data, tmp_path: Path) -> None:
    path = write_model(tmp_path / "bytes.onnx", np.eye(5)[:, :3], TensorProto.UINT8)
    with pytest.raises(DataError, match="takes whole numbers"):
        import_members([path], tmp_path / "run", data=blobs)
    assert not (tmp_path / "run").exists()


def test_one_output_is_refused_for_classes(tmp_path: Path) -> None:
    path = write_model(tmp_path / "one.onnx", np.ones((4, 1)))
    with pytest.raises(OptionError, match=r"at least two outputs a member, got 1: .* or use task regression"):
        import_members([path], tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert import_members([path], tmp_path / "run", task="regression").manifest["data"]["classes"] == ["target0"]


def test_outputs(make_bank: Callable[..., Bank], tmp_path: Path) -> None:
    bank = make_bank(100, task="regression", outputs=2)
    run = import_outputs(bank, tmp_path / "run", name="elsewhere", heldout=30)
    assert (len(run.bank("heldout")), len(run.bank("test"))) == (30, 70)
    assert run.manifest["data"]["classes"] == ["target0", "target1"]
    assert run.bank("test").about["fingerprint"] == run.manifest["data"]["fingerprint"]
    with pytest.raises(RunError, match="outputs of other members or classes"):
        import_outputs(make_bank(100), tmp_path / "run", name="elsewhere", split="test")
    with pytest.raises(OptionError, match="there are 3 labels"):
        import_outputs(bank, tmp_path / "other", name="elsewhere", labels=["a", "b", "c"])


@pytest.mark.parametrize("first", ["heldout", None])
def test_the_same_samples_are_not_of_two_splits(
    make_bank: Callable[..., Bank], tmp_path: Path, first: str | None
) -> None:
    bank, path = make_bank(60), tmp_path / "run"
    run = import_outputs(bank, path, name="elsewhere", split=first)
    with pytest.raises(RunError, match="heldout outputs are from these very samples, and test needs others"):
        import_outputs(bank, path, name="elsewhere", split="test")
    assert Run.open(path).manifest == run.manifest
    if first is not None:
        import_outputs(bank, path, name="elsewhere", split=first)  # the same again


def test_a_share_to_hold_out_goes_without_a_split(make_bank: Callable[..., Bank], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="heldout cuts the samples in two and split test takes all of them"):
        import_outputs(make_bank(60), tmp_path / "run", name="elsewhere", split="test", heldout=5)
    assert not (tmp_path / "run").exists()
    run = import_outputs(make_bank(60), tmp_path / "run", name="elsewhere")
    assert run.manifest["data"]["sizes"] == {"heldout": 30, "test": 30}


def test_outputs_join_what_others_have_written_meanwhile(
    make_bank: Callable[..., Bank], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is read when nobody else writes it, and none does until the new outputs are in it."""
    path = tmp_path / "run"
    import_outputs(make_bank(60), path, name="elsewhere", split="heldout")
    free: list[bool] = []
    opened = Run.open

    def look(folder: Path) -> Run:
        with locked(path / "lock") as ours:
            free.append(ours)
        return opened(folder)

    monkeypatch.setattr(Run, "open", look)
    import_outputs(make_bank(60, seed=1), path, name="elsewhere", split="test")
    assert free == [False]
    assert set(opened(path).manifest["banks"]) == {"heldout", "test"}
    assert not (path / "lock").exists()


def test_a_share_to_hold_out_may_be_of_any_type(make_bank: Callable[..., Bank], tmp_path: Path) -> None:
    run = import_outputs(make_bank(60), tmp_path / "run", name="elsewhere", heldout=np.float32(0.5))
    assert run.manifest["data"]["sizes"] == {"heldout": 30, "test": 30}


def test_a_further_split_has_the_labels_of_the_first(make_bank: Callable[..., Bank], tmp_path: Path) -> None:
    names = [f"kind {number}" for number in range(make_bank(60).outputs.shape[3])]
    import_outputs(make_bank(60), tmp_path / "run", name="elsewhere", labels=names, split="heldout")
    further = make_bank(60, seed=1)
    with pytest.raises(RunError, match=r"its outputs are of kind 0, kind 1, .* got the labels .*: leave them out"):
        import_outputs(further, tmp_path / "run", name="elsewhere", labels=names[::-1], split="test")
    run = import_outputs(further, tmp_path / "run", name="elsewhere", split="test")
    assert run.manifest["data"]["classes"] == names


def test_a_folder_that_is_there_is_refused_before_members_run(
    blobs: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_model(tmp_path / "one.onnx", np.ones((5, 3)))
    monkeypatch.setattr("irene.imported.bank_of", None)
    with pytest.raises(RunError, match="exists already"):
        import_members([path], tmp_path, data=blobs)


def test_test_samples_that_are_held_out_are_not_tested_on(blobs: Data, tmp_path: Path) -> None:
    path = write_model(tmp_path / "one.onnx", np.random.default_rng(0).normal(size=(5, 3)))
    run = import_members([path], tmp_path / "run", data=blobs, unseen="test")
    split, (samples,) = unseen_samples(run, blobs)
    assert (split, samples.ids.tolist()) == ("test", run.bank("test").ids.tolist())
    assert len(run.bank("heldout")) + len(samples) == len(blobs.test)
    seen = import_members([path], tmp_path / "all", data=blobs)
    assert unseen_samples(seen, blobs)[1] == (blobs.test,)
