from __future__ import annotations

import math
import re

import pytest
import torch

from irene.errors import DataError, OptionError
from irene.models import Member, MemberSpec, as_heads, backbones, build
from irene.models.member import are_probabilities

IMAGES = [name for name in backbones() if name != "mlp"]


def spec(backbone: str = "cnn", shape: tuple[int, ...] = (1, 8, 8), heads: int = 1) -> MemberSpec:
    return MemberSpec(backbone=backbone, shape=shape, outputs=10, heads=heads)


def raw(shape: tuple[int, ...], n: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, *shape), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 7, 5), (2, 4, 4)])
@pytest.mark.parametrize("backbone", ["cnn", "mlp", "resnet8", "resnet18x0.125"])
def test_raw_images_to_heads(backbone: str, shape: tuple[int, ...], heads: int) -> None:
    member = build(spec(backbone, shape, heads), seed=0).eval()
    outputs = member(raw(shape))
    assert outputs.shape == (3, heads, 10)
    assert outputs.dtype == torch.float32
    assert outputs.isfinite().all()
    assert member(raw(shape)[:0]).shape == (0, heads, 10)


def test_features_to_heads() -> None:
    member = build(spec("mlp", (64,), heads=2), seed=0)
    features = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    assert member(features).shape == (5, 2, 10)
    assert member.features(features).shape == (5, 128)


@pytest.mark.parametrize("shape", [(3, 1, 28, 28), (3, 3, 8, 8), (3, 64), (1, 8, 8), (0, 1, 8, 9)])
@pytest.mark.parametrize("backbone", ["cnn", "mlp", "resnet8", "mimo2/cnn"])
def test_inputs_of_another_shape_are_refused(backbone: str, shape: tuple[int, ...]) -> None:
    member = build(spec(backbone), seed=0)
    for answer in (member, member.features):
        with pytest.raises(DataError, match=re.escape(f"shape (batch, 1, 8, 8), got {shape}: resize or reshape")):
            answer(torch.zeros(shape))


def test_heads_share_features_and_differ_in_their_last_layer() -> None:
    member = build(spec(heads=2), seed=0).eval()
    x = raw((1, 8, 8))
    features = member.features(x)
    for head, rows in enumerate((slice(0, 10), slice(10, 20))):
        expected = features @ member.head.weight[rows].T + member.head.bias[rows]
        torch.testing.assert_close(member(x)[:, head], expected)
    assert not torch.equal(member.head.weight[:10], member.head.weight[10:])


@pytest.mark.parametrize("backbone", ["cnn", "mlp", "resnet8"])
def test_weights_depend_on_the_seed_only(backbone: str) -> None:
    torch.manual_seed(1)
    first = build(spec(backbone), seed=7)
    torch.manual_seed(2)
    again, other = build(spec(backbone), seed=7), build(spec(backbone), seed=8)
    for name, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    assert not torch.equal(first.head.weight, other.head.weight)
    assert not torch.equal(next(first.parameters()), next(other.parameters()))


def test_building_leaves_global_randomness_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()

    def refuse(seed: int) -> None:
        raise AssertionError("torch.manual_seed reseeds every accelerator as well")

    monkeypatch.setattr(torch, "manual_seed", refuse)
    build(spec(), seed=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_normalises_inside() -> None:
    x = raw((3, 8, 8), n=5)
    mean, std = torch.tensor([100.0, 50.0, 10.0]), torch.tensor([10.0, 20.0, 30.0])
    inside = build(spec(shape=(3, 8, 8)), seed=0, mean=mean, std=std).eval()
    plain = build(spec(shape=(3, 8, 8)), seed=0).eval()
    outside = (x.float() - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    torch.testing.assert_close(inside(x), plain(outside))


def test_statistics_travel_in_the_state() -> None:
    mean, std = torch.tensor([3.0]), torch.tensor([2.0])
    trained = build(spec(), seed=0, mean=mean, std=std).eval()
    opened = build(spec(), seed=1).eval()
    opened.load_state_dict(trained.state_dict())
    assert torch.equal(opened(raw((1, 8, 8))), trained(raw((1, 8, 8))))


@pytest.mark.parametrize("backbone", IMAGES)
def test_every_gradient_flows(backbone: str) -> None:
    member = build(spec(backbone, (3, 8, 8)), seed=0).train()
    member(raw((3, 8, 8), n=4)).square().sum().backward()
    for name, parameter in member.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("backbone", ["cnn", "mlp", "resnet8", "resnet18x0.125"])
def test_compiles_into_one_graph(backbone: str) -> None:
    torch.compiler.reset()  # what other tests have compiled counts towards a limit
    member = build(spec(backbone, (3, 8, 8), heads=2), seed=0).eval()
    compiled = torch.compile(member, backend="eager", fullgraph=True)
    assert torch.equal(compiled(raw((3, 8, 8))), member(raw((3, 8, 8))))


@pytest.mark.parametrize("backbone", ["cnn", "resnet8", "resnet18x0.125"])
def test_channels_last_from_end_to_end(backbone: str) -> None:
    member = build(spec(backbone, (3, 8, 8)), seed=0).eval()
    expected = member(raw((3, 8, 8)))
    member = member.to(memory_format=torch.channels_last)
    broken: list[str] = []

    def look(name: str, output: torch.Tensor) -> None:
        if output.ndim == 4 and not output.is_contiguous(memory_format=torch.channels_last):
            broken.append(name)

    for name, part in member.named_modules():
        part.register_forward_hook(lambda _part, _inputs, output, name=name: look(name, output))
    found = member(raw((3, 8, 8)).to(memory_format=torch.channels_last))
    assert broken == []
    torch.testing.assert_close(found, expected)


def test_a_sample_does_not_see_the_rest_of_the_batch() -> None:
    mlp = build(spec("mlp", (1, 8, 8)), seed=0).train()
    x = raw((1, 8, 8), n=4)
    torch.testing.assert_close(torch.cat([mlp(x[:2]), mlp(x[2:])]), mlp(x))


def test_first_outputs_are_moderate() -> None:
    # Kaiming initialisation keeps the signal's size through 31 layers: logits are neither 0 nor huge.
    member = build(spec("resnet32", (3, 16, 16)), seed=0).train()
    x = torch.randn(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    assert 0.01 < float(member(x).detach().std()) < math.e


def test_the_spec_is_kept() -> None:
    member = build(spec(heads=2), seed=0)
    assert isinstance(member, Member)
    assert member.spec == spec(heads=2)


def test_as_heads() -> None:
    assert as_heads(torch.zeros(4, 10)).shape == (4, 1, 10)
    assert as_heads(torch.zeros(4, 2, 10)).shape == (4, 2, 10)
    for shape in ((4,), (4, 2, 10, 1)):
        with pytest.raises(OptionError, match=r"\(batch, heads, outputs\)"):
            as_heads(torch.zeros(shape))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[0.2, 0.8], [1.0, 0.0]], True),
        ([[0.2, 0.8], [0.5, 0.504]], True),  # as coarse as bfloat16 makes them
        ([[0.2, 0.8], [0.5, 0.51]], False),
        ([[0.2, 0.8], [1.1, -0.1]], False),
        ([[0.2, 0.8], [float("nan"), 1.0]], False),
        ([[1.0], [1.0]], False),  # of one class it says nothing
        ([], False),
    ],
)
def test_probabilities_are_known_by_their_sums(rows: list[list[float]], expected: bool) -> None:
    assert are_probabilities(torch.tensor(rows)) is expected
    assert not are_probabilities(torch.tensor(rows).log())


@pytest.mark.parametrize("outputs", [2, 10, 1000])
def test_probabilities_in_half_precision_are_known_too(outputs: int) -> None:
    probs = torch.randn(2000, outputs, generator=torch.Generator().manual_seed(0)).mul(3).softmax(1)
    for dtype in (torch.float16, torch.bfloat16):
        assert are_probabilities(probs.to(dtype).float())
