"""Members that go on from the weights of the one before, as snapshot and fast geometric ensembles do."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, get_args

from irene.errors import OptionError
from irene.models import Member
from irene.training.method import Training
from irene.training.objective import Objective
from irene.training.options import LoopOptions
from irene.training.schedules import Schedule

Later = Literal["anew", "go-on"]  # what later members begin with: new weights, or those of the one before
HIGH, LOW = 0.5, 0.001  # learning rates between which a cycle moves, as shares of the loop's: torchensemble's


def check_later(later: str) -> None:
    if later not in get_args(Later):
        raise OptionError(f"later must be anew or go-on, got {later!r}")


def check_alike(backbones: Sequence[str], method: str) -> None:
    """Members can go on from each other's weights if all have the same backbone."""
    if len(set(backbones)) > 1:
        raise OptionError(
            f"{method} trains each member on from the one before, so all have one backbone: "
            f"got {', '.join(backbones)}; give one"
        )


def first_member(training: Training, method: str) -> Member:
    """The member that all others go on from."""
    check_alike(training.backbones, method)
    return training.new_member(0)


def go_on(
    training: Training,
    stage: str,
    member: Member,
    options: LoopOptions,
    objective: Objective | None = None,
    *,
    index: int = 0,
) -> Member:
    """Member number `index` with the weights of this one, trained further; what its backbone froze stays frozen."""
    further = training.new_member(index, heads=member.spec.heads)
    further.load_state_dict(member.state_dict())
    training.fit(stage, further, objective, options=options)
    return further


def rise_and_fall(options: LoopOptions, epochs: int, high: float = HIGH, low: float = LOW) -> LoopOptions:
    """The options of a cycle from one low point to the next."""
    schedule = Schedule(kind="triangle", low=low / high)
    return cycle(options, epochs=epochs, lr=options.optimizer.lr * high, schedule=schedule)


def cycle(options: LoopOptions, *, epochs: int, lr: float, schedule: Schedule) -> LoopOptions:
    """The options of a training with another length and learning rate."""
    optimizer = dataclasses.replace(options.optimizer, lr=lr, schedule=schedule)
    return dataclasses.replace(options, epochs=epochs, optimizer=optimizer)
