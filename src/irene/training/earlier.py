"""What members trained before answer to a batch: they are run again, or their saved answers are looked up."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from irene.data.splits import Splits
from irene.training.joint import Earlier
from irene.training.method import Training


def stays_the_same(splits: Splits) -> bool:
    """Whether a training sample is the same in every epoch, so that a frozen member answers it once for all."""
    return splits.train.inputs is not None and not splits.data.augment


def run_again(training: Training, members: Sequence[nn.Module]) -> Earlier:
    """Outputs of frozen members on a batch as it was augmented."""
    forwards = [training.frozen(member) for member in members]
    return lambda batch: torch.stack([forward(batch.inputs) for forward in forwards], 1)


def look_up(columns: Sequence[Tensor], device: torch.device, rows: Tensor | None = None) -> Earlier:
    """Outputs of members on a batch, from one (N, H, K) table a member over the samples, or those `rows` of them."""
    table_NtHK = torch.stack(list(columns), 1)
    table_NtHK = (table_NtHK if rows is None else table_NtHK[rows]).to(device)
    return lambda batch: table_NtHK[batch.index]


def earlier_answers(training: Training, members: Sequence[nn.Module], known: list[Tensor]) -> Earlier:
    """Outputs of frozen members on a batch of the training samples, found once for all where these stay the same.

    `known` keeps what was found, one (N, H, K) table a member, for the next call with more members.
    """
    if not stays_the_same(training.splits):
        return run_again(training, members)
    known += [training.outputs(member, training.splits.train) for member in members[len(known) :]]
    return look_up(known, training.device)
