"""Lazily read inputs: every kind of sample becomes a raw input, and random transforms are replayed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from irene.data.lazy import LazyInputs, as_input
from irene.errors import DataError


class Noisy(Dataset[tuple[Tensor, int]]):
    """Adds torch noise to each sample, as a random transform would."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((3,), float(index)) + torch.rand(3), index % 2


class Listed(Dataset[tuple[Any, int]]):
    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.values[index], 0


@pytest.mark.parametrize(
    ("value", "shape", "dtype"),
    [
        (np.zeros((8, 9), np.uint8), (1, 8, 9), torch.uint8),
        (np.zeros((8, 9, 3), np.uint8), (3, 8, 9), torch.uint8),
        (torch.zeros(3, 8, 9, dtype=torch.uint8), (3, 8, 9), torch.uint8),
        (Image.new("RGB", (9, 8)), (3, 8, 9), torch.uint8),
        (Image.new("L", (9, 8)), (1, 8, 9), torch.uint8),
        (torch.zeros(3, 8, 9, dtype=torch.float64), (3, 8, 9), torch.float32),
        ([1, 2, 3], (3,), torch.float32),
    ],
)
def test_samples_of_every_kind(value: Any, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = as_input(value)
    assert tuple(tensor.shape) == shape
    assert tensor.dtype == dtype


def test_reading_is_a_function_of_seed_and_sample() -> None:
    inputs = LazyInputs.of(Noisy(), 10)
    together = inputs.read([4, 7, 1], seed=3)
    assert torch.equal(inputs.read([7], seed=3)[0], together[1])
    assert torch.equal(inputs.subset(torch.tensor([7, 0])).read([0], seed=3)[0], together[1])
    assert not torch.equal(inputs.read([7], seed=4)[0], together[1])


def test_reading_leaves_the_global_generator_alone() -> None:
    inputs = LazyInputs.of(Noisy(), 10)
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    inputs.read([0, 1, 2])
    assert torch.equal(torch.rand(2), expected)


def test_reading_nothing_keeps_shape_and_type() -> None:
    nothing = LazyInputs.of(Noisy(), 10).read([])
    assert nothing.shape == (0, 3)
    assert nothing.dtype == torch.float32


def test_samples_of_different_shapes_are_refused() -> None:
    inputs = LazyInputs.of(Listed([torch.zeros(3), torch.zeros(4)]), 2)
    with pytest.raises(DataError, match=r"sample 1 is torch.float32 of shape \(4,\), expected"):
        inputs.read([0, 1])
