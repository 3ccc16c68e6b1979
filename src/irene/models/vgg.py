"""A short, wide network without shortcuts: few layers, so that a device is bound by arithmetic and not by launches.

Seven 3x3 convolutions after the manner of VGG, as the fastest trainers of CIFAR-10 have them (hlb-CIFAR10, airbench).
"""

from __future__ import annotations

from typing import final

from torch import Tensor, nn

from irene.models.layers import init_convolutions, scaled


@final
class VGG(nn.Module):
    """A stem and blocks of two convolutions, the first of which halves the picture; then the mean of each channel."""

    def __init__(self, channels_in: int, *, stem: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        layers = _layer(channels_in, stem)
        width = stem
        for out in widths:
            # Pictures of any size are halved, the last row and column alone where it is odd.
            layers += [*_layer(width, out), nn.MaxPool2d(2, ceil_mode=True), *_layer(out, out)]
            width = out
        self.layers = nn.Sequential(*layers)
        self.num_features = width
        init_convolutions(self)

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.layers(x).mean((2, 3))  # largest values would be too large for a ResNet's learning rate
        return features


def _layer(channels_in: int, channels_out: int) -> list[nn.Module]:
    conv = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
    return [conv, nn.BatchNorm2d(channels_out), nn.ReLU()]


def vgg8(shape: tuple[int, ...], width: float = 1.0) -> VGG:
    """Seven convolutions and a linear layer: 64, 192 and 256 channels."""
    return VGG(shape[0], stem=scaled(32, width), widths=(scaled(64, width), scaled(192, width), scaled(256, width)))
