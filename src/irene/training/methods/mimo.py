"""MIMO (Havasi et al. 2021): independent sub-models inside one network, which one pass runs all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from irene.errors import OptionError
from irene.models.packed import Mimo
from irene.training.method import Method, Trained, Training


@dataclass(frozen=True, kw_only=True)
class MimoOptions:
    """The options of MIMO: how many sub-models, and the share of training rows where all see the same sample.

    A network has little room for sub-models, a small one least; `repetition` gives some of it back, as its rows need
    not be kept apart. The defaults are those of the authors for ResNet-50, where room is short as well (for the far
    wider WRN-28-10 they take 3 and 0). Held-out digits agree: of 2 or 3 sub-models with a repetition of 0, 0.3 or
    0.6, none is better than this one (`benchmarks/method_defaults.py`, docs/compare.md).
    """

    submodels: int = 2
    repetition: float = 0.6

    def __post_init__(self) -> None:
        if self.submodels < 1 or not 0 <= self.repetition <= 1:
            raise OptionError(
                f"MIMO needs at least 1 sub-model and a repetition from 0 to 1, "
                f"got {self.submodels} and {self.repetition}"
            )


def train(training: Training) -> Trained:
    """Train one member whose first layer takes several samples and whose heads answer for one each."""
    options: MimoOptions = training.options
    member = training.new_packed("mimo", options.submodels)
    cast(Mimo, member.backbone).repetition = options.repetition
    training.fit("member-1", member)
    return Trained(members=[member])


METHOD = Method(
    name="mimo",
    description="several sub-models in one network and one pass: an ensemble at the cost of one model",
    train=train,
    options=MimoOptions,
    members=1,
)
