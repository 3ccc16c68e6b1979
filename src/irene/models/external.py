"""Backbones that irene does not bring itself: timm models and modules made by the user's own code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor, nn

from irene.errors import OptionError, first_line, import_extra, near
from irene.models.modes import evaluating

Factory = Callable[[tuple[int, ...]], nn.Module]
"""Makes a backbone for samples of one shape."""
_CURRENT_FOLDER = ""  # on Python's path, where it stands for whichever folder that is at the time


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
        except Exception as error:
            raise OptionError(f"backbone {name!r} cannot take inputs of shape {shape}: {_in_a_line(error)}") from error
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


def from_path(path: str, shape: tuple[int, ...]) -> nn.Module:
    """What the function at `module:function` makes for samples of this shape.

    The module is looked for on Python's path, and then in the current folder, which a command has not on its path.
    """
    module_name, _, function_name = path.partition(":")
    if _CURRENT_FOLDER not in sys.path:
        sys.path.append(_CURRENT_FOLDER)
    try:
        factory: object = importlib.import_module(module_name)
    except Exception as error:  # whatever the user's code raises, and an empty or a relative name
        missing = "is it, with all it imports, in the current folder or on the Python path?"
        remedy = missing if isinstance(error, ImportError) else "correct that and try again"
        raise OptionError(
            f"backbone {path!r}: cannot import {module_name!r} ({_in_a_line(error)}): {remedy}"
        ) from error
    for part in function_name.split("."):
        factory = getattr(factory, part, None)
    if not callable(factory):
        raise OptionError(f"backbone {path!r}: {module_name!r} has no function {function_name!r}")
    return from_factory(factory, path, shape)


def from_factory(factory: Callable[..., nn.Module], name: str, shape: tuple[int, ...]) -> nn.Module:
    """What the user's own function makes for samples of this shape; `adapt` sees whether that is a module."""
    try:
        return factory(shape)
    except Exception as error:
        raise OptionError(
            f"backbone {name!r}: its function must make a module from the shape of a sample, {shape}, and raised "
            f"{_in_a_line(error)}"
        ) from error


def _in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}".removesuffix(": ")
