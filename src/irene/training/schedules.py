"""Learning-rate schedules: pure functions from progress (0 at the first step, 1 at the end) to a factor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from irene.errors import OptionError

ScheduleKind = Literal["constant", "multistep", "cosine", "onecycle", "triangle"]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How the learning rate moves over one training of a model.

    multistep multiplies by `decay` at each of `milestones` (fractions of the run; the paper's are 60, 120 and
    160 of 200 epochs). cosine falls to zero. onecycle rises for `warmup` of the run and then falls to zero.
    triangle rises from `low` to one and falls back, as fast geometric ensembling cycles.
    """

    kind: ScheduleKind = "onecycle"
    milestones: tuple[float, ...] = (0.3, 0.6, 0.8)
    decay: float = 0.2
    warmup: float = 0.2
    low: float = 0.1

    def __post_init__(self) -> None:
        if self.kind not in get_args(ScheduleKind):
            raise OptionError(f"schedule must be one of {', '.join(get_args(ScheduleKind))}, got {self.kind!r}")
        if not 0 <= self.warmup < 1:
            raise OptionError(f"warm-up is a fraction of the run from 0 to below 1, got {self.warmup:g}")

    def factor(self, progress: float) -> float:
        """What the base learning rate is multiplied by at this point of the run."""
        if self.kind == "constant":
            return 1.0
        if self.kind == "multistep":
            return self.decay ** sum(progress >= milestone for milestone in self.milestones)
        if self.kind == "cosine":
            return 0.5 * (1 + math.cos(math.pi * progress))
        if self.kind == "triangle":
            return self.low + (1 - self.low) * (1 - abs(2 * progress - 1))
        if progress < self.warmup:
            return 0.05 + 0.95 * progress / self.warmup
        return (1 - progress) / (1 - self.warmup)
