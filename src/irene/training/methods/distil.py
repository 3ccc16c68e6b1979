"""Distillation within an ensemble: the costliest member is trained first, and each later one learns from those before.

The loss is that of Hinton et al. 2015 with the mean of several teachers; among members of one size it is a born-again
network (Furlanello et al. 2018), and a small member that is to run first learns from all the large ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from irene.data.loader import Batch
from irene.errors import OptionError
from irene.models import Member
from irene.training import losses
from irene.training.earlier import earlier_answers
from irene.training.joint import Earlier
from irene.training.method import Method, Trained, Training
from irene.training.objective import Objective, Supervised


@dataclass(frozen=True, kw_only=True)
class DistilOptions:
    """How much the answers of earlier members count beside the labels, and how much those of classes are softened."""

    weight: float = 0.9
    temperature: float = 4.0

    def __post_init__(self) -> None:
        if not 0 < self.weight <= 1:
            raise OptionError(f"the weight of what others teach must be above 0 and at most 1, got {self.weight:g}")
        if self.temperature <= 0:
            raise OptionError(f"the temperature that softens answers must be above 0, got {self.temperature:g}")


def train(training: Training) -> Trained:
    """Members keep the order they were asked for in, which is the one they run in; they are trained in another."""
    members: dict[int, Member] = {}
    known: list[Tensor] = []
    for index in costliest_first(training):
        member = training.new_member(index)
        objective = None
        if members:
            objective = TaughtObjective(training, earlier_answers(training, list(members.values()), known))
        training.fit(f"member-{index + 1}", member, objective)
        members[index] = member.requires_grad_(False)
    return Trained(members=[members[index] for index in sorted(members)])


def costliest_first(training: Training) -> list[int]:
    """The members by their FLOPs, those alike in the order they were asked for."""
    flops = [
        training.cost(training.new_member(index).to(training.device)).flops for index in range(len(training.backbones))
    ]
    return sorted(range(len(flops)), key=lambda index: -flops[index])


class TaughtObjective(Objective):
    """The labels, and the mean answer of the members that are trained already."""

    def __init__(self, training: Training, teachers: Earlier) -> None:
        self.options: DistilOptions = training.options
        self.base = Supervised(training.task, scale_K=training.scale_K)
        self.teachers = teachers

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        base, options = self.base, self.options
        taught = losses.teaching_loss(output, self.teachers(batch), base.task, options.temperature, base.scale_K)
        return {
            "base": (1 - options.weight) * base.terms(batch, output)["base"],
            "teaching": options.weight * taught,
        }


METHOD = Method(
    name="distil",
    description="the costliest member is trained first and teaches the others: for small members that run first",
    train=train,
    options=DistilOptions,
)
