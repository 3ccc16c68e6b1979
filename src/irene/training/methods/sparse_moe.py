"""Sparse mixture of experts (Shazeer et al. 2017): a noisy gate opens for the top few experts, and only they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from irene.data.loader import Batch
from irene.errors import OptionError
from irene.mixture import gate_weights
from irene.training.extractor import features_of, fit_extractor
from irene.training.method import Method, Trained, Training
from irene.training.methods.moe import gate_on, mixture_loss
from irene.training.objective import Objective
from irene.training.options import OptimizerOptions
from irene.training.together import Together
from irene.types import Task


@dataclass(frozen=True, kw_only=True)
class SparseMoeOptions:
    """The options of a sparse mixture: how many experts a sample runs, and the weight of both balancing losses."""

    top: int = 2
    balance: float = 0.1

    def __post_init__(self) -> None:
        if self.top < 1:
            raise OptionError(f"a sample runs at least one expert, got top {self.top}")
        if self.balance < 0:
            raise OptionError(f"the weight of the balancing losses must be at least 0, got {self.balance:g}")


def train(training: Training) -> Trained:
    """Train the feature extractor as `moe` does, then the experts with a noisy gate that keeps the top few.

    In training every expert is run and closed gates give no gradient; only inference saves work. The noise of the
    gate is for training alone: inference keeps the top few of what the gate says, without chance.
    """
    options: SparseMoeOptions = training.options
    count = len(training.backbones)
    if options.top >= count:
        raise OptionError(f"the top {options.top} of {count} members is all of them: give more members, or use moe")
    experts = [training.new_member(index) for index in range(count)]
    together = Together(experts)
    extractor = fit_extractor(training)
    gate = gate_on(extractor, count)
    noisy = NoisyGate(cast(nn.Linear, gate.head))
    objective = SparseObjective(training, features_of(training, extractor), noisy)
    training.fit("experts", together, objective)
    return Trained(members=experts, gate=gate.to(training.device), top=options.top)


@final
class NoisyGate(nn.Module):
    """The gate's weights, and weights that say how much noise each expert's gate gets."""

    def __init__(self, weights: nn.Linear) -> None:
        super().__init__()
        self.clean = weights
        weights.bias.requires_grad_(False)
        self.noise = nn.Linear(weights.in_features, weights.out_features, bias=False)
        nn.init.zeros_(self.noise.weight)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.clean(features), functional.softplus(self.noise(features)) + 0.01


class SparseObjective(Objective):
    """The loss of the mixture of the top experts, and two losses that keep experts equally busy."""

    def __init__(self, training: Training, features: Callable[[Tensor], Tensor], gate: NoisyGate) -> None:
        self.task: Task = training.task
        self.scale_K = training.scale_K
        self.top: int = training.options.top
        self.balance: float = training.options.balance
        self.features = features
        self.companion: NoisyGate = gate
        self.companion_optimizer: OptimizerOptions = training.loop_options.optimizer

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        clean_BT, spread_BT = self.companion(self.features(batch.inputs))
        noisy_BT = clean_BT + torch.randn_like(clean_BT) * spread_BT
        gates_BT = gate_weights(noisy_BT, self.top)
        load_T = chance_of_running(clean_BT, noisy_BT, spread_BT, self.top).sum(0)
        return {
            "mixture": mixture_loss(output, gates_BT, batch.targets, self.task, self.scale_K),
            "importance": self.balance * squared_variation(gates_BT.sum(0)),
            "load": self.balance * squared_variation(load_T),
        }


def chance_of_running(clean_BT: Tensor, noisy_BT: Tensor, spread_BT: Tensor, top: int) -> Tensor:
    """(B, T) how probable each expert is among the top, were its noise drawn again and the others' kept.

    Unlike the count of samples an expert runs, it has a gradient.
    """
    best = noisy_BT.topk(top + 1, dim=1).values
    last_in_B1, first_out_B1 = best[:, top - 1 : top], best[:, top:]
    to_beat_BT = torch.where(noisy_BT > first_out_B1, first_out_B1, last_in_B1)
    chance_BT: Tensor = torch.special.ndtr((clean_BT - to_beat_BT) / spread_BT)
    return chance_BT


def squared_variation(x_T: Tensor) -> Tensor:
    """The squared coefficient of variation: zero when all are equal."""
    return x_T.var(correction=0) / (x_T.mean().square() + 1e-10)


METHOD = Method(
    name="sparse-moe",
    description="experts and a noisy gate that opens for the top 2, which are the only ones to run",
    train=train,
    options=SparseMoeOptions,
)
