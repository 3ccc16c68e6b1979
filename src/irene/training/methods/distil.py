"""Distillation within an ensemble: the costliest members, trained on labels alone or there already, teach all others.

The loss is that of Hinton et al. 2015 with the mean of several teachers. Members of one size do not teach each other:
as born-again networks (Furlanello et al. 2018) each gets better, and their ensemble worse (docs/design.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from irene.data.loader import Batch
from irene.errors import OptionError
from irene.models import Member
from irene.run import Run
from irene.training import losses
from irene.training.earlier import earlier_answers
from irene.training.method import Method, Trained, Training
from irene.training.objective import Objective, Supervised
from irene.training.sharing import members_like
from irene.training.together import Together


@dataclass(frozen=True, kw_only=True)
class DistilOptions:
    """How much the teachers' answers count beside the labels, how much those of classes are softened, and who teaches.

    `teachers` is a run that has the costliest members already: they are taken from it and not trained. Those who are
    taught learn for `taught_epochs`, by default for as many as the teachers.
    """

    weight: float = 0.9
    temperature: float = 4.0
    teachers: str | None = None
    taught_epochs: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.weight <= 1:
            raise OptionError(f"the weight of what others teach must be above 0 and at most 1, got {self.weight:g}")
        if not 0 < self.temperature < math.inf:
            raise OptionError(
                f"the temperature that softens answers must be above 0 and finite, got {self.temperature:g}"
            )
        if self.taught_epochs is not None and self.taught_epochs < 1:
            raise OptionError(f"the epochs of teaching must be above 0, got {self.taught_epochs}")


def train(training: Training) -> Trained:
    """Members keep the order they were asked for in, which is the one they run in; they are trained in another.

    Those who are taught learn side by side, from one answer of the teachers to each batch: asking these is most of what
    teaching takes.
    """
    members = [training.new_member(index).to(training.device) for index in range(len(training.backbones))]
    flops = [training.cost(member).flops for member in members]
    largest = [index for index, cost in enumerate(flops) if cost == max(flops)]
    smaller = [index for index, cost in enumerate(flops) if cost < max(flops)]
    if not smaller:
        raise OptionError(
            f"distil has costly members teach cheaper ones, and these cost the same: {', '.join(training.backbones)}; "
            "give --backbones that differ, small ones first, or train with average"
        )
    teachers, taught = ([members[index] for index in group] for group in (largest, smaller))
    if training.options.teachers is None:
        for index, teacher in zip(largest, teachers, strict=True):
            training.fit(f"member-{index + 1}", teacher)
    else:
        known = members_like(teachers, Run.open(training.options.teachers), training.splits)
        for teacher, trained in zip(teachers, known, strict=True):
            teacher.load_state_dict(trained.state_dict())
    loop = training.loop_options
    loop = replace(loop, epochs=training.options.taught_epochs or loop.epochs)
    training.fit("taught", Together(taught), TaughtObjective(training, teachers), options=loop)
    return Trained(members=members)


class TaughtObjective(Objective):
    """The labels, and the mean answer of the teachers, for members side by side: the sum of what each would have."""

    def __init__(self, training: Training, teachers: Sequence[Member]) -> None:
        self.options: DistilOptions = training.options
        self.base = Supervised(training.task, scale_K=training.scale_K)
        self.teachers = earlier_answers(training, teachers, [])

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        base, options = self.base, self.options
        taught = losses.teaching_loss(output, self.teachers(batch), base.task, options.temperature, base.scale_K)
        members = output.shape[1]
        return {  # no term is called base, which stands for a whole loss where learning is shown
            "labels": members * (1 - options.weight) * base.terms(batch, output)["base"],
            "teaching": members * options.weight * taught,
        }


METHOD = Method(
    name="distil",
    description="the costliest members teach the others: for small members that run first",
    train=train,
    options=DistilOptions,
)
