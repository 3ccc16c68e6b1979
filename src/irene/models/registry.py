"""The backbones by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from irene.errors import OptionError, near
from irene.models.cnn import SmallCNN
from irene.models.external import Factory, adapt, from_factory, from_path, from_timm
from irene.models.mlp import MLP
from irene.models.resnet import resnet18, resnet18_half, thin_resnet
from irene.models.vgg import vgg8

_WIDTH = re.compile(r"(?P<name>.+)x(?P<width>\d+(\.\d+)?)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class _Entry:
    factory: Callable[..., nn.Module]
    description: str
    images: bool = True
    """Takes images only."""
    widths: bool = True
    """The factory takes a number, after the shape, by which all widths are multiplied."""


def _thin(depth: int, millions: str) -> _Entry:
    return _Entry(
        factory=partial(thin_resnet, depth),
        description=f"thin CIFAR ResNet with {depth} layers, {millions} M parameters",
    )


_ENTRIES: dict[str, _Entry] = {
    "resnet18": _Entry(
        factory=resnet18, description="ResNet-18 for small images: 3x3 stem, no max-pool, 11.2 M parameters"
    ),
    "resnet18s2": _Entry(
        factory=resnet18_half,
        description="ResNet-18 with a stem of stride 2: a quarter of its FLOPs, in layers as wide",
    ),
    "vgg8": _Entry(
        factory=vgg8,
        description="seven wide convolutions and no shortcuts: a fifth of ResNet-18's FLOPs, quick on a GPU",
    ),
    "resnet8": _thin(8, "0.08"),
    "resnet14": _thin(14, "0.17"),
    "resnet20": _thin(20, "0.27"),
    "resnet32": _thin(32, "0.46"),
    "resnet56": _thin(56, "0.85"),
    "resnet110": _thin(110, "1.73"),
    "cnn": _Entry(factory=SmallCNN, description="three convolutions with batch norm, for small images such as digits"),
    "mlp": _Entry(factory=MLP, description="two hidden layers of 128, for tables; images are flattened", images=False),
}


def backbones() -> dict[str, str]:
    """Every backbone that can be built by its plain name, with one line about it."""
    return {name: entry.description for name, entry in _ENTRIES.items()}


def register(name: str, factory: Factory, description: str) -> None:
    """Give your own backbone a name: `factory(shape)` makes a module that returns features (batch, width).

    The module may have a `features(x)` method, which is then called in place of the module itself. The name
    has to be registered in every process that opens a run made with it; `module:function` needs no such step.
    """
    if not _NAME.fullmatch(name) or _with_width(name) is not None:
        raise OptionError(
            f"a backbone's name takes letters, digits, '.', '_' and '-' and is not one with a width, such as "
            f"resnet18x0.5, got {name!r}"
        )
    if name in _ENTRIES:
        raise OptionError(f"backbone {name!r} exists already: choose another name")
    _ENTRIES[name] = _Entry(
        factory=partial(from_factory, factory, name), description=description, images=False, widths=False
    )


def make_backbone(name: str, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """The backbone of this name for samples of this shape, and how wide its features are."""
    return adapt(_make(name, shape), name, shape)


def sketch(name: str, shape: tuple[int, ...]) -> nn.Module | None:
    """A widened backbone, which may fit in no memory, without its numbers; None for all others."""
    widened = _with_width(name)
    if widened is None or widened[1][0] <= 1:
        return None
    try:
        with torch.device("meta"):
            return _make(name, shape)
    except (RuntimeError, TypeError):
        raise OptionError(f"backbone {name!r} has more weights than can be counted: give a smaller width") from None


def _make(name: str, shape: tuple[int, ...]) -> nn.Module:
    if name.startswith("timm/"):
        _need_images(name, shape)
        return from_timm(name.removeprefix("timm/"), shape)
    if ":" in name:
        return from_path(name, shape)
    plain, widths = _with_width(name) or (name, ())
    entry = _ENTRIES.get(plain)
    if entry is None:
        raise OptionError(
            f"no backbone is called {name!r}{near(name, _ENTRIES)}; there are {', '.join(_ENTRIES)}, "
            "irene's own also with a width such as resnet18x0.25, timm/NAME and module:function"
        )
    if entry.images:
        _need_images(name, shape)
    return entry.factory(shape, *widths)


def _with_width(name: str) -> tuple[str, tuple[float]] | None:
    """The plain name and the width of a name that has one, if its backbone can be had in other widths."""
    found = _WIDTH.fullmatch(name)
    if found is None or found["name"] not in _ENTRIES or not _ENTRIES[found["name"]].widths:
        return None
    return found["name"], (float(found["width"]),)


def _need_images(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 3:
        raise OptionError(f"backbone {name!r} takes images of shape (C, H, W), got samples of shape {shape}: use 'mlp'")
