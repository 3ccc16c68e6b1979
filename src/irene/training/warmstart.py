"""Members that go on from the weights of the one before, as snapshot and fast geometric ensembles do."""

from __future__ import annotations

import copy
import dataclasses

from irene.errors import OptionError
from irene.models import Member
from irene.training.method import Training
from irene.training.options import LoopOptions
from irene.training.schedules import Schedule


def first_member(training: Training, method: str) -> Member:
    """The member that all others go on from; they can, as all have the same backbone."""
    if len(set(training.backbones)) > 1:
        raise OptionError(
            f"{method} trains each member on from the one before, so all have one backbone: "
            f"got {', '.join(training.backbones)}; give one"
        )
    return training.new_member(0)


def go_on(training: Training, stage: str, member: Member, options: LoopOptions) -> Member:
    """A copy of the member, trained further."""
    further = copy.deepcopy(member)
    training.fit(stage, further, options=options)
    return further


def cycle(options: LoopOptions, *, epochs: int, lr: float, schedule: Schedule) -> LoopOptions:
    """The options of a training with another length and learning rate."""
    optimizer = dataclasses.replace(options.optimizer, lr=lr, schedule=schedule)
    return dataclasses.replace(options, epochs=epochs, optimizer=optimizer)
