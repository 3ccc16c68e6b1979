"""What a training makes of its samples before any of it begins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from irene.data import from_datasets, split
from irene.models import statistics
from irene.training.loop import Loop
from irene.training.method import Training
from irene.training.options import LoopOptions


class SortedByClass(Dataset[tuple[Tensor, int]]):
    """More samples than are looked at to normalise by, one class after the other, far apart; counts its readings."""

    def __init__(self) -> None:
        self.labels = [0] * 3000 + [1] * 3000
        self.read = 0

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.read += 1
        return torch.tensor([100.0 * self.labels[index] + index % 7, float(index)]), self.labels[index]


def test_samples_read_from_files_are_normalised_by_some_of_all_classes_read_once(
    make_loop: Callable[..., Loop],
) -> None:
    dataset = SortedByClass()
    splits = split(from_datasets(dataset))
    training = Training(
        splits=splits, backbones=("mlp", "mlp"), loop=make_loop(), loop_options=LoopOptions(), options=None
    )
    dataset.read = 0
    members = [training.new_member(index) for index in range(2)]
    assert dataset.read < len(splits.train)
    mean, std = statistics(splits.train.read(range(len(splits.train))))
    for member in members:
        assert member.normalise.get_buffer("mean").tolist() == pytest.approx(mean.tolist(), rel=0.01)
        assert member.normalise.get_buffer("std").tolist() == pytest.approx(std.tolist(), rel=0.01)
