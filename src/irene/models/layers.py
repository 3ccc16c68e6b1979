"""What our backbones share in making their layers: how wide one is, and how convolutions begin."""

from __future__ import annotations

from torch import nn

from irene.errors import OptionError


def init_convolutions(module: nn.Module) -> None:
    """Kaiming initialisation of every convolution, for networks of ReLUs."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")


def scaled(base: int, width: float) -> int:
    """A number of channels times a width; none at all are refused."""
    channels = round(base * width)
    if channels < 1:
        raise OptionError(f"width {width:g} leaves no channels: give at least {1 / base:g}")
    return channels
