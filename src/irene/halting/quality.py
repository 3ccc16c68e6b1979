"""How good an answer is for a sample: right or wrong, or minus its squared error; and what is lost of that."""

from __future__ import annotations

import torch
from torch import Tensor

from irene.types import Task


def quality(answers_NTK: Tensor, targets: Tensor, task: Task) -> Tensor:
    """(N, T) float64: 1 where an answer is right and 0 where wrong; for regression minus the squared error."""
    if task == "classification":
        return (answers_NTK.argmax(2) == targets[:, None]).to(torch.float64)
    targets_NK = targets.reshape(len(targets), -1).to(torch.float64)
    return -(answers_NTK.to(torch.float64) - targets_NK[:, None]).square().mean(2)


def drop(lost: Tensor, full: Tensor, task: Task) -> Tensor:
    """Accuracy lost against the whole ensemble; for regression the relative growth of the squared error.

    `lost` is the mean quality lost and `full` that of the whole ensemble. From no error at all, any growth is infinite.
    """
    if task == "classification":
        return lost
    return torch.where(lost == 0, lost, lost / full.abs())
