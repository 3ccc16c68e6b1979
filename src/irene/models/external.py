"""Backbones that irene does not bring itself: timm models and modules made by the user's own code."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor, nn

from irene.errors import OptionError, first_line, import_extra, near
from irene.models.modes import evaluating

Factory = Callable[[tuple[int, ...]], nn.Module]
"""Makes a backbone for samples of one shape."""


@final
class FeaturesOf(nn.Module):
    """Calls a module's `features` method in place of its `forward`."""

    module: Any

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.module.features(x)
        return features


def adapt(module: object, name: str, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """The user's module as a backbone, with the width of its features, tried on one sample of zeros."""
    if not isinstance(module, nn.Module):
        raise OptionError(f"backbone {name!r} must make a torch.nn.Module, got {type(module).__name__}")
    method = getattr(module, "features", None)
    # A `features` that is itself a module (as in torchvision's VGG) is a part of it, not its feature vector.
    backbone = FeaturesOf(module) if callable(method) and not isinstance(method, nn.Module) else module
    with torch.no_grad(), evaluating(backbone):
        try:
            found = backbone(torch.zeros(1, *shape))
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            raise OptionError(f"backbone {name!r} cannot take inputs of shape {shape}: {first_line(error)}") from error
    if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != 1:
        got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise OptionError(
            f"backbone {name!r} must return features of shape (batch, width), got {got} for a batch of 1: "
            "give it a features() method that pools and flattens"
        )
    width = found.shape[1]
    claimed = getattr(module, "num_features", width)
    if name.startswith("timm/") or claimed == width:
        # timm's num_features is the width before a model's own pre-classifier layers, not of what it returns.
        return backbone, width
    raise OptionError(f"backbone {name!r} says num_features = {claimed} but returns features of width {width}")


def from_timm(name: str, shape: tuple[int, ...]) -> nn.Module:
    """A timm model without its classifier, untrained, for images of this shape."""
    timm = import_extra("timm", "timm")
    if not timm.is_model(name):
        raise OptionError(f"timm has no model {name!r}{near(name, timm.list_models())}")
    options: dict[str, Any] = {"pretrained": False, "num_classes": 0, "in_chans": shape[0]}
    config = timm.get_pretrained_cfg(name)
    if config is not None and config.fixed_input_size:
        options["img_size"] = shape[1:]
    model: nn.Module = timm.create_model(name, **options)
    return model


def from_path(path: str) -> Factory:
    """The factory at `module:function`."""
    module_name, _, function_name = path.partition(":")
    try:
        factory: object = importlib.import_module(module_name)
    except (ImportError, ValueError, TypeError) as error:  # the last two: an empty or a relative name
        raise OptionError(
            f"backbone {path!r}: cannot import {module_name!r} ({error}): is it on the Python path?"
        ) from error
    for part in function_name.split("."):
        factory = getattr(factory, part, None)
    if not callable(factory):
        raise OptionError(f"backbone {path!r}: {module_name!r} has no function {function_name!r}")
    return factory
