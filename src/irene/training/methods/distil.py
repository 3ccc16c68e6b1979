"""Distillation within an ensemble: the costliest members, trained on labels alone or there already, teach all others.

The loss is that of Hinton et al. 2015 with the mean of several teachers. Members of one size do not teach each other:
as born-again networks (Furlanello et al. 2018) each gets better, and their ensemble worse (docs/design.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from irene.data.loader import Batch
from irene.errors import OptionError, some_of
from irene.models import Member
from irene.run import Run
from irene.training import losses
from irene.training.earlier import earlier_answers, run_again
from irene.training.method import Method, Trained, Training
from irene.training.objective import Objective, Supervised
from irene.training.sharing import members_like
from irene.training.together import Together
from irene.training.warmstart import Later, check_alike, check_later, go_on, rise_and_fall


@dataclass(frozen=True, kw_only=True)
class DistilOptions:
    """How much the teachers' answers count beside the labels, how much those of classes are softened, and who teaches.

    `teachers` is a run that has the costliest members already: they are taken from it and not trained. `later` says
    what teachers after the first begin with: new weights, or those of the one before, from which they go on in a cycle
    of fast geometric ensembling; the last in running order is then trained first, so that of the teachers the one
    trained longest runs first. Taught members learn for `taught_epochs`, by default as many as the teachers. `mixed`
    shows them mixtures of two images (Beyer et al. 2022), which only the teachers can answer: whatever the weight,
    labels then count nothing.
    """

    weight: float = 0.9
    temperature: float = 4.0
    teachers: str | None = None
    later: Later = "anew"
    taught_epochs: int | None = None
    mixed: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.weight <= 1:
            raise OptionError(f"the weight of what others teach must be above 0 and at most 1, got {self.weight:g}")
        if not 0 < self.temperature < math.inf:
            raise OptionError(
                f"the temperature that softens answers must be above 0 and finite, got {self.temperature:g}"
            )
        check_later(self.later)
        if self.later == "go-on" and self.teachers is not None:
            raise OptionError(
                f"teachers of another run are trained already, so they cannot go on: leave out later or teachers, got "
                f"{self.teachers}"
            )
        if self.taught_epochs is not None and self.taught_epochs < 1:
            raise OptionError(f"the epochs of teaching must be above 0, got {self.taught_epochs}")


def train(training: Training) -> Trained:
    """Train the costliest members, then have them teach the others; members run in the order that was asked for.

    Taught members learn side by side from one answer of the teachers to each batch, which takes most of the time.
    """
    flops = [cost.flops for cost in training.costs()]
    most = max(flops)
    largest = [index for index, cost in enumerate(flops) if cost == most]
    smaller = [index for index, cost in enumerate(flops) if cost < most]
    if not smaller:
        raise OptionError(
            f"distil has costly members teach cheaper ones, and these cost the same: {some_of(training.backbones)}; "
            "give --backbones that differ, small ones first, or train with average"
        )
    shape = training.splits.data.shape
    if training.options.mixed and len(shape) != 3:
        raise OptionError(f"mixed is for images (C, H, W), got inputs of shape {shape}: leave it out")
    members = [training.new_member(index).to(training.device) for index in range(len(training.backbones))]
    if training.options.teachers is not None:
        wanted = [members[index] for index in largest]
        known = members_like(wanted, Run.open(training.options.teachers), training.splits)
        for teacher, trained in zip(wanted, known, strict=True):
            teacher.load_state_dict(trained.state_dict())
    elif training.options.later == "go-on":
        train_on(training, members, largest)
    else:
        for index in largest:
            training.fit(f"member-{index + 1}", members[index])
    teachers, taught = ([members[index] for index in group] for group in (largest, smaller))
    loop = training.loop_options
    loop = replace(loop, epochs=training.options.taught_epochs or loop.epochs)
    training.fit("taught", Together(taught), TaughtObjective(training, teachers), options=loop)
    return Trained(members=members)


def train_on(training: Training, members: list[Member], alike: Sequence[int]) -> None:
    """Train the members listed in `alike`, the last one first, each on from the weights of the one behind it."""
    check_alike([training.backbones[index] for index in alike], "distil with teachers that go on")
    cycle = rise_and_fall(training.loop_options, training.loop_options.epochs)
    training.fit(f"member-{alike[-1] + 1}", members[alike[-1]])
    for behind, index in pairwise(reversed(alike)):
        members[index] = go_on(training, f"member-{index + 1}", members[behind], cycle, index=index)


class TaughtObjective(Objective):
    """Learning from labels and from the teachers' mean answer, side by side: the sum of every member's loss."""

    def __init__(self, training: Training, teachers: Sequence[Member]) -> None:
        self.options: DistilOptions = training.options
        self.base = Supervised(training.task, scale_K=training.scale_K)
        # Mixtures are never the same twice, so nothing can be looked up.
        self.teachers = run_again(training, teachers) if self.options.mixed else earlier_answers(training, teachers, [])

    def prepared(self, batch: Batch) -> Batch:
        return replace(batch, inputs=mix(batch.inputs)) if self.options.mixed else batch

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        base, options = self.base, self.options
        taught = losses.teaching_loss(output, self.teachers(batch), base.task, options.temperature, base.scale_K)
        members = output.shape[1]
        if options.mixed:
            return {"teaching": members * taught}
        return {  # no term is called base, which stands for a whole loss where learning is shown
            "labels": members * (1 - options.weight) * base.terms(batch, output)["base"],
            "teaching": members * options.weight * taught,
        }


def mix(inputs_BCHW: Tensor) -> Tensor:
    """Mix each image with another one of the batch, in shares drawn evenly from 0 to 1; their type stays."""
    share_B111 = torch.rand(len(inputs_BCHW), 1, 1, 1, device=inputs_BCHW.device)
    mixed_BCHW = torch.lerp(inputs_BCHW.roll(1, 0).float(), inputs_BCHW.float(), share_B111)
    return (mixed_BCHW if inputs_BCHW.is_floating_point() else mixed_BCHW.round()).to(inputs_BCHW.dtype)


METHOD = Method(
    name="distil",
    description="the costliest members teach the others: for small members that run first",
    train=train,
    options=DistilOptions,
)
