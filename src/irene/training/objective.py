"""What a model is trained for: the terms of its loss, and whatever is trained beside it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from irene.data.loader import Batch
from irene.training import losses
from irene.training.options import OptimizerOptions
from irene.types import Task


class Objective(ABC):
    """The loss of one training, as named terms that sum to the total.

    Subclasses implement `terms`. An objective that trains something beside the model (IRENE's selector) names
    it in `companion`, with its own optimiser; what it must remember across a restart is in `state`.
    On CUDA the step becomes one graph: `terms` must not synchronise with the host, and tensors that hooks
    change between steps must be changed in place.
    """

    companion: nn.Module | None = None
    companion_optimizer: OptimizerOptions | None = None

    def prepared(self, batch: Batch) -> Batch:
        """What the model and `terms` get of a batch: by default the batch as it is."""
        return batch

    @abstractmethod
    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        """The weighted terms of the loss for the model's raw output on a batch."""

    def begin_epoch(self, model: nn.Module, epoch: int) -> None:
        """Called before each epoch, counted from 0, with the model in evaluation mode."""
        return

    def figures(self) -> dict[str, float]:
        """Further numbers to log at the end of an epoch."""
        return {}

    def state(self) -> dict[str, Tensor]:
        """Tensors that are restored in place on resume; the companion's weights need not be among them."""
        return {}


class Supervised(Objective):
    """The plain loss of one member (Eq. 8), minus the discrepancy of its two heads where it has them (A.1.2)."""

    def __init__(self, task: Task, *, scale_K: Tensor | None = None, discrepancy: float = 0.0) -> None:
        self.task = task
        self.scale_K = scale_K
        self.discrepancy = discrepancy

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        terms = {"base": losses.base_loss(output, batch.targets, self.task, self.scale_K)}
        if self.discrepancy and output.shape[1] > 1:
            terms["discrepancy"] = -self.discrepancy * losses.head_discrepancy(output, self.task, self.scale_K)
        return terms
