"""Inputs that are read from a torch Dataset as they are needed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from irene.devices import one_thread
from irene.errors import DataError

CHANNELS = (1, 3)  # the channel counts by which a channels-last image is recognised
_SEEDS = 2**63


def channels_first(images: Tensor) -> Tensor:
    """Images (..., H, W, C) with 1 or 3 channels as (..., C, H, W); anything else as it is."""
    if images.shape[-1] in CHANNELS and images.shape[-3] not in CHANNELS:
        return images.movedim(-1, -3).contiguous()
    return images


def as_input(value: Any) -> Tensor:
    """A sample of a Dataset (tensor, array or PIL image) as a raw input: a uint8 image or float32 values."""
    tensor = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
    if tensor.dtype == torch.uint8 and tensor.ndim in (2, 3):
        return channels_first(tensor) if tensor.ndim == 3 else tensor.unsqueeze(0)
    return tensor.to(torch.float32)


class LazyInputs:
    """The inputs of a torch Dataset that yields (input, target), at chosen positions."""

    def __init__(self, dataset: Dataset[Any], positions: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.dataset = dataset
        self.positions = positions
        self.shape = shape
        self.dtype = dtype

    @classmethod
    def of(cls, dataset: Dataset[Any], length: int) -> LazyInputs:
        """All inputs of a Dataset; its first sample tells the shape."""
        first = as_input(dataset[0][0])
        return cls(dataset, torch.arange(length), tuple(first.shape), first.dtype)

    def __len__(self) -> int:
        return len(self.positions)

    def subset(self, indices: Tensor) -> LazyInputs:
        return LazyInputs(self.dataset, self.positions[indices], self.shape, self.dtype)

    def read(self, indices: Sequence[int], seed: int = 0) -> Tensor:
        """The inputs at these indices as one tensor.

        Each sample is read by one thread, with the generators of torch (on the CPU), numpy and Python seeded by
        (seed, sample), so that it is the same to the bit whichever process reads it. The caller's generators are
        left as they were.
        """
        if not indices:
            return torch.zeros((0, *self.shape), dtype=self.dtype)
        with _generators_kept(), one_thread():  # sums depend on it, and a DataLoader's workers have one
            return torch.stack([self._read_one(int(self.positions[i]), seed) for i in indices])

    def _read_one(self, position: int, seed: int) -> Tensor:
        _seed((seed + position) % _SEEDS)
        value = as_input(self.dataset[position][0])
        if tuple(value.shape) != self.shape or value.dtype != self.dtype:
            raise DataError(
                f"sample {position} is {value.dtype} of shape {tuple(value.shape)}, expected {self.dtype} of "
                f"shape {self.shape} like the first: make all samples alike in the Dataset"
            )
        return value


def _seed(seed: int) -> None:
    # Not torch.manual_seed: that would seed the accelerators too.
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


@contextmanager
def _generators_kept() -> Iterator[None]:
    """Leave the generators as they were."""
    of_torch, of_numpy, of_python = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(of_torch)
        np.random.set_state(of_numpy)
        random.setstate(of_python)
