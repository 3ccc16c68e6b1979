from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from irene import devices
from irene.errors import DataError, OptionError
from irene.models import MemberSpec, build, measure_cost


def by_hand(member: nn.Module, x: Tensor) -> float:
    """Two FLOPs for every multiply-add of convolutions and linear layers, for one sample."""
    flops: list[int] = []

    def add(part: nn.Module, _inputs: object, output: Tensor) -> None:
        if isinstance(part, nn.Conv2d):
            flops.append(2 * output[0].numel() * part.in_channels * math.prod(part.kernel_size))
        elif isinstance(part, nn.Linear):
            flops.append(2 * part.in_features * part.out_features)

    hooks = [part.register_forward_hook(add) for part in member.modules()]
    member(x[:1])
    for hook in hooks:
        hook.remove()
    return float(sum(flops))


@pytest.mark.parametrize(
    ("backbone", "shape"),
    [("resnet18", (3, 32, 32)), ("resnet32", (3, 32, 32)), ("cnn", (1, 8, 8)), ("mlp", (64,))],
)
def test_counts_agree_with_counting_by_hand(backbone: str, shape: tuple[int, ...]) -> None:
    member = build(MemberSpec(backbone=backbone, shape=shape, outputs=10, heads=2), seed=0).eval()
    x = torch.zeros(2, *shape)
    found = measure_cost(member, x, repeats=1)
    assert found.members == 1
    assert found.parameters == sum(parameter.numel() for parameter in member.parameters())
    assert found.flops == by_hand(member, x)
    assert found.ms > 0


def test_flops_are_per_sample() -> None:
    member = build(MemberSpec(backbone="cnn", shape=(1, 8, 8), outputs=10), seed=0)
    one, many = (measure_cost(member, torch.zeros(n, 1, 8, 8), repeats=1).flops for n in (1, 6))
    assert one == many > 0


@pytest.mark.parametrize(
    ("name", "share"), [("resnet32", 0.124), ("resnet18s2", 0.25), ("resnet18s2x0.5", 0.063), ("vgg8", 0.21)]
)
def test_small_networks_against_resnet18(name: str, share: float) -> None:
    x = torch.zeros(1, 3, 32, 32)
    small, large = (
        measure_cost(build(MemberSpec(backbone=name, shape=(3, 32, 32), outputs=10), seed=0), x).flops
        for name in (name, "resnet18")
    )
    assert small / large == pytest.approx(share, abs=0.001)


def test_leaves_the_member_as_it_was() -> None:
    member = build(MemberSpec(backbone="resnet8", shape=(3, 8, 8), outputs=2), seed=0).train()
    frozen = next(part for part in member.modules() if isinstance(part, nn.BatchNorm2d)).eval()
    before = {name: value.clone() for name, value in member.state_dict().items()}
    modes = [part.training for part in member.modules()]
    measure_cost(member, torch.randn(4, 3, 8, 8))
    assert [part.training for part in member.modules()] == modes
    assert not frozen.training
    for name, value in member.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_leaves_the_inputs_as_they_were() -> None:
    inputs = torch.ones(4, 3)
    measure_cost(lambda batch: batch.mul_(0.5), inputs)
    assert torch.equal(inputs, torch.ones(4, 3))


def test_modes_are_put_back_after_an_error() -> None:
    member = build(MemberSpec(backbone="mlp", shape=(64,), outputs=2), seed=0).train()
    with pytest.raises(DataError):
        measure_cost(member, torch.zeros(2, 63))
    assert all(part.training for part in member.modules())


def test_inputs_are_taken_to_where_the_member_is() -> None:
    member = build(MemberSpec(backbone="mlp", shape=(64,), outputs=2), seed=0).to("meta")
    assert measure_cost(member, torch.zeros(2, 64)).flops > 0


def test_ms_is_the_median_per_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [1.0, 100.0, 2.0, 4.0, 3.0]
    ticks: Iterator[float] = itertools.chain.from_iterable((0.0, value) for value in seconds)
    monkeypatch.setattr(devices, "perf_counter", lambda: next(ticks))
    assert measure_cost(lambda x: x, torch.zeros(4, 1), repeats=5).ms == 1000 * 3.0 / 4


def test_any_callable_has_a_time_but_no_counts() -> None:
    calls: list[int] = []

    def member(x: Tensor) -> Tensor:
        assert not torch.is_grad_enabled()
        calls.append(len(x))
        return x @ x.T

    found = measure_cost(member, torch.zeros(3, 2), repeats=4)
    assert (found.parameters, found.flops) == (0, 0)
    assert found.ms > 0
    assert len(calls) > 4  # warmed up before it was timed


@pytest.mark.parametrize(("repeats", "n"), [(0, 2), (5, 0)])
def test_needs_something_to_measure(repeats: int, n: int) -> None:
    with pytest.raises(OptionError, match="at least 1 repeat and 1 sample"):
        measure_cost(lambda x: x, torch.zeros(n, 1), repeats=repeats)


class Attentive(nn.Module):
    """A transformer's layers, on 16 tokens of 64 values."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        tokens: Tensor = self.encoder(x).mean(1)
        return self.head(tokens)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.layers = kind(64, 32, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        steps, _ = self.layers(x)
        return self.head(steps[:, -1])


@pytest.mark.parametrize("layers", [1, 6])
def test_what_torch_fuses_for_transformers_is_counted(layers: int) -> None:
    tokens, width = 16, 64
    projections = 4 * width * width + 2 * width * 128  # of queries, keys, values and the result; then two linear layers
    by_hand = layers * (2 * tokens * projections + 2 * 2 * tokens * tokens * width) + 2 * width * 5
    fast = torch.backends.mha.get_fastpath_enabled()
    assert measure_cost(Attentive(layers), torch.randn(3, tokens, width), repeats=1).flops == by_hand
    assert torch.backends.mha.get_fastpath_enabled() == fast


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3)])
def test_recurrent_layers_are_counted(kind: type[nn.RNNBase], gates: int) -> None:
    matrices = 2 * gates * 32 * ((64 + 32) + (64 + 32))  # two directions; both layers take 64 values
    by_hand = 2 * 16 * matrices + 2 * 64 * 5
    assert measure_cost(Recurrent(kind), torch.randn(3, 16, 64), repeats=1).flops == by_hand
