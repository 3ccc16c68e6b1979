"""A small convolutional network that learns small pictures within seconds on a CPU."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from irene.models.resnet import init_convolutions


@final
class SmallCNN(nn.Module):
    """Three 3x3 convolutions with batch norm, 32 to 64 channels, then the mean over the picture."""

    num_features = 64

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = shape[0]
        for out, stride in ((32, 1), (64, 2), (64, 1)):
            layers += [
                nn.Conv2d(width, out, 3, stride, padding=1, bias=False),
                nn.BatchNorm2d(out),
                nn.ReLU(),
            ]
            width = out
        self.layers = nn.Sequential(*layers)
        init_convolutions(self)

    def forward(self, x: Tensor) -> Tensor:
        return torch.mean(self.layers(x), dim=(2, 3))
