"""Fast geometric ensembling (Garipov et al. 2018): short cycles around a trained model, a member at each low point."""

from __future__ import annotations

from dataclasses import dataclass

from irene.errors import OptionError
from irene.training.method import Method, Trained, Training
from irene.training.schedules import Schedule
from irene.training.warmstart import HIGH, LOW, cycle, first_member, go_on, rise_and_fall


@dataclass(frozen=True, kw_only=True)
class FgeOptions:
    """The options of fast geometric ensembling; their defaults are torchensemble's, which the paper uses.

    A cycle has `cycle` epochs, an even number. Its learning rate moves between `high` and `low`, as shares of the
    loop's: at the loop's 0.1 they are 0.05 and 0.0001.
    """

    cycle: int = 4
    high: float = HIGH
    low: float = LOW

    def __post_init__(self) -> None:
        if self.cycle < 2 or self.cycle % 2:
            raise OptionError(f"a cycle takes an even number of epochs of at least 2, got {self.cycle}")
        if not 0 < self.low < self.high:
            raise OptionError(f"learning rates must be 0 < low < high, got low {self.low:g} and high {self.high:g}")


def train(training: Training) -> Trained:
    """Train one model by the loop's own schedule, then fall to the first low point and cycle on to the others.

    The budget is that of one model, half a cycle, and a cycle for each member after the first. The model that all
    start from is no member. The optimiser starts afresh at each low point.
    """
    options: FgeOptions = training.options
    loop = training.loop_options
    member = first_member(training, "fge")
    training.fit("start", member)
    fall = Schedule(kind="onecycle", warmup=0.0)  # linear, to zero
    half = cycle(loop, epochs=options.cycle // 2, lr=loop.optimizer.lr * options.high, schedule=fall)
    whole = rise_and_fall(loop, options.cycle, options.high, options.low)
    members = []
    for index in range(len(training.backbones)):
        member = go_on(training, f"cycle-{index + 1}", member, whole if index else half)
        members.append(member)
    return Trained(members=members)


METHOD = Method(
    name="fge",
    description="one training, then short cycles around its end, a member at each low point",
    train=train,
    options=FgeOptions,
)
