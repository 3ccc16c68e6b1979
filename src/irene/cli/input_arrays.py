"""Samples in arrays: those of .npz files, and what makes an array fit a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from irene.data.arrays import as_inputs
from irene.data.npz import read_npz
from irene.errors import DataError


def read_inputs(path: Path, shape: tuple[int, ...]) -> Tensor:
    """The array `x` of a .npz file as raw inputs of a run that takes samples of this shape."""
    values = read_npz(path, only="x").get("x")
    if values is None:
        raise DataError(f"{path} has no array x: write the inputs with numpy.savez(path, x=inputs)")
    if not values.size:
        raise DataError(f"{path} holds no samples: its array x is empty")
    return as_samples(path, values, shape)


def as_samples(path: Path, values: Any, shape: tuple[int, ...], *, first: int = 0) -> Tensor:
    """An array from a file as raw inputs, if it holds samples of this shape; errors count from `first` on."""
    try:
        inputs = as_inputs(values, first=first)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    if tuple(inputs.shape[1:]) != shape:
        raise DataError(f"{path} has samples of shape {tuple(inputs.shape[1:])}, the run takes {shape}")
    return inputs
