"""Residual networks for small images, as He et al. 2016 describe them for CIFAR."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from irene.models.layers import init_convolutions, scaled


def _conv(channels_in: int, channels_out: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, kernel, stride, padding=kernel // 2, bias=False)


@final
class PadShortcut(nn.Module):
    """Shortcut without parameters (option A of the paper): every second pixel, zeros for new channels."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.before = (channels_out - channels_in) // 2
        self.after = channels_out - channels_in - self.before

    def forward(self, x: Tensor) -> Tensor:
        # Pooling with a window of one takes every second pixel and, unlike slicing, keeps the memory layout.
        return F.pad(F.avg_pool2d(x, 1, self.stride), (0, 0, 0, 0, self.before, self.after))


@final
class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, channels_in: int, channels_out: int, stride: int, *, project: bool) -> None:
        super().__init__()
        self.conv1 = _conv(channels_in, channels_out, 3, stride)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = _conv(channels_out, channels_out, 3)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.shortcut: nn.Module
        if stride == 1 and channels_in == channels_out:
            self.shortcut = nn.Identity()
        elif project:
            self.shortcut = nn.Sequential(_conv(channels_in, channels_out, 1, stride), nn.BatchNorm2d(channels_out))
        else:
            self.shortcut = PadShortcut(channels_in, channels_out, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


@final
class ResNet(nn.Module):
    """3x3 stem, stages that halve the picture and double the channels, mean over the picture."""

    def __init__(
        self, channels_in: int, *, base: int, blocks: tuple[int, ...], project: bool, stem_stride: int = 1
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv(channels_in, base, 3, stem_stride), nn.BatchNorm2d(base), nn.ReLU())
        stages: list[nn.Module] = []
        width = base
        for stage, count in enumerate(blocks):
            out = base * 2**stage
            for index in range(count):
                stride = 2 if stage > 0 and index == 0 else 1
                stages.append(Block(width, out, stride, project=project))
                width = out
        self.blocks = nn.Sequential(*stages)
        self.num_features = width
        init_convolutions(self)

    def forward(self, x: Tensor) -> Tensor:
        return torch.mean(self.blocks(self.stem(x)), dim=(2, 3))


def resnet18(shape: tuple[int, ...], width: float = 1.0) -> ResNet:
    """ResNet-18 with a 3x3 stem and no max-pool: 64 to 512 channels."""
    return ResNet(shape[0], base=scaled(64, width), blocks=(2, 2, 2, 2), project=True)


def resnet18_half(shape: tuple[int, ...], width: float = 1.0) -> ResNet:
    """ResNet-18 at half the resolution: a quarter of its FLOPs, in layers as wide."""
    return ResNet(shape[0], base=scaled(64, width), blocks=(2, 2, 2, 2), project=True, stem_stride=2)


def thin_resnet(depth: int, shape: tuple[int, ...], width: float = 1.0) -> ResNet:
    """The CIFAR network of He et al. with 6n + 2 layers: 16, 32 and 64 channels."""
    return ResNet(shape[0], base=scaled(16, width), blocks=((depth - 2) // 6,) * 3, project=False)
