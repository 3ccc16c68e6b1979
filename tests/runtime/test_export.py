"""The exported folder answers as `Cascade.predict` does, where neither torch nor irene can be imported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from irene.bank import Bank
from irene.cascade import Cascade
from irene.data import Data
from irene.errors import OptionError, RunError
from irene.halting.policies import Random, Spread
from irene.halting.policy import Stopper
from irene.halting.registry import POLICIES
from irene.halting.rule import Aggregation
from irene.imported import import_members
from irene.mixture import Mixture
from irene.models import MemberSpec, build
from irene.run import Run
from irene.runtime.export import load_irene
from irene.runtime.export.folder import _save_point, export
from irene.runtime.export.graphs import trace, write_onnx
from irene.runtime.recalibrate import as_trained
from irene.types import Cost, Prediction, Task

from .conftest import needs_openvino
from .runs import AGGREGATION, COSTS, every_policy, make_members, write_run

# What a user of the folder has: the folder, and not what this says cannot be imported.
ELSEWHERE = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(name + " is not here")

sys.meta_path.insert(0, Blocker())
import numpy as np
from load_irene import load

cascade = load()
asked = np.load({asked!r})
for point in cascade.points or [""]:
    at = cascade.at(point) if point else cascade
    found = at.predict(asked["inputs"])
    few = [at.predict(asked["inputs"][:size]).outputs for size in (0, 1)]
    where = {folder!r} + "/" + (point or "mixture") + ".npz"
    np.savez(where, outputs=found.outputs, used=found.members_used, trace=found.trace, none=few[0], one=few[1])
assert not set({blocked!r}) & set(sys.modules)
"""


def run_elsewhere(exported: Path, inputs: Tensor, scratch: Path, blocked: tuple[str, ...]) -> dict[str, Any]:
    """What the folder answers in a process of its own, by point."""
    np.savez(scratch / "asked.npz", inputs=inputs.numpy())
    code = ELSEWHERE.format(blocked=blocked, asked=str(scratch / "asked.npz"), folder=str(scratch))
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        cwd=exported,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    answers = sorted(path for path in scratch.glob("*.npz") if path.name != "asked.npz")
    return {path.stem: dict(np.load(path)) for path in answers}


def answers(cascade: load_irene.Cascade, inputs: Tensor) -> dict[str, Any]:
    """What a loaded folder answers in this process, as `run_elsewhere` has it."""
    found = cascade.predict(inputs.numpy())
    few = [cascade.predict(inputs[:size].numpy()).outputs for size in (0, 1)]
    return {"outputs": found.outputs, "used": found.members_used, "trace": found.trace, "none": few[0], "one": few[1]}


def check_same(found: dict[str, Any], expected: Prediction) -> None:
    assert np.array_equal(found["used"], expected.members_used.numpy())
    assert np.array_equal(found["outputs"].argmax(1), expected.outputs.argmax(1).numpy())
    np.testing.assert_allclose(found["outputs"], expected.outputs.numpy(), rtol=1e-5, atol=1e-5)
    assert np.array_equal(np.isnan(found["trace"]), expected.trace.isnan().numpy())
    assert found["none"].shape == (0, expected.outputs.shape[1])
    np.testing.assert_allclose(found["one"], expected.outputs[:1].numpy(), rtol=1e-5, atol=1e-5)


def test_every_registered_policy_is_tried(make_bank: Callable[..., Bank]) -> None:
    tried = {*every_policy(make_bank(30)), *every_policy(make_bank(30, task="regression"))}
    assert tried == set(POLICIES) - {"random"}
    assert {*load_irene.SCORES, "skipping"} == tried


def in_numpy(policy: Stopper, bank: Bank, aggregation: Aggregation, folder: Path) -> load_irene.Cascade:
    """The loader's cascade over members that look their answers up."""
    point = replace(as_trained(policy, aggregation, bank.task), members=(0, 1, 2))
    manifest = {
        "task": bank.task,
        "classes": [str(k) for k in range(bank.outputs.shape[3])],
        "input": {"shape": [1]},
        "points": {"trained": json.loads(json.dumps(_save_point(point, [0, 1, 2], folder)))},
    }
    table = bank.outputs.numpy()
    members = [lambda rows, t=t: table[rows[:, 0].astype(int), t] for t in range(3)]
    return load_irene.Cascade(manifest, members, folder, "trained")


@pytest.mark.parametrize("task", ["classification", "regression"])
@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), heads=st.integers(1, 2), outputs=st.integers(1, 5), share=st.floats(0, 1))
def test_numpy_decides_as_torch_does(
    make_bank: Callable[..., Bank],
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
    tmp_path_factory: pytest.TempPathFactory,
    task: Task,
    seed: int,
    heads: int,
    outputs: int,
    share: float,
) -> None:
    outputs = max(outputs, 2) if task == "classification" else outputs
    bank = make_bank(40, heads=heads, outputs=outputs, task=task, seed=seed)
    folder = tmp_path_factory.mktemp("points")
    for policy in every_policy(bank).values():
        scores = bank.trajectory(policy, AGGREGATION).scores_NT.double()
        scores = scores[scores.isfinite()].unique()
        if len(scores):  # any threshold, but none that rounding could move a score across
            cuts = (scores[1:] + scores[:-1])[scores.diff() > 1e-4] / 2
            cuts = torch.cat([scores[:1] - 1, cuts, scores[-1:] + 1])
            policy = policy.at(float(cuts[round(share * (len(cuts) - 1))]))
        cascade = Cascade(table_members(bank), policy, aggregation=AGGREGATION, task=task)
        expected = cascade.predict(sample_numbers(40))
        found = in_numpy(policy, bank, AGGREGATION, folder).predict(sample_numbers(40).numpy())
        assert np.array_equal(found.members_used, expected.members_used.numpy()), policy.name
        np.testing.assert_allclose(found.outputs, expected.outputs.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.trace, expected.trace.numpy(), rtol=1e-4, atol=1e-4, err_msg=policy.name)
        assert found.outputs.dtype == np.float32


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numpy_treats_what_is_no_number_as_torch_does(
    make_bank: Callable[..., Bank],
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
    tmp_path: Path,
    task: Task,
    value: float,
) -> None:
    bank = make_bank(40, task=task)
    policies = every_policy(bank).values()
    bank.outputs[::6, 0, 0, 1] = value
    bank.outputs[1::6, 1, -1, 2] = value  # of the head that does not answer
    for policy in policies:
        cascade = Cascade(table_members(bank), policy, aggregation=AGGREGATION, task=task)
        expected = cascade.predict(sample_numbers(40))
        found = in_numpy(policy, bank, AGGREGATION, tmp_path).predict(sample_numbers(40).numpy())
        assert expected.failed[::6].all()
        assert np.array_equal(found.failed, expected.failed.numpy()), policy.name
        assert np.array_equal(found.members_used, expected.members_used.numpy()), policy.name
        np.testing.assert_allclose(found.trace, expected.trace.numpy(), rtol=1e-4, atol=1e-4, err_msg=policy.name)
        np.testing.assert_allclose(found.outputs, expected.outputs.numpy(), rtol=1e-5, atol=1e-6)
        if task == "classification":
            assert np.array_equal(found.labels, expected.labels.numpy())


@pytest.mark.parametrize("top", [2, 3])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numpy_mixes_as_torch_does_where_a_gate_is_no_number(
    make_bank: Callable[..., Bank], table_members: Callable[[Bank], list[Any]], tmp_path: Path, top: int, value: float
) -> None:
    bank = make_bank(8)
    logits = torch.randn(8, 3)
    logits[::3, 1] = value
    numbers = np.arange(8.0, dtype=np.float32)[:, None]
    expected = Mixture(table_members(bank), lambda inputs: logits[inputs[:, 0].long()], top=top).predict(numbers)
    manifest = {
        "task": "classification",
        "classes": list("abcd"),
        "input": {"shape": [1]},
        "points": {},
        "members": [{}] * 3,
        "gate": {"top": top},
    }
    table, gates = bank.outputs.numpy(), logits.numpy()[:, None]
    members = [lambda rows, t=t: table[rows[:, 0].astype(int), t] for t in range(3)]
    gate = lambda rows: gates[rows[:, 0].astype(int)]  # noqa: E731
    found = load_irene.Cascade(manifest, [*members, gate], tmp_path, "").predict(numbers)
    assert np.array_equal(found.labels, expected.labels.numpy())
    assert np.array_equal(found.members_used, expected.members_used.numpy())
    np.testing.assert_allclose(found.outputs, expected.outputs.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.trace, expected.trace.numpy(), rtol=1e-5, atol=1e-6)


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answers")


@pytest.fixture(scope="module")
def exported(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run with all its points as ONNX."""
    folder = tmp_path_factory.mktemp("exported") / "onnx"
    export(run, folder)
    return folder


def check_folder(run: Run, folder: Path, scratch: Path, blocked: tuple[str, ...]) -> None:
    """Every point answers as the run does there, and nearly every one stops some samples and not others."""
    inputs = torch.randn(101, *run.manifest["data"]["shape"])
    found = run_elsewhere(folder, inputs, scratch, blocked)
    assert set(found) == {"trained", *run.points}
    stopped = 0
    for name, answer in found.items():
        cascade = run.cascade() if name == "trained" else run.cascade(point=name)
        expected = cascade.predict(inputs)
        check_same(answer, expected)
        stopped += bool(1 < float(expected.cost.mean()) < 3)
    assert stopped >= len(found) - 2


def test_onnx_answers_as_the_cascade_does(run: Run, exported: Path, tmp_path: Path) -> None:
    check_folder(run, exported, tmp_path, ("irene", "torch"))


@needs_openvino
def test_openvino_answers_as_the_cascade_does(run: Run, tmp_path: Path, scratch: Path) -> None:
    export(run, tmp_path / "out", format="openvino")
    check_folder(run, tmp_path / "out", scratch, ("irene", "torch", "openvino_telemetry"))


def test_pt2_answers_as_the_cascade_does(run: Run, tmp_path: Path, scratch: Path) -> None:
    export(run, tmp_path / "out", format="pt2")
    check_folder(run, tmp_path / "out", scratch, ("irene",))


def test_values_are_answered_as_the_cascade_does(curve: Data, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", curve, Spread(-0.1), make_members(curve))
    export(run, tmp_path / "out", format="pt2")
    cascade, inputs = load_irene.load(tmp_path / "out"), torch.randn(53, 4)
    for name in run.points:
        check_same(answers(cascade.at(name), inputs), run.cascade(point=name).predict(inputs))


@pytest.mark.parametrize("backbone", ["cnn", "mimo2/cnn", "batch2/mlp"])
def test_images_and_packed_members(backbone: str, tmp_path: Path) -> None:
    member = build(
        MemberSpec(backbone=backbone, shape=(1, 8, 8), outputs=4), seed=0, mean=torch.tensor([90.0]), std=torch.ones(1)
    ).eval()
    images = torch.randint(256, (7, 1, 8, 8), dtype=torch.uint8)
    write_onnx(trace(member, images[:1].float()), tmp_path / "member.onnx")
    signature = {"output": "output", "dtype": "float32", "log": False}
    call = load_irene._member(load_irene._onnx(tmp_path / "member.onnx", "output", 1), signature)
    for size in (1, 2, 7):
        found = call(images[:size].numpy())
        np.testing.assert_allclose(found, member(images[:size]).detach().numpy(), rtol=1e-4, atol=1e-4)


def test_a_mixture(run: Run, blobs: Data, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    gated = Run.open(tmp_path / "run")
    gated.save_gate(build(MemberSpec(backbone="mlp", shape=blobs.shape, outputs=3), seed=9).eval(), 2, Cost())
    inputs = torch.randn(23, 5)
    assert export(gated, tmp_path / "out", format="pt2")["points"] == {}
    check_same(answers(load_irene.load(tmp_path / "out"), inputs), gated.predictor().predict(inputs))
    assert "there are no operating points" in (tmp_path / "out" / "README.md").read_text()
    with pytest.raises(OptionError, match="a gate chooses the members"):
        export(gated, tmp_path / "other", point="margin")


@pytest.mark.parametrize("output", ["probabilities", "output"])
def test_imported_onnx_members(blobs: Data, tmp_path: Path, output: str) -> None:
    paths = [tmp_path / f"{i}.onnx" for i in range(2)]
    logits = make_members(blobs, heads=1)
    write_onnx(trace(logits[0], torch.zeros(1, 5)), paths[0])
    write_onnx(trace(torch.nn.Sequential(logits[1], torch.nn.Softmax(-1)), torch.zeros(1, 5)), paths[1])
    model = onnx.load(paths[1])
    model.graph.output[0].name = output
    model.graph.node[-1].output[0] = output
    onnx.save(model, paths[1])
    run = import_members(paths, tmp_path / "run", data=blobs)
    inputs = torch.randn(23, 5)
    manifest = export(run, tmp_path / "out")
    assert [member["log"] for member in manifest["members"]] == [False, True]  # whatever the output is called
    assert blobs.test.inputs is not None
    with torch.no_grad():
        expected = logits[1](blobs.test.inputs)[:, 0].softmax(1)
    torch.testing.assert_close(run.bank("test").outputs[:, 1, 0].softmax(1), expected)
    check_same(answers(load_irene.load(tmp_path / "out"), inputs), run.cascade().predict(inputs))
    with pytest.raises(OptionError, match="only torch modules can be turned into graphs"):
        export(run, tmp_path / "other", format="pt2")


def test_one_point_takes_its_members_only(run: Run, tmp_path: Path) -> None:
    point = replace(run.point("margin"), name="pair", members=(2, 0), aggregation=Aggregation.equal(2))
    shutil.copytree(run.path, tmp_path / "run")
    pair = Run.open(tmp_path / "run")
    pair.save_point(point)
    manifest = export(pair, tmp_path / "out", format="pt2", point="pair")
    inputs = torch.randn(31, 5)
    assert [member["file"] for member in manifest["members"]] == ["members/0.pt2", "members/2.pt2"]
    assert list(manifest["points"]) == ["pair"]
    check_same(answers(load_irene.load(tmp_path / "out"), inputs), pair.cascade(point="pair").predict(inputs))


def test_the_manifest_tells_what_is_in_the_folder(run: Run, exported: Path) -> None:
    manifest = json.loads((exported / "manifest.json").read_text())
    files = (path.relative_to(exported) for path in exported.rglob("*") if path.is_file())
    there = {path.as_posix() for path in files if "__pycache__" not in path.parts}  # left by who ran the loader
    assert there == {*manifest["files"], "manifest.json", "README.md"}
    assert manifest["classes"] == ["0", "1", "2"]
    assert manifest["input"] == {"shape": [5], "dtype": "float32"}
    assert [Cost.from_dict(member["cost"]) for member in manifest["members"]] == list(COSTS)
    assert list(manifest["points"]) == ["trained", *run.points]
    point = manifest["points"]["selector"]
    assert point["policy"]["name"] == "selector"
    assert point["policy"]["threshold"] == run.point("selector").policy.threshold
    assert Aggregation.from_dict(point["aggregation"]) == AGGREGATION
    assert [path.name for path in exported.parent.iterdir()] == ["onnx"]


def test_graphs_do_not_tell_of_the_machine_they_were_made_on(exported: Path) -> None:
    content = (exported / "members" / "0.onnx").read_bytes()
    assert b"site-packages" not in content
    assert str(Path.cwd()).encode() not in content


def test_the_loader_refuses_what_is_wrong(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no manifest\.json"):
        load_irene.load(tmp_path)
    folder = Path(shutil.copytree(exported, tmp_path / "out"))
    cascade = load_irene.load(folder, "change", threads=1)
    for wrong, got in ((np.zeros((2, 4)), r"float64 of shape \(2, 4\)"), (np.zeros(5), r"float64 of shape \(5,\)")):
        with pytest.raises(ValueError, match=rf"numbers of shape \(samples, 5\), got {got}"):
            cascade.predict(wrong)
    with pytest.raises(ValueError, match=r"numbers of shape \(samples, 5\), got complex128 of shape \(2, 5\)"):
        cascade.predict(np.zeros((2, 5), complex))
    with pytest.raises(ValueError, match="no operating point is called 'cheap', there are: trained, never"):
        load_irene.load(folder, "cheap")
    (folder / "points" / "change.npz").write_bytes(b"other")
    with pytest.raises(ValueError, match=r"change\.npz: missing or damaged"):
        load_irene.load(folder)
    (folder / "points" / "change.npz").unlink()
    with pytest.raises(ValueError, match=r"change\.npz: missing or damaged"):
        load_irene.load(folder)
    file = folder / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 99}))
    with pytest.raises(ValueError, match="expected format 1, got 99"):
        load_irene.load(folder)


def test_the_loader_refuses_what_whole_numbers_cannot_be() -> None:
    member = load_irene._member(lambda rows: rows, {"dtype": "uint8", "log": False})
    rows = np.array([[0.0, 7.0, 255.0]])
    assert np.array_equal(member(rows)[:, 0], rows)
    with pytest.raises(ValueError, match="whole numbers that fit uint8, got others"):
        member(rows / 255)


def test_the_loader_leaves_no_trace_of_an_import_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    monkeypatch.delitem(sys.modules, "openvino_telemetry", raising=False)
    with pytest.raises(ImportError):
        load_irene._openvino(tmp_path, "output", 1)
    assert "openvino_telemetry" not in sys.modules


def test_an_export_is_for_those_whom_the_umask_allows(run: Run, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        export(run, tmp_path / "out")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "out", tmp_path / "out" / "manifest.json")}
    assert modes == {"out": 0o700, "manifest.json": 0o600}


def test_what_cannot_be_exported_is_refused_and_leaves_nothing(run: Run, blobs: Data, tmp_path: Path) -> None:
    format: Any = "tflite"
    with pytest.raises(OptionError, match="one of onnx, openvino, pt2, got 'tflite'"):
        export(run, tmp_path / "out", format=format)
    with pytest.raises(OptionError, match="use format onnx or openvino"):
        export(run, tmp_path / "out", format="pt2", int8=True, data=blobs)
    with pytest.raises(OptionError, match="give its data"):
        export(run, tmp_path / "out", int8=True)
    with pytest.raises(RunError, match="no operating point is called 'none'"):
        export(run, tmp_path / "out", point="none")
    with pytest.raises(OptionError, match="exists already"):
        export(run, Path(__file__).parent)
    with pytest.raises(OptionError, match=r"test_export\.py/out cannot be written: "):
        export(run, Path(__file__) / "out", int8=True, data=blobs)
    coin = write_run(tmp_path / "coin", blobs, Random(), make_members(blobs))
    with pytest.raises(OptionError, match="random policy is for studies"):
        export(coin, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["coin"]
