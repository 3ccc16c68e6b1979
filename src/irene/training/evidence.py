"""Evidence: what members answer on samples they did not train on, which is what a selector learns from.

On its own training data a member is right almost everywhere, so a selector that learns there halts everything
at the first step. Evidence comes from a held-out slice, or from out-of-fold predictions of the training data.
"""

from __future__ import annotations

import torch
from torch import Tensor

from irene.halting.features import already_final, feature_table
from irene.halting.rule import Aggregation
from irene.training import losses
from irene.types import Task

REGRET = 0.2  # the mean regret, where a cost of one is that of the dearest member; 0.1 and 0.3 do as well


class Evidence:
    """Tables over M samples and the t members so far, on the training device, updated in place.

    features (M, t, F) are what the selector sees. regret (M, t) is what is lost by the answer at each step in place of
    that of all t members, scaled to a mean of REGRET: how large it is by itself depends on the data, and dual ascent
    weighs it against costs. It needs no labels, and tells more than which few answers in a hundred are wrong.
    member_loss and reference_loss (M,) are of the newest member and of the ensemble before it, for L_rank.
    """

    def __init__(
        self,
        outputs_MtHK: Tensor,
        targets: Tensor,
        *,
        names: tuple[str, ...],
        task: Task,
        device: torch.device,
        aggregation: Aggregation | None = None,
        scale_K: Tensor | None = None,
    ) -> None:
        self.names = names
        self.task: Task = task
        self.scale_K = scale_K
        self.aggregation = aggregation or Aggregation.equal(outputs_MtHK.shape[1])
        self.outputs = outputs_MtHK.to(device, copy=True)  # `refresh` writes into it
        self.targets = targets.to(device)
        self.features, self.regret, self.member_loss, self.reference_loss = self._tables()

    def __len__(self) -> int:
        return len(self.outputs)

    @property
    def steps(self) -> int:
        return self.outputs.shape[1]

    @torch.no_grad()
    def stays(self) -> Tensor:
        """(M, t): whether the label at each step is already that of all t members."""
        _, means_MtK = feature_table(self.names, self.outputs, self.aggregation, self.task)
        return already_final(means_MtK)

    @torch.no_grad()
    def refresh(self, newest_MHK: Tensor) -> None:
        """Put in the newest member's outputs as they are now."""
        self.outputs[:, -1] = newest_MHK.to(self.outputs)
        tables = (self.features, self.regret, self.member_loss, self.reference_loss)
        for table, new in zip(tables, self._tables(), strict=True):
            table.copy_(new)

    @torch.no_grad()
    def _tables(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        features_MtF, means_MtK = feature_table(self.names, self.outputs, self.aggregation, self.task)
        newest_M = losses.output_loss(self.outputs[:, -1], self.targets, self.task, self.scale_K)[:, 0]
        before_M1K = means_MtK[:, -2:-1] if self.steps > 1 else means_MtK
        reference_M = losses.answer_loss(before_M1K, self.targets, self.task, self.scale_K)[:, 0]
        regret_Mt = losses.regret(means_MtK, self.task, self.scale_K)
        regret_Mt *= REGRET / regret_Mt.mean().clamp_min(torch.finfo(regret_Mt.dtype).tiny)
        return features_MtF, regret_Mt, newest_M, reference_M
