"""Evaluation mode for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(module: object) -> Iterator[None]:
    """Evaluation mode, with the mode of every part put back after; what is no torch module has none."""
    modes = {part: part.training for part in module.modules()} if isinstance(module, nn.Module) else {}
    try:
        for part in modes:
            part.training = False
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
