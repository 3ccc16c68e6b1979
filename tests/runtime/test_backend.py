"""Backends by name, and the two that run members by torch."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor, nn

from irene.cascade import Cascade
from irene.errors import MissingExtraError, OptionError
from irene.halting.policies import Margin
from irene.models import Member, MemberSpec, build
from irene.runtime import backend as backend_module
from irene.runtime import torch_backend
from irene.runtime.backend import BACKENDS, Precision, backend_class, installed_backends, parse_backend
from irene.runtime.engine import Engine, EngineOptions
from irene.runtime.torch_backend import Compiled, Eager


def resnet(heads: int = 2) -> Member:
    spec = MemberSpec(backbone="resnet8", shape=(3, 8, 8), outputs=4, heads=heads)
    member = build(spec, seed=0, mean=torch.full((3,), 127.0), std=torch.full((3,), 70.0))
    member.train()
    for _ in range(3):  # batch norm gets statistics that are not one and zero
        member(pictures(16))
    return member.eval()


def pictures(count: int) -> Tensor:
    return torch.randint(0, 256, (count, 3, 8, 8), dtype=torch.uint8)


def test_backends_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert backend_class("eager") is Eager
    assert backend_class("compile") is Compiled
    assert {"eager", "compile"} <= set(installed_backends()) <= set(BACKENDS)
    with pytest.raises(OptionError, match=r"unknown backend 'tensorrt' \(there are: eager, compile, onnx"):
        backend_class("tensorrt")
    monkeypatch.setattr(backend_module, "find_spec", lambda name: None if name == "openvino" else find_spec(name))
    assert "openvino" not in installed_backends()
    with pytest.raises(MissingExtraError, match="openvino"):
        backend_class("openvino")


def test_backend_and_precision_in_one_word() -> None:
    assert parse_backend("eager") == ("eager", "fp32")
    assert parse_backend("onnx:int8") == ("onnx", "int8")
    assert parse_backend("eager", "bf16") == ("eager", "bf16")
    assert parse_backend("eager:fp16", "bf16") == ("eager", "fp16")
    for wrong in ("fast", "eager:fp8", "eager:"):
        with pytest.raises(OptionError, match=f"got '{wrong}'"):
            parse_backend(wrong)


def test_eager_is_the_member_itself() -> None:
    member, inputs = resnet(), pictures(5)
    backend = Eager.load(member, inputs[:1])
    assert torch.equal(backend.run(inputs), member(inputs))
    assert not backend.run(inputs).requires_grad
    assert (backend.precision, backend.device.type, backend.capturable) == ("fp32", "cpu", False)
    flat = Eager.load(lambda inputs: inputs.float().flatten(1)[:, :3], inputs[:1])
    assert flat.run(inputs).shape == (5, 1, 3)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_reduced_precision_leaves_the_member_alone(precision: Precision) -> None:
    member, inputs = resnet(), pictures(32)
    before = {key: value.clone() for key, value in member.state_dict().items()}
    expected = member(inputs)
    reduced = Eager.load(member, inputs[:1], precision=precision).run(inputs)
    assert reduced.dtype == torch.float32  # the scale of the outputs is
    assert 0 < (reduced - expected).abs().max() < 0.05 * expected.abs().max()
    assert torch.equal(member(inputs), expected)
    after = member.state_dict()
    assert all(after[key].dtype == value.dtype and torch.equal(after[key], value) for key, value in before.items())


def test_any_module_in_reduced_precision() -> None:
    module = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    inputs = torch.randn(7, 5)
    reduced = Eager.load(module, inputs, precision="bf16").run(inputs)
    assert 0 < (reduced[:, 0].float() - module(inputs)).abs().max() < 0.02


def test_what_cannot_be_reduced_or_compiled() -> None:
    inputs = torch.zeros(1, 5)
    with pytest.raises(OptionError, match="only torch modules can run in bf16, got function"):
        Eager.load(lambda inputs: inputs, inputs, precision="bf16")
    with pytest.raises(OptionError, match="the compile backend takes torch modules, got function"):
        Compiled.load(lambda inputs: inputs, inputs)
    with pytest.raises(OptionError, match="the eager backend runs in fp32, bf16, fp16, got precision 'int8'"):
        Eager.load(resnet(), inputs, precision="int8")


def test_compiled_equals_eager_and_compiles_once_for_all_sizes() -> None:
    module = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    inputs = torch.randn(9, 5)
    backend = Compiled.load(module, inputs[:1])
    assert backend.fixed_sizes
    torch.testing.assert_close(backend.run(inputs[:4])[:, 0], module(inputs[:4]))
    torch.testing.assert_close(backend.run(inputs[:1])[:, 0], module(inputs[:1]))
    cascade = Cascade([module, module], Margin(0.03))
    engine = Engine(cascade, inputs[:1], backends=[backend, backend], options=EngineOptions(largest=4))
    expected = cascade.predict(inputs)
    assert 1 < expected.members_used.double().mean() < 2
    with torch.compiler.set_stance("fail_on_recompile"):
        for size in (1, 2, 3, 9):
            torch.testing.assert_close(backend.run(inputs[:size])[:, 0], module(inputs[:size]))
            assert torch.equal(engine.predict(inputs[:size]).members_used, expected.members_used[:size])
    assert engine.recorded == 2 * 3  # buckets of 1, 2 and 4


def test_what_is_compiled_for_a_view_serves_all_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    # What inductor would generate code from, without the time that generating it takes.
    monkeypatch.setattr(torch_backend.torch, "compile", partial(torch.compile, backend="aot_eager"))
    member = build(MemberSpec(backbone="mlp", shape=(5,), outputs=4), seed=0).eval()
    parts = torch.randn(32, 5).split(8)
    backend = Compiled.load(member, parts[0])
    expected = backend.run(parts[3])
    torch.testing.assert_close(backend.run(parts[3].clone()), expected)
    others = (parts[3].clone(), torch.cat([parts[3], parts[0]])[:8], torch.cat([*parts, *parts]).split(8)[7])
    with torch.compiler.set_stance("fail_on_recompile"):
        for inputs in others:
            torch.testing.assert_close(backend.run(inputs), expected)
