"""OperatingPoint: a calibrated policy with what was asked of it, on which data, and what it is expected to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from irene.cascade import Cascade
from irene.errors import CalibrationError, DataError, OptionError, first_line
from irene.halting import registry
from irene.halting.policy import Stopper
from irene.halting.rule import Aggregation
from irene.models.adapters import as_members
from irene.point_words import in_a_line
from irene.run_manifest import now
from irene.tensor_files import read_with_header, write_with_header
from irene.types import Cost, Task

FORMAT = 1  # of what `to_dict` writes
TRAINED = "trained"  # stands for the policy a run was trained with, where points are listed


@dataclass(frozen=True, kw_only=True)
class OperatingPoint:
    """Where on the frontier a cascade works: versioned, readable, and enough to build the cascade again.

    `expected` holds cost (mean, in `expected["unit"]`), accuracy or mse, drop against the whole ensemble, `used` (share
    of samples per number of members), and `intervals` of the first three at `expected["confidence"]`; `p99` in ms, with
    the `member_ms` it was added up of, or `risk` with its bound where these were asked for.
    """

    name: str
    task: Task
    policy: Stopper
    aggregation: Aggregation
    members: tuple[int, ...]  # which members of the bank are used, in order
    asked: dict[str, Any]  # for example {"cost": 1.3, "unit": "members"}
    expected: dict[str, Any]
    data: dict[str, Any]  # fingerprint, split, samples, members, outputs; the seed where a part of the split was drawn
    why: str  # why this policy
    scores: Tensor = field(repr=False, compare=False)  # sorted sample of the first scores, to notice drift later
    date: str = field(default_factory=now)  # ISO 8601, UTC
    version: int = 1  # counted up each time a run's point of this name is calibrated again

    def __repr__(self) -> str:
        return f"OperatingPoint({self.name}, {in_a_line(self.policy.name, self.asked, self.expected, self.why)})"

    def cascade(self, members: Sequence[Any], costs: Sequence[Cost] | None = None) -> Cascade:
        """The cascade that works at this point, from all members in the order of the bank.

        They may be of every kind that `Cascade.from_members` takes.
        """
        if max(self.members) >= len(members):
            raise CalibrationError(f"this point needs members 0 to {max(self.members)}, got {len(members)} members")
        if costs is not None and len(costs) != len(members):
            raise CalibrationError(f"got {len(members)} members and costs for {len(costs)}: give one for each")
        used, task = as_members([members[i] for i in self.members], self.task)
        return Cascade(
            used,
            self.policy,
            aggregation=self.aggregation,
            costs=None if costs is None else [costs[i] for i in self.members],
            task=task,
        )

    def to_dict(self) -> dict[str, Any]:
        """All but the tensors, as JSON values."""
        return {
            "format": FORMAT,
            "name": self.name,
            "version": self.version,
            "date": self.date,
            "task": self.task,
            "asked": self.asked,
            "expected": self.expected,
            "why": self.why,
            "policy": registry.describe(self.policy),
            "aggregation": self.aggregation.to_dict(),
            "members": list(self.members),
            "data": self.data,
        }

    def tensors(self) -> dict[str, Tensor]:
        """What a policy has learned, and the scores that drift is measured against."""
        learned = {f"policy.{key}": value.detach().cpu() for key, value in self.policy.state_dict().items()}
        return {**learned, "scores": self.scores}

    def check_can_be_saved(self) -> None:
        """Refuse a policy that is not irene's own: its name would bring back another one from a file, or none."""
        kind = type(self.policy)
        if kind not in registry.POLICIES.values():
            raise OptionError(
                f"the point {self.name} has the policy {kind.__name__}, and a file can hold irene's own policies only "
                f"({', '.join(sorted(registry.POLICIES))}): keep yours in code, with point.cascade(members) or "
                "cascade.stopped_by(policy)"
            )

    def save(self, path: str | Path) -> None:
        """Write the point as one file, for members of your own; `Run.save_point` keeps those of a run."""
        self.check_can_be_saved()
        write_with_header(Path(path), "point", self.to_dict(), self.tensors())

    @classmethod
    def load(cls, path: str | Path) -> OperatingPoint:
        """Read a point that `save` wrote."""
        try:
            return cls.from_dict(*read_with_header(path, "point"))
        except FileNotFoundError:
            raise DataError(f"{path}: no such operating point; make it with OperatingPoint.save") from None
        except (AttributeError, LookupError, OSError, RuntimeError, SafetensorError, TypeError, ValueError) as error:
            raise DataError(
                f"{path}: not an operating point that irene wrote ({first_line(error)}); calibrate again"
            ) from None

    @classmethod
    def from_dict(cls, values: dict[str, Any], tensors: dict[str, Tensor]) -> OperatingPoint:
        """The point that `to_dict` and `tensors` wrote down."""
        if values.get("format") != FORMAT:
            raise CalibrationError(
                f"this operating point has format {values.get('format')} and this irene reads format {FORMAT}: "
                "calibrate again"
            )
        learned = {key.removeprefix("policy."): value for key, value in tensors.items() if key.startswith("policy.")}
        return cls(
            **{key: values[key] for key in ("name", "date", "task", "asked", "expected", "why", "data", "version")},
            policy=registry.restore(values["policy"], learned),
            aggregation=Aggregation.from_dict(values["aggregation"]),
            members=tuple(values["members"]),
            scores=tensors.get("scores", torch.empty(0)),
        )
