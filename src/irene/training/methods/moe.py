"""Mixture of experts: a softmax gate on fixed features weights all members (Appendix A.2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from irene.data.loader import Batch
from irene.models import Member, build
from irene.training import losses
from irene.training.extractor import features_of, fit_extractor
from irene.training.method import Method, Trained, Training
from irene.training.objective import Objective
from irene.training.options import OptimizerOptions
from irene.training.together import Together
from irene.types import Task


def train(training: Training) -> Trained:
    """Train the feature extractor E, then the experts together with W_g of the gate softmax(E(x) W_g).

    The paper takes E from a model zoo. No pretrained weights are at hand here, so E is a model of the first
    member's backbone trained for the same task, and then fixed. It runs on every sample beside the experts, which
    a cost in members does not count.
    """
    experts = [training.new_member(index) for index in range(len(training.backbones))]
    together = Together(experts)
    extractor = fit_extractor(training)
    gate = gate_on(extractor, len(experts))
    weights = cast(nn.Linear, gate.head)
    weights.bias.requires_grad_(False)  # the gate is a matrix, without a constant
    objective = MixtureObjective(training, features_of(training, extractor), weights)
    training.fit("experts", together, objective)
    return Trained(members=experts, gate=gate.to(training.device))


class MixtureObjective(Objective):
    """The loss of the whole mixture, for its experts and for the weights of its gate."""

    def __init__(self, training: Training, features: Callable[[Tensor], Tensor], weights: nn.Linear) -> None:
        self.task: Task = training.task
        self.scale_K = training.scale_K
        self.features = features
        self.companion: nn.Linear = weights
        self.companion_optimizer: OptimizerOptions = training.loop_options.optimizer

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        gates_BT = self.companion(self.features(batch.inputs)).softmax(1)
        return {"mixture": mixture_loss(output, gates_BT, batch.targets, self.task, self.scale_K)}


def gate_on(extractor: Member, experts: int) -> Member:
    """A gate with the extractor's features and weights of zero: at first every expert counts the same."""
    gate = build(replace(extractor.spec, outputs=experts), seed=0)
    gate.normalise.load_state_dict(extractor.normalise.state_dict())
    gate.backbone.load_state_dict(extractor.backbone.state_dict())
    for parameter in gate.head.parameters():
        nn.init.zeros_(parameter)
    return gate.eval()


def mixture_loss(
    output_BTK: Tensor, gates_BT: Tensor, target: Tensor, task: Task, scale_K: Tensor | None = None
) -> Tensor:
    """The task's loss of the answer of a mixture: experts weighted by their gates, which may be zero."""
    if task == "regression":
        answer_B1K = (gates_BT[:, :, None] * output_BTK.float()).sum(1, keepdim=True)
        return losses.answer_loss(answer_B1K, target, task, scale_K).mean()
    # In logarithms, so that an expert that is surely wrong still learns; closed gates take no gradient.
    log_gates_BT = torch.where(gates_BT > 0, gates_BT.clamp_min(1e-30).log(), -math.inf)
    log_right_BT = -losses.output_loss(output_BTK, target, task)
    return -torch.logsumexp(log_gates_BT + log_right_BT, 1).mean()


METHOD = Method(
    name="moe",
    description="experts and a softmax gate on fixed features, trained together; all experts run",
    train=train,
)
