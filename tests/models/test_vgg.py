from __future__ import annotations

import pytest
import torch
from torch import nn

from irene.models import MemberSpec, build
from irene.models.vgg import vgg8


def test_is_seven_convolutions_and_a_linear_layer() -> None:
    member = build(MemberSpec(backbone="vgg8", shape=(3, 32, 32), outputs=10), seed=0)
    widths = [(part.in_channels, part.out_channels) for part in member.modules() if isinstance(part, nn.Conv2d)]
    assert widths == [(3, 32), (32, 64), (64, 64), (64, 192), (192, 192), (192, 256), (256, 256)]
    weights = sum(9 * i * o + 2 * o for i, o in widths) + 256 * 10 + 10  # with the batch norms of all convolutions
    assert sum(parameter.numel() for parameter in member.parameters()) == weights


@pytest.mark.parametrize("size", [(32, 32), (28, 28), (9, 5), (1, 1)])
def test_takes_pictures_of_any_size(size: tuple[int, int]) -> None:
    network = vgg8((3, *size)).eval()
    features = network(torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0)))
    assert features.shape == (2, network.num_features) == (2, 256)
    assert bool(features.isfinite().all())


def test_width_scales_the_channels() -> None:
    assert build(MemberSpec(backbone="vgg8x0.5", shape=(3, 8, 8), outputs=2), seed=0).head.in_features == 128


def test_features_do_not_tell_where_a_thing_lies() -> None:
    """A shift by all strides leaves them, turning the picture upside down does not."""
    network = vgg8((1, 64, 64)).eval()
    picture = torch.zeros(1, 1, 64, 64)
    picture[..., 24:32, 24:32] = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(network(picture), network(picture.roll((8, 8), (2, 3))), atol=1e-5)
        assert not torch.allclose(network(picture), network(picture.flip(2)), atol=1e-5)


def test_features_are_means_over_the_picture() -> None:
    """A thing that is there twice, too far apart for one convolution to see both, counts twice."""
    network = vgg8((1, 64, 192)).eval()
    once = torch.zeros(1, 1, 64, 192)
    once[..., 24:32, 32:40] = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(network(once + once.roll(96, 3)), 2 * network(once))
