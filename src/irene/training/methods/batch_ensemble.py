"""BatchEnsemble (Wen et al. 2020): sub-models that share all weights but rank-1 factors."""

from __future__ import annotations

from dataclasses import dataclass

from irene.errors import OptionError
from irene.training.method import Method, Trained, Training


@dataclass(frozen=True, kw_only=True)
class BatchEnsembleOptions:
    """The option of BatchEnsemble: how many sub-models."""

    submodels: int = 4

    def __post_init__(self) -> None:
        if self.submodels < 1:
            raise OptionError(f"BatchEnsemble needs at least 1 sub-model, got {self.submodels}")


def train(training: Training) -> Trained:
    """Train one member that holds all sub-models; every one of them learns from every sample.

    It has little more parameters than one model, but computes as much as all sub-models: its cost in members is 1,
    its FLOPs and milliseconds tell the truth.
    """
    options: BatchEnsembleOptions = training.options
    member = training.new_packed("batch", options.submodels)
    training.fit("member-1", member)
    return Trained(members=[member])


METHOD = Method(
    name="batch-ensemble",
    description="sub-models that share weights up to rank-1 factors: the memory of one model, the time of all",
    train=train,
    options=BatchEnsembleOptions,
    members=1,
)
