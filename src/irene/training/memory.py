"""Whether members fit in memory, told before any of them is trained."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from irene.devices import memory_of
from irene.errors import OptionError, some_of
from irene.models import MemberSpec, build
from irene.models.registry import sketch
from irene.numbers import si
from irene.training.options import OptimizerOptions

_MODULE_BYTES = 2048  # at the least, of a layer in Python beside its tensors


def check_members(
    backbones: Sequence[str],
    shape: tuple[int, ...],
    outputs: int,
    optimizer: OptimizerOptions,
    device: torch.device,
) -> None:
    """Refuse members, one a backbone, that cannot be made or that cannot all be in the memory of this device.

    What is counted is the least that any method needs, so that all that fits is taken: the weights of every member
    and, for one of them alone, gradients and what the optimiser keeps.
    """
    specs = {name: MemberSpec(backbone=name, shape=shape, outputs=outputs) for name in dict.fromkeys(backbones)}
    sketches = {name: sketch(name, shape) for name in specs}
    models = {name: sketches[name] or build(spec, seed=0) for name, spec in specs.items()}
    in_training = 1 + (2 if optimizer.kind == "adam" else optimizer.momentum > 0)
    weights = {name: _bytes(model) for name, model in models.items()}
    kept = {name: weights[name] + _around(model, device) for name, model in models.items()}
    needed = sum(kept[name] for name in backbones) + in_training * max(weights.values())
    there = memory_of(device)
    if there is not None and needed > there:
        members = f"{len(backbones)} members" if len(backbones) > 1 else "a member"
        raise OptionError(
            f"{members} of {some_of(list(specs))} need {si(needed)}B of memory or more, weights and training "
            f"together, and {device} has {si(there)}B: give fewer members or smaller ones (--members, --backbones)"
        )
    for name, spec in specs.items():
        if sketches[name] is not None:
            build(spec, seed=0)


def _bytes(model: nn.Module) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def _around(model: nn.Module, device: torch.device) -> int:
    """What a model takes in the same memory beside its weights."""
    return _MODULE_BYTES * len(list(model.modules())) if device.type == "cpu" else 0
