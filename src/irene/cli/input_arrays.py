"""Samples in arrays: those of .npz files, and what makes an array fit a run."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from irene.data.arrays import as_inputs
from irene.errors import DataError


def read_npz(path: Path, shape: tuple[int, ...]) -> Tensor:
    """The array `x` of a .npz file as raw inputs of a run that takes samples of this shape."""
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not a .npz file, or it is cut short: write it with numpy.savez(path, x=inputs)")
    try:
        with np.load(path, allow_pickle=False) as archive:
            values = archive["x"]
    except KeyError:
        raise DataError(f"{path} has no array x: write the inputs with numpy.savez(path, x=inputs)") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} cannot be read as a .npz file: {error}") from None
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
