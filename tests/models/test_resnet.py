from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from irene.errors import OptionError
from irene.models import MemberSpec, build
from irene.models.resnet import PadShortcut


@pytest.mark.parametrize(
    ("backbone", "classes", "parameters"),
    [
        # The paper's two backbones: 11.2 M and 0.46 M.
        ("resnet18", 10, 11_173_962),
        ("resnet18", 100, 11_220_132),
        ("resnet18s2", 10, 11_173_962),
        ("resnet32", 10, 464_154),
        ("resnet32", 100, 470_004),
        # Table 6 of He et al. 2016: 0.27 M, 0.85 M, 1.7 M.
        ("resnet20", 10, 269_722),
        ("resnet56", 10, 853_018),
        ("resnet110", 10, 1_727_962),
        ("resnet8", 10, 75_290),
        ("resnet14", 10, 172_506),
    ],
)
def test_sizes(backbone: str, classes: int, parameters: int) -> None:
    member = build(MemberSpec(backbone=backbone, shape=(3, 32, 32), outputs=classes), seed=0)
    assert sum(parameter.numel() for parameter in member.parameters()) == parameters


@pytest.mark.parametrize(("width", "features"), [("0.25", 128), ("0.5", 256), ("1", 512), ("2", 1024)])
def test_width_scales_the_channels(width: str, features: int) -> None:
    member = build(MemberSpec(backbone=f"resnet18x{width}", shape=(3, 8, 8), outputs=2), seed=0)
    assert member.head.in_features == features


def test_width_one_is_the_plain_network() -> None:
    plain, scaled = (
        build(MemberSpec(backbone=name, shape=(3, 8, 8), outputs=2), seed=0) for name in ("resnet20", "resnet20x1.0")
    )
    for ours, theirs in zip(plain.parameters(), scaled.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_width_without_channels_is_refused() -> None:
    with pytest.raises(OptionError, match="leaves no channels"):
        build(MemberSpec(backbone="resnet18x0.001", shape=(3, 8, 8), outputs=2), seed=0)


@pytest.mark.parametrize("size", [8, 7, 1])
@pytest.mark.parametrize(("channels_in", "channels_out"), [(16, 32), (5, 10), (3, 6)])
def test_pad_shortcut_takes_every_second_pixel(channels_in: int, channels_out: int, size: int) -> None:
    x = torch.randn(2, channels_in, size, size, generator=torch.Generator().manual_seed(0))
    found = PadShortcut(channels_in, channels_out, 2)(x)
    before = (channels_out - channels_in) // 2
    after = channels_out - channels_in - before
    assert torch.equal(found, F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, before, after)))
    assert found.shape[1] == channels_out
