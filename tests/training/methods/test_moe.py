from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from irene.bank import mix
from irene.data import load
from irene.errors import OptionError
from irene.models import Member, MemberSpec, build
from irene.run import Run
from irene.training.methods import moe
from irene.training.methods.moe import gate_on, mixture_loss

Trainer = Callable[..., Run]


@pytest.mark.parametrize("closed", [False, True])
def test_the_loss_is_that_of_the_mixture_as_it_answers(closed: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    outputs, gates = torch.randn(20, 3, 4, generator=generator), torch.rand(20, 3, generator=generator)
    if closed:
        gates[:, 1] = 0
    gates /= gates.sum(1, keepdim=True)
    labels = torch.randint(4, (20,), generator=generator)
    probs = mix(outputs[:, :, None], gates, "classification").probs
    expected = nn.functional.nll_loss(probs.log(), labels)
    torch.testing.assert_close(mixture_loss(outputs, gates, labels, "classification"), expected)

    values, scale = torch.randn(20, 4, generator=generator), torch.tensor([1.0, 2.0, 3.0, 4.0])
    answer = mix(outputs[:, :, None], gates, "regression").values
    expected = ((answer - values) / scale).square().mean()
    torch.testing.assert_close(mixture_loss(outputs, gates, values, "regression", scale), expected)


def test_closed_gates_and_sure_errors_keep_gradients_finite() -> None:
    outputs = torch.tensor([[[500.0, -500.0], [0.0, 0.0]]], requires_grad=True)
    gates = torch.tensor([[1.0, 0.0]], requires_grad=True)
    loss = mixture_loss(outputs, gates, torch.tensor([1]), "classification")
    loss.backward()
    assert loss.item() == pytest.approx(1000)
    assert outputs.grad is not None
    assert gates.grad is not None
    assert gates.grad.isfinite().all()
    assert torch.equal(outputs.grad[0, 0], torch.tensor([1.0, -1.0]))
    assert not outputs.grad[0, 1].any()


def test_a_new_gate_sees_the_extractors_features_and_weights_experts_equally() -> None:
    spec = MemberSpec(backbone="cnn", shape=(1, 8, 8), outputs=10)
    extractor = build(spec, seed=1, mean=torch.tensor([100.0]), std=torch.tensor([7.0])).eval()
    gate = gate_on(extractor, 3)
    x = torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(gate.features(x), extractor.features(x))
    assert torch.equal(gate(x), torch.zeros(5, 1, 3))


def test_experts_and_gate_learn_while_the_extractor_stays(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed: dict[str, torch.Tensor] = {}

    def spy(*arguments: Any) -> Member:
        extractor = fit(*arguments)
        fixed.update({key: value.clone() for key, value in extractor.backbone.state_dict().items()})
        return extractor

    fit = moe.fit_extractor
    monkeypatch.setattr(moe, "fit_extractor", spy)
    run = trainer("moe", backbones=("cnn",), epochs=2)
    mixture = run.predictor()
    assert isinstance(mixture.gate, Member)
    for key, value in mixture.gate.backbone.state_dict().items():
        assert torch.equal(value, fixed[key]), key
    assert mixture.gate.head.weight.any()
    assert not mixture.gate.head.bias.any()
    inputs = load("digits").test.inputs
    gates = mixture.gates(inputs)
    torch.testing.assert_close(gates.sum(1), torch.ones(len(gates)))
    assert gates.std(0).max() > 0.01, "the gate treats samples differently"
    assert (run.bank("test").replay().members_used == 3).all()


def test_refuses_packed_experts(trainer: Trainer) -> None:
    with pytest.raises(OptionError, match="train together have plain backbones"):
        trainer("moe", backbones=("mimo2/mlp",))
