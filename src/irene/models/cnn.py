"""A small convolutional network that learns small pictures within seconds on a CPU."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from irene.models.layers import init_convolutions, scaled


@final
class SmallCNN(nn.Module):
    """Three 3x3 convolutions with batch norm, 32 to 64 channels, then the mean over the picture."""

    def __init__(self, shape: tuple[int, ...], width: float = 1.0) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = shape[0]
        for base, stride in ((32, 1), (64, 2), (64, 1)):
            out = scaled(base, width)
            layers += [
                nn.Conv2d(channels, out, 3, stride, padding=1, bias=False),
                nn.BatchNorm2d(out),
                nn.ReLU(),
            ]
            channels = out
        self.num_features = channels
        self.layers = nn.Sequential(*layers)
        init_convolutions(self)

    def forward(self, x: Tensor) -> Tensor:
        return torch.mean(self.layers(x), dim=(2, 3))
