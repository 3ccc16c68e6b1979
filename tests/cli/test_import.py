"""`irene import`: models from elsewhere become a run like any other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper

from irene.cascade import Cascade
from irene.errors import RunError
from irene.run import Run

Irene = Callable[..., Any]
CENTRES = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)


def write_model(
    path: Path, weight: NDArray[Any], *, free: bool = False, apart: bool = False, softmax: bool = False
) -> Path:
    """logits = x @ weight; with `free` it takes any number of features by its word, with `apart` weights lie beside.

    With `softmax` it answers with probabilities, under another name.
    """
    output = "answer" if softmax else "logits"
    nodes = [helper.make_node("MatMul", ["x", "w"], ["logits"])]
    if softmax:
        nodes.append(helper.make_node("Softmax", ["logits"], [output]))
    shape = ["batch", "features" if free else weight.shape[0]]
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", weight.shape[1]])],
        [onnx.numpy_helper.from_array(weight.astype(np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, path, save_as_external_data=apart, location=f"{path.name}.data", size_threshold=0)
    return path


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    """A poor and a good model of four classes."""
    rng = np.random.default_rng(1)
    poor = CENTRES + rng.normal(size=CENTRES.shape) * 0.5
    return [write_model(tmp_path / "poor.onnx", poor.T), write_model(tmp_path / "good.onnx", CENTRES.T)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    labels = rng.integers(4, size=600)
    x = CENTRES[labels] + rng.normal(size=(600, 6)).astype(np.float32) * 0.8
    np.savez(tmp_path / "data.npz", x=x, y=labels)
    return tmp_path / "data.npz"


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    (tmp_path / "labels.txt").write_text("ant\nbee\ncat\ndog\n")
    return tmp_path / "labels.txt"


def test_from_files_to_a_calibrated_cascade(
    irene: Irene, models: list[Path], data: Path, labels: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    spec = f"npz:{data}"
    said = irene("import", "--members", *models, "--labels", labels, "--data", spec, "--out", out, "--json").json
    assert (said["members"], said["classes"]) == (2, ["ant", "bee", "cat", "dog"])
    assert said["heldout"]["cost"] == 2
    assert all(ms > 0 for ms in said["ms"])
    manifest = json.loads((out / "run.json").read_text())
    for entry, path in zip(manifest["members"], models, strict=True):
        assert entry["kind"] == "onnx"
        assert (out / entry["file"]).read_bytes() == path.read_bytes()
        assert entry["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert manifest["data"]["sizes"] == {"heldout": 480, "test": 120}
    point = irene("calibrate", out, "--cost", "1.4", "--json").json["point"]
    assert point["expected"]["cost"] == pytest.approx(1.4, abs=0.02)
    assert irene("evaluate", out, "--point", "calibrated", "--json").json["test"]["cost"] == pytest.approx(1.4, abs=0.2)
    rows = irene("predict", out, data, "--point", "calibrated", "--json").json["predictions"]
    x = torch.from_numpy(np.load(data)["x"])
    answer = Run.open(out).predictor(point="calibrated").predict(x)
    assert [row["class"] for row in rows] == [said["classes"][label] for label in answer.labels.tolist()]
    whole = Cascade.from_members(models).predict(x)
    assert torch.equal(Run.open(out).predictor().predict(x).outputs, whole.outputs)
    assert irene("report", out, "--out", tmp_path / "report.html").code == 0


def test_probabilities_become_logits_and_the_user_is_told(
    irene: Irene, models: list[Path], data: Path, tmp_path: Path
) -> None:
    softmax = write_model(tmp_path / "soft.onnx", CENTRES.T, softmax=True)
    given = ("--data", f"npz:{data}")
    irene("import", *models, *given, "--out", tmp_path / "logits")
    said = irene("import", models[0], softmax, *given, "--out", tmp_path / "mixed", "--json").json
    assert said["notes"] == ["soft.onnx answers with probabilities: their logarithms are taken as logits"]
    assert f"note: {said['notes'][0]}" in irene("import", models[0], softmax, "--out", tmp_path / "alone").out
    assert [entry["log"] for entry in Run.open(tmp_path / "alone").manifest["members"]] == [False, True]
    logits, mixed = (Run.open(tmp_path / name) for name in ("logits", "mixed"))
    for split in ("heldout", "test"):
        torch.testing.assert_close(mixed.bank(split).replay().probs, logits.bank(split).replay().probs)
    x = torch.from_numpy(np.load(data)["x"])
    torch.testing.assert_close(mixed.predictor().predict(x).probs, logits.predictor().predict(x).probs)


def test_values_that_sum_to_one_stay_values(irene: Irene, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(80, 6))
    path = write_model(tmp_path / "shares.onnx", CENTRES.T, softmax=True)
    np.savez(tmp_path / "values.npz", x=x, y=np.random.default_rng(1).random((80, 4)))
    irene("import", path, "--data", f"npz:{tmp_path / 'values.npz'}", "--out", tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert (run.task, run.manifest["notes"]) == ("regression", [])
    logits = torch.from_numpy(x).float() @ torch.from_numpy(CENTRES.T)
    torch.testing.assert_close(run.predictor().predict(torch.from_numpy(x).float()).values, logits.softmax(1))


def test_without_data_it_predicts_and_says_what_calibration_needs(
    irene: Irene, models: list[Path], data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    done = irene("import", *models, "--out", out)
    assert "labelled --data" in done.out
    assert irene("predict", out, data, "--json").json["samples"] == 600
    assert "give other samples with --data" in irene("calibrate", out, "--cost", "1.3").mistake
    point = irene("calibrate", out, "--cost", "1.3", "--data", f"npz:{data}", "--json").json["point"]
    assert point["data"]["samples"] == 480
    said = irene("calibrate", out, "--cost", "1.3", "--data", f"npz:{data}").out
    assert f"irene evaluate {out} --point calibrated --data SPEC" in said
    assert "has no test samples: give labelled samples with --data" in irene("evaluate", out).mistake


def test_labels_say_which_output_a_class_is(irene: Irene, models: list[Path], tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    index = rng.integers(4, size=200)
    names = np.array(["dog", "ant", "cat", "bee"])  # of outputs 0 to 3
    np.savez(tmp_path / "named.npz", x=CENTRES[index], y=names[index])
    (tmp_path / "order.txt").write_text("dog\nant\n\ncat\nbee\n")
    spec = f"npz:{tmp_path / 'named.npz'}"
    flags = ("--data", spec, "--labels", tmp_path / "order.txt")
    right = irene("import", models[1], *flags, "--out", tmp_path / "run", "--json").json
    assert right["test"]["accuracy"] > 0.6
    wrong = irene("import", models[1], "--data", spec, "--out", tmp_path / "other", "--json").json
    assert wrong["test"]["accuracy"] < 0.5  # in alphabetical order, for want of a better one
    assert right["notes"] == []
    assert "in this order: ant, bee, cat, dog; --labels says another" in wrong["notes"][0]
    evaluated = irene("evaluate", tmp_path / "run", "--data", spec, "--json").json["test"]
    assert evaluated["accuracy"] == pytest.approx(right["test"]["accuracy"])


def test_members_that_were_trained_on_the_training_samples(
    irene: Irene, models: list[Path], data: Path, tmp_path: Path
) -> None:
    said = irene(
        "import", *models, "--data", f"npz:{data}", "--unseen", "test", "--out", tmp_path / "run", "--json"
    ).json
    sizes = Run.open(tmp_path / "run").manifest["data"]["sizes"]
    assert sizes == {"heldout": 60, "test": 60}
    assert "heldout" in said
    again = ("calibrate", tmp_path / "run", "--cost", "1.3", "--data", f"npz:{data}")
    assert "the members were trained on npz:" in irene(*again).mistake
    assert irene("evaluate", tmp_path / "run", "--data", f"npz:{data}", "--json").json["samples"] == 60


def test_weights_in_a_file_beside_come_along(irene: Irene, data: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    model = write_model(tmp_path / "there" / "model.onnx", CENTRES.T, apart=True)
    assert (tmp_path / "there" / "model.onnx.data").exists()
    assert irene("import", model, "--out", tmp_path / "run").code == 0
    x = torch.from_numpy(np.load(data)["x"])
    expected = Cascade.from_members([model]).predict(x).outputs
    (tmp_path / "there" / "model.onnx.data").unlink()
    assert torch.equal(Run.open(tmp_path / "run").predictor().predict(x).outputs, expected)


def test_values(irene: Irene, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight, x = rng.normal(size=(3, 2)), rng.normal(size=(80, 3))
    np.savez(tmp_path / "values.npz", x=x, y=x @ weight + 0.1 * rng.normal(size=(80, 2)))
    paths = [write_model(tmp_path / f"{i}.onnx", weight + 0.1 * i) for i in range(3)]
    said = irene("import", *paths, "--data", f"npz:{tmp_path / 'values.npz'}", "--out", tmp_path / "run", "--json").json
    assert (said["task"], said["classes"]) == ("regression", ["target0", "target1"])
    assert irene("calibrate", tmp_path / "run", "--cost", "2.5", "--policy", "cost-to-go").code == 0


def test_mistakes_leave_nothing(irene: Irene, models: list[Path], data: Path, tmp_path: Path) -> None:
    three = write_model(tmp_path / "three.onnx", CENTRES[:3].T)
    free = write_model(tmp_path / "free.onnx", CENTRES.T, free=True)
    (tmp_path / "few.txt").write_text("ant\nbee\n")
    (tmp_path / "twice.txt").write_text("ant\nbee\nant\ncat\n")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    np.savez(tmp_path / "wide.npz", x=np.zeros((20, 9)), y=np.arange(20) % 2)
    np.savez(tmp_path / "named.npz", x=np.zeros((20, 6)), y=np.array(["a", "b"] * 10))
    out = tmp_path / "run"
    for arguments, words in (
        ((), "at least one member"),
        ((tmp_path / "gone.onnx",), "gone.onnx: no such file"),
        ((models[0], three), "answers with 3 outputs and"),
        ((free,), "give samples with --data"),
        ((*models, "--labels", tmp_path / "few.txt"), "4 outputs and there are 2 labels"),
        ((*models, "--labels", tmp_path / "twice.txt"), "occurs twice"),
        ((*models, "--labels", tmp_path / "binary.txt"), "is not UTF-8 text"),
        ((*models, "--data", f"npz:{tmp_path / 'wide.npz'}"), "does not take samples of shape (9,)"),
        ((*models, "--data", f"npz:{tmp_path / 'named.npz'}"), "name the outputs with --labels"),
        ((*models, "--data", f"npz:{data}", "--unseen", "some"), "unseen must be all or test"),
        ((*models, "--target", "kind"), "say how to read --data"),
        ((*models, "--size", 8), "say how to read --data"),
        ((*models, "--task", "guessing"), "--task must be one of"),
    ):
        assert words in irene("import", *arguments, "--out", out).mistake
        assert not out.exists()
    assert "say where to write" in irene("import", *models).mistake
    out.mkdir()
    (out / "mine.txt").write_text("precious")
    assert "exists already" in irene("import", *models, "--out", out).mistake


def test_its_members_are_no_torch_modules(irene: Irene, models: list[Path], tmp_path: Path) -> None:
    irene("import", *models, "--out", tmp_path / "run")
    run = Run.open(tmp_path / "run")
    with pytest.raises(RunError, match=r"ONNX files in .*members, not torch modules"):
        run.members()
    (tmp_path / "run" / "members" / "0.onnx").write_bytes(b"")
    with pytest.raises(RunError, match=r"0\.onnx: damaged"):
        run.cascade()
