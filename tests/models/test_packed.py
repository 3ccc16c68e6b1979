from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from irene.errors import OptionError
from irene.models import Member, MemberSpec, build
from irene.models.packed import BatchEnsemble, Mimo, Pack, PackedHead, RankOne, log_mean_probability, shuffled


def spec(backbone: str, shape: tuple[int, ...] = (1, 8, 8), outputs: int = 10, heads: int = 1) -> MemberSpec:
    return MemberSpec(backbone=backbone, shape=shape, outputs=outputs, heads=heads)


def raw(shape: tuple[int, ...], n: int = 6) -> torch.Tensor:
    return torch.randint(0, 256, (n, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["mimo3/cnn", "batch4/resnet18", "mimo2v/mlp", "batch12v/timm/vit_tiny", "mimo2/a:b"])
def test_names_survive(name: str) -> None:
    pack = Pack.parse(name)
    assert pack is not None
    assert pack.name == name


@pytest.mark.parametrize("name", ["cnn", "mimo/cnn", "mimo3", "mimo3/", "batch4w/cnn", "timm/mimo3", "xmimo3/cnn"])
def test_other_names_are_plain(name: str) -> None:
    assert Pack.parse(name) is None


def test_refuses_what_cannot_work() -> None:
    with pytest.raises(OptionError, match="has one head, got 2"):
        build(spec("mimo3/cnn", heads=2), seed=0)
    for name, count in (("batch0/cnn", 0), ("mimo101/cnn", 101)):
        with pytest.raises(OptionError, match=f"has 1 to 100 sub-models, got {count}"):
            build(spec(name), seed=0)
    with pytest.raises(OptionError, match="no backbone is called 'cnm'"):
        build(spec("mimo3/cnm"), seed=0)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 7, 5)])
@pytest.mark.parametrize("backbone", ["mimo3/cnn", "batch3/cnn", "mimo3/mlp", "batch3/mlp", "batch3/resnet8"])
def test_a_head_each_in_training_and_one_in_evaluation(backbone: str, shape: tuple[int, ...]) -> None:
    member = build(spec(backbone, shape), seed=0)
    assert member(raw(shape)).shape == (6, 3, 10)
    member.eval()
    assert member(raw(shape)).shape == (6, 1, 10)
    assert member(raw(shape)[:0]).shape == (0, 1, 10)


@pytest.mark.parametrize("kind", ["mimo", "batch"])
def test_answers_with_the_mean_of_the_sub_models(kind: str) -> None:
    member = build(spec(f"{kind}3/cnn"), seed=0).eval()
    features = member.features(raw((1, 8, 8)))
    assert isinstance(member.head, PackedHead)
    probs = [layer(features[:, m]).softmax(1) for m, layer in enumerate(member.head.layers)]
    torch.testing.assert_close(member(raw((1, 8, 8)))[:, 0].softmax(1), torch.stack(probs).mean(0))

    values = build(spec(f"{kind}3v/cnn", outputs=2), seed=0).eval()
    values.scale_outputs(torch.tensor([5.0, 6.0]), torch.tensor([2.0, 3.0]))
    assert isinstance(values.head, PackedHead)
    answers = [layer(values.features(raw((1, 8, 8)))[:, m]) for m, layer in enumerate(values.head.layers)]
    expected = torch.stack(answers).mean(0) * torch.tensor([2.0, 3.0]) + torch.tensor([5.0, 6.0])
    torch.testing.assert_close(values(raw((1, 8, 8)))[:, 0], expected)


def test_log_mean_probability_of_sure_sub_models_is_finite() -> None:
    logits = torch.tensor([[[1000.0, -1000.0], [1000.0, -1000.0]]])
    mean = log_mean_probability(logits)
    assert mean.isfinite().all()
    torch.testing.assert_close(mean.softmax(2), torch.tensor([[[1.0, 0.0]]]))


def test_log_mean_probability_of_half_precision_is_as_exact_as_its_logits() -> None:
    logits = (4 * torch.randn(50, 3, 10)).to(torch.bfloat16)
    expected = logits.double().softmax(2).mean(1)
    torch.testing.assert_close(log_mean_probability(logits).double().exp()[:, 0], expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("backbone", ["mimo3/cnn", "batch3/resnet8"])
def test_is_rebuilt_from_its_spec_and_weights(backbone: str) -> None:
    mean, std = torch.tensor([90.0]), torch.tensor([8.0])
    member = build(spec(backbone), seed=3, mean=mean, std=std).eval()
    rebuilt = build(MemberSpec.from_dict(member.spec.to_dict()), seed=0)
    rebuilt.load_state_dict(member.state_dict())
    assert torch.equal(rebuilt.eval()(raw((1, 8, 8))), member(raw((1, 8, 8))))


@given(st.integers(0, 40), st.floats(0, 1), st.integers(0, 1000))
def test_shuffling_moves_only_the_share_that_is_not_repeated(rows: int, repetition: float, seed: int) -> None:
    torch.manual_seed(seed)
    order = shuffled(rows, repetition, torch.device("cpu"))
    assert sorted(order.tolist()) == list(range(rows))
    assert int((order == torch.arange(rows)).sum()) >= round(repetition * rows)


def test_in_training_mimo_mixes_samples_and_gives_features_back_in_order() -> None:
    class Recorder(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen = x
            return x

    recorder = Recorder()
    mimo = Mimo(recorder, 3)
    x = torch.arange(20.0).view(10, 2)
    torch.manual_seed(0)
    features = mimo(x)
    for m in range(3):  # sub-model m finds each sample in its own slot of the row its feature comes from
        assert torch.equal(features[:, m, 2 * m : 2 * m + 2], x)
    assert not torch.equal(recorder.seen[:, :2], recorder.seen[:, 2:4])
    mimo.repetition = 1.0
    mimo(x)
    assert torch.equal(recorder.seen, torch.cat([x, x, x], 1))
    mimo.repetition = 0.0
    assert torch.equal(mimo.eval()(x)[:, 1], torch.cat([x, x, x], 1))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(6, 4),
        nn.Linear(6, 4, bias=False),
        nn.Conv2d(6, 4, 3, padding=1),
        nn.Conv2d(6, 4, 3, stride=2, groups=2, bias=False),
    ],
)
def test_a_sub_model_uses_the_weight_times_its_rank_one_factor(layer: nn.Linear | nn.Conv2d) -> None:
    torch.manual_seed(0)
    bias = layer.bias
    wrapped = RankOne(layer, 3)
    for parameter in wrapped.parameters():
        nn.init.normal_(parameter)
    weight = wrapped.layer.weight.detach()
    x = torch.randn(3, 5, 6, 7, 7) if isinstance(layer, nn.Conv2d) else torch.randn(3, 5, 6)
    outputs = wrapped(x.flatten(0, 1)).unflatten(0, (3, 5))
    for m in range(3):
        if isinstance(layer, nn.Conv2d):
            # Each group of outputs sees its own group of inputs.
            seen = wrapped.r[m].view(layer.groups, 1, -1).expand(-1, 4 // layer.groups, -1).reshape(4, -1)
            effective = weight * wrapped.s[m][:, None, None, None] * seen[:, :, None, None]
            own = None if bias is None else wrapped.bias[m]
            expected = nn.functional.conv2d(x[m], effective, own, layer.stride, layer.padding, groups=layer.groups)
        else:
            effective = weight * torch.outer(wrapped.s[m], wrapped.r[m])
            expected = nn.functional.linear(x[m], effective, None if bias is None else wrapped.bias[m])
        torch.testing.assert_close(outputs[m], expected)


def test_sub_models_begin_apart_by_random_signs() -> None:
    wrapped = RankOne(nn.Linear(300, 200), 2)
    for signs in (wrapped.r.detach(), wrapped.s.detach()):
        assert signs.unique().tolist() == [-1, 1]
        assert abs(float(signs.mean())) < 0.2
        assert abs(float((signs[0] * signs[1]).mean())) < 0.3


def test_linear_layers_over_tokens_are_wrapped_too() -> None:
    torch.manual_seed(0)
    wrapped = RankOne(nn.Linear(6, 4), 2)
    x = torch.randn(2 * 3, 5, 6)
    tokens = torch.stack([wrapped(x[:, i]) for i in range(5)], 1)
    torch.testing.assert_close(wrapped(x), tokens)


def test_batch_ensemble_wraps_every_layer_and_shares_the_weights() -> None:
    member, plain = build(spec("batch4/resnet8"), seed=0), build(spec("resnet8"), seed=0)
    assert isinstance(member.backbone, BatchEnsemble)
    convolutions = [part for part in plain.modules() if isinstance(part, nn.Conv2d)]
    assert len([part for part in member.modules() if isinstance(part, RankOne)]) == len(convolutions)
    assert count(member) < 1.2 * count(plain)


def test_subclasses_of_layers_are_left_alone() -> None:
    attention = nn.MultiheadAttention(4, 2)  # reads the weight of its output layer, a subclass of Linear, directly
    wrapped = BatchEnsemble(nn.Sequential(nn.Linear(4, 4), attention), 2).backbone
    assert isinstance(wrapped[0], RankOne)
    assert isinstance(wrapped[1].out_proj, nn.Linear)


@pytest.mark.parametrize("backbone", ["mimo2/cnn", "batch3/cnn", "batch3/mlp"])
def test_is_exported_for_every_batch_size(backbone: str) -> None:
    member = build(spec(backbone), seed=0).eval()
    sizes = ({0: torch.export.Dim("batch", min=1, max=64)},)
    exported = torch.export.export(member, (raw((1, 8, 8)),), dynamic_shapes=sizes).module()
    torch.testing.assert_close(exported(raw((1, 8, 8), 5)), member(raw((1, 8, 8), 5)))


def count(member: Member) -> int:
    return sum(parameter.numel() for parameter in member.parameters())
