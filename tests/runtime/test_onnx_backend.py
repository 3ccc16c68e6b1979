"""ONNX Runtime gives a member's answers, in float to rounding and in int8 nearly."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn

from irene.cascade import Cascade
from irene.errors import DataError, MissingExtraError, OptionError
from irene.halting.policies import Margin, Patience
from irene.halting.selector import Selector
from irene.models.onnx_file import OnnxFile
from irene.runtime.backend import backend_class
from irene.runtime.engine import Engine, EngineOptions
from irene.runtime.export.graphs import trace, write_onnx
from irene.runtime.onnx_backend import OnnxRuntime

from .conftest import make_member, needs_openvino, pictures


@pytest.mark.parametrize("backbone", ["cnn", "resnet8", "vgg8"])
def test_float_answers_are_the_member_s(backbone: str) -> None:
    member, images = make_member(backbone), pictures(7)
    backend = backend_class("onnx").load(member, images[:1])
    assert (backend.name, backend.precision, backend.device) == ("onnx", "fp32", torch.device("cpu"))
    for size in (1, 2, 7):
        torch.testing.assert_close(backend.run(images[:size]), member(images[:size]).detach(), rtol=1e-5, atol=1e-5)
    between = images / 7  # bytes were shown, and numbers between them must not be cut off
    torch.testing.assert_close(backend.run(between), member(between).detach(), rtol=1e-5, atol=1e-5)


def test_answers_stay_when_the_next_batch_comes() -> None:
    member = make_member("mlp", (5,))
    backend = OnnxRuntime.load(member, torch.zeros(1, 5))
    rows = torch.randn(6, 5)
    first = backend.run(rows)
    kept = first.clone()
    rows.copy_(torch.randn(6, 5))
    backend.run(rows)
    assert torch.equal(first, kept)


def test_rows_need_not_lie_side_by_side() -> None:
    member, rows = make_member("mlp", (5,)), torch.randn(5, 6)
    backend = OnnxRuntime.load(member, torch.zeros(1, 5))
    torch.testing.assert_close(backend.run(rows.T), member(rows.T.contiguous()).detach(), rtol=1e-5, atol=1e-5)


def test_int8_is_near_and_keeps_what_is_precious_in_float(tmp_path: Path) -> None:
    member, images = make_member("resnet8"), pictures(64)
    backend = OnnxRuntime.load(member, images, precision="int8")
    wanted = member(images).detach()
    assert backend.precision == "int8"
    assert float((backend.run(images) - wanted).abs().mean()) < 0.05 * float(wanted.std())
    backend.save(tmp_path / "member.onnx")
    graph = onnx.load(tmp_path / "member.onnx").graph
    makers = {name: node for node in graph.node for name in node.output}
    inputs = {
        kind: [makers[node.input[0]].op_type for node in graph.node if node.op_type == kind and node.input[0] in makers]
        for kind in ("Conv", "Gemm")
    }
    assert set(inputs["Conv"]) == {"DequantizeLinear"}
    assert inputs["Gemm"] == ["ReduceMean"]  # the head is not quantised
    scales = {tensor.name: tensor for tensor in graph.initializer if tensor.name.endswith("_scale")}
    assert any(len(tensor.dims) == 1 and tensor.dims[0] > 1 for tensor in scales.values())  # one scale a channel


def test_int8_takes_its_ranges_from_enough_inputs() -> None:
    with pytest.raises(OptionError, match="give some hundreds that no member was trained on, got 3"):
        OnnxRuntime.load(make_member("mlp", (5,)), torch.randn(3, 5), precision="int8")


@pytest.mark.parametrize("name", ["onnx", pytest.param("openvino", marks=needs_openvino)])
def test_engines_answer_as_the_cascade_does(name: str) -> None:
    members, rows = [make_member("mlp", (5,), seed) for seed in range(3)], 200 * torch.rand(41, 5)
    backends = [backend_class(name).load(member, rows) for member in members]
    backends[1] = backend_class("eager").load(members[1], rows)
    for policy in (Margin(0.05), Margin(-1.0), Margin(2.0), Patience(1.0), Selector(0.05)):
        cascade = Cascade(members, policy)
        engine = Engine(cascade, rows[:1], backends=backends, options=EngineOptions(largest=16))
        for size in (0, 1, 2, 13, 41):
            found, wanted = engine.predict(rows[:size]), cascade.predict(rows[:size])
            assert torch.equal(found.members_used, wanted.members_used)
            assert torch.equal(found.labels, wanted.labels)
            torch.testing.assert_close(found.outputs, wanted.outputs, rtol=0, atol=1e-5)


def test_files_are_run_as_the_file_member_runs_them(tmp_path: Path) -> None:
    path, rows = tmp_path / "member.onnx", torch.randn(9, 5)
    write_onnx(trace(nn.Sequential(nn.Linear(5, 3), nn.Softmax(1)), rows), path)
    model = onnx.load(path)
    model.graph.output[0].name = model.graph.node[-1].output[0] = "probabilities"
    onnx.save(model, path)
    member = OnnxFile(path)
    backend = OnnxRuntime.load(member, rows.double())
    torch.testing.assert_close(backend.run(rows.double())[:, 0], member(rows.double()))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 8
    onnx.save(model, path)
    with pytest.raises(OptionError, match="takes batches of 8 only"):
        OnnxRuntime.load(OnnxFile(path), rows)


class Fickle(nn.Module):
    """Looks at its numbers to decide what to compute, which no graph can."""

    def forward(self, x: Tensor) -> Tensor:
        return x if float(x.sum()) > 0 else -x


def test_what_it_cannot_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    member, rows = make_member("mlp", (5,)), torch.randn(2, 5)
    precision: Any = "bf16"
    with pytest.raises(OptionError, match="onnx backend runs in fp32, int8, got precision 'bf16'"):
        OnnxRuntime.load(member, rows, precision=precision)
    with pytest.raises(OptionError, match="runs on the CPU, got inputs on meta"):
        OnnxRuntime.load(member, rows.to("meta"))
    with pytest.raises(OptionError, match="only torch modules can be turned into graphs, got function"):
        OnnxRuntime.load(lambda x: x, rows)
    with pytest.raises(OptionError, match="Fickle cannot be turned into a graph"):
        OnnxRuntime.load(Fickle(), rows)
    with pytest.raises(DataError, match=r"^expected inputs of shape \(batch, 5\), got \(.*, 4\)"):
        OnnxRuntime.load(member, rows[:, :4])
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MissingExtraError, match=r"onnxscript is not installed: .*irene-ensemble\[onnx\]"):
        OnnxRuntime.load(member, rows)


def test_a_member_that_trains_goes_on_training() -> None:
    member = make_member("mlp", (5,)).train()
    OnnxRuntime.load(member, torch.zeros(1, 5))
    assert member.training


def test_a_file_of_whole_numbers_refuses_others(tmp_path: Path) -> None:
    path = tmp_path / "bytes.onnx"
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Cast", ["x"], ["logits"], to=onnx.TensorProto.FLOAT)],
        "numbers as they are",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, ["batch", 3])],
        [onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", 3])],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), path)
    backend = OnnxRuntime.load(OnnxFile(path), torch.zeros(1, 3))
    rows = torch.tensor([[0.0, 7.0, 255.0]])
    assert torch.equal(backend.run(rows)[:, 0], rows)
    with pytest.raises(DataError, match=r"takes whole numbers \(uint8\), got others"):
        backend.run(rows / 255)
