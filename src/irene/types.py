"""The values that every part of irene passes around.

Shape legend, used in names across the package: B batch, N samples of a data set, T members (steps),
H heads of a member, K classes or output values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from irene.errors import OptionError

Task = Literal["classification", "regression"]
CostUnit = Literal["members", "flops", "ms"]
TASKS: tuple[Task, ...] = get_args(Task)
COST_UNITS: tuple[CostUnit, ...] = get_args(CostUnit)


def check_task_name(task: str) -> None:
    """Refuse an unknown task."""
    if task not in TASKS:
        raise OptionError(f"task must be one of {', '.join(TASKS)}, got {task!r}")


def check_width(outputs: int, task: str) -> None:
    """Refuse members with one output for classes: its softmax is always 1, whatever they answer."""
    if task == "classification" and outputs < 2:
        raise OptionError(
            f"classes need at least two outputs a member, got {outputs}: return two logits for two classes, such as 0 "
            "and the one you have, or use task regression for values"
        )


@dataclass(frozen=True)
class Cost:
    """What it costs to run one member on one sample; 0 where that was not measured.

    `ms` is a share of the time of a batch; `ms_batch` says of how many samples, where that is known.
    """

    members: float = 1.0
    parameters: int = 0
    flops: float = 0.0
    ms: float = 0.0
    ms_batch: int = 0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, Real) or not 0 <= float(value) < math.inf:
                raise OptionError(
                    f"a cost in {name} must be a finite number of at least 0, where 0 means that it was not measured, "
                    f"got {value!r}"
                )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Cost:
        return cls(**values)


def check_costs(costs: Sequence[object]) -> None:
    """Refuse costs that are plain numbers, which do not say what they count."""
    for cost in costs:
        if not isinstance(cost, Cost):
            raise OptionError(f"the cost of a member is an irene.Cost, such as Cost(flops=2e6), got {cost!r}")


def cost_vector(costs: tuple[Cost, ...], unit: CostUnit) -> Tensor:
    """(T,) cost of each member in one unit; an unmeasured unit is an error, not a zero."""
    if unit not in COST_UNITS:
        raise OptionError(f"cost unit must be one of {', '.join(COST_UNITS)}, got {unit!r}")
    values = torch.tensor([getattr(cost, unit) for cost in costs], dtype=torch.float64)
    if not bool((values > 0).all()):
        raise OptionError(
            f"the members have no measured cost in {unit}: count in members, or give each member a Cost with that field"
            f" (`irene bank` takes --{unit})"
        )
    return values


def differ_in_size(costs: tuple[Cost, ...]) -> bool:
    """Whether members are of different sizes; times alone differ by chance."""
    return len({(cost.parameters, cost.flops) for cost in costs}) > 1


def not_finite(rows_BK: Tensor) -> Tensor:
    """(B,) which rows have NaN or infinity in them; several times as fast as `isfinite().all(1)` on a CPU."""
    return ~(rows_BK.abs().amax(1) < torch.inf)  # NaN is below nothing


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """The answer of a cascade for a batch, and what it took to get it.

    `outputs` holds class probabilities (classification) or values (regression). `trace` holds the halting
    score each member's step gave, NaN where the member was not run and nowhere else.

    Where a member gives NaN or infinity for a sample, as half precision may, the others of the batch are answered as
    ever. The sample itself stops nowhere early, as its scores are minus infinity from there on; its outputs stay what
    they came to, `failed` tells it, and its label is -1.
    """

    task: Task
    outputs: Tensor  # (B, K)
    members_used: Tensor  # (B,) int64
    trace: Tensor  # (B, T)

    def __len__(self) -> int:
        return len(self.outputs)

    def __repr__(self) -> str:
        samples, outputs = self.outputs.shape
        return f"Prediction({self.task}, {samples} samples, {outputs} outputs, {self.trace.shape[1]} members)"

    @classmethod
    def cat(cls, parts: Sequence[Prediction]) -> Prediction:
        """The predictions of parts of a batch, one or more, as one."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            parts[0].task,
            torch.cat([part.outputs for part in parts]),
            torch.cat([part.members_used for part in parts]),
            torch.cat([part.trace for part in parts]),
        )

    def cpu(self) -> Prediction:
        """The same prediction in the memory of the host."""
        return Prediction(self.task, self.outputs.cpu(), self.members_used.cpu(), self.trace.cpu())

    @property
    def failed(self) -> Tensor:
        """(B,) which samples have no answer, as their outputs are not all finite numbers."""
        return not_finite(self.outputs)

    @property
    def probs(self) -> Tensor:
        """(B, K) class probabilities."""
        if self.task != "classification":
            raise OptionError("probs exists for classification only: a regression prediction has .values")
        return self.outputs

    @property
    def labels(self) -> Tensor:
        """(B,) most probable class, -1 for samples that `failed`."""
        return self.probs.argmax(1).masked_fill(self.failed, -1)

    @property
    def values(self) -> Tensor:
        """(B, K) predicted values."""
        if self.task != "regression":
            raise OptionError("values exists for regression only: a classification prediction has .probs")
        return self.outputs

    @property
    def ran(self) -> Tensor:
        """(B, T) which members were run on which sample."""
        return ~self.trace.isnan()

    @property
    def cost(self) -> Tensor:
        """(B,) cost in members."""
        return self.members_used.to(torch.float64)

    def cost_in(self, costs: tuple[Cost, ...], unit: CostUnit) -> Tensor:
        """(B,) cost of the members that were run, in members, FLOPs or ms."""
        if len(costs) != self.trace.shape[1]:
            raise OptionError(
                f"expected the costs of the {self.trace.shape[1]} members that answered, got {len(costs)}: give those "
                "of the cascade that made this prediction"
            )
        return self.ran.to(torch.float64) @ cost_vector(costs, unit).to(self.trace.device)
