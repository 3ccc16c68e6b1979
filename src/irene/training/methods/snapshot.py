"""Snapshot ensembles (Huang et al. 2017): one training with T cosine cycles, and a member at the end of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from irene.errors import OptionError
from irene.training.method import Method, Trained, Training
from irene.training.schedules import Schedule
from irene.training.warmstart import cycle, first_member, go_on

Budget = Literal["one", "each"]


@dataclass(frozen=True, kw_only=True)
class SnapshotOptions:
    """The option of snapshot ensembles.

    `budget` says what the epochs of the loop pay for. `one`: all cycles together, so T members cost the training of
    one; this is the point of the method, and how torchensemble, which the paper uses, counts its epochs. `each`: one
    cycle, so that snapshots are trained as long as the members of an average ensemble.
    """

    budget: Budget = "one"

    def __post_init__(self) -> None:
        if self.budget not in get_args(Budget):
            raise OptionError(f"the budget of snapshots is one or each, got {self.budget!r}")


def train(training: Training) -> Trained:
    """Each cycle starts at the full learning rate from where the last one ended; its optimiser starts afresh."""
    options: SnapshotOptions = training.options
    loop, count = training.loop_options, len(training.backbones)
    lengths = [loop.epochs] * count if options.budget == "each" else cycle_lengths(loop.epochs, count)
    member = first_member(training, "snapshot")
    members = []
    for index, epochs in enumerate(lengths):
        schedule = Schedule(kind="cosine")
        stage = cycle(loop, epochs=epochs, lr=loop.optimizer.lr, schedule=schedule)
        member = go_on(training, f"cycle-{index + 1}", member, stage)
        members.append(member)
    return Trained(members=members)


def cycle_lengths(epochs: int, cycles: int) -> list[int]:
    """Epochs of each cycle: they sum to the whole and differ by one at most."""
    if epochs < cycles:
        raise OptionError(
            f"{cycles} snapshots need at least {cycles} epochs, got {epochs}: give more, or set the option budget=each"
        )
    return [epochs * (i + 1) // cycles - epochs * i // cycles for i in range(cycles)]


METHOD = Method(
    name="snapshot",
    description="one training in cosine cycles, a member at the end of each: an ensemble for the price of one training",
    train=train,
    options=SnapshotOptions,
)
