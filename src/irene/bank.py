"""Bank: every member's output on a data set, computed once and replayed by every policy in seconds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from irene.cascade import MemberLike
from irene.data.loader import Batch
from irene.errors import DataError, OptionError
from irene.files import write_atomically
from irene.halting.policies import Never
from irene.halting.policy import Policy
from irene.halting.rule import Aggregation, Rule
from irene.halting.trajectory import Trajectory, trajectory
from irene.models.member import as_heads
from irene.types import Cost, Prediction, Task


@dataclass(frozen=True, kw_only=True)
class Bank:
    """Outputs of T members on N samples, (N, T, H, K), with what is needed to replay any policy on them.

    `gates` holds the weight of each member for each sample where a gate and not a policy chose the members
    (mixtures of experts); a weight of zero means that the member is not run.
    """

    task: Task
    outputs: Tensor  # (N, T, H, K) logits or values
    targets: Tensor  # (N,) class indices or (N, K) values
    ids: Tensor  # (N,)
    costs: tuple[Cost, ...]
    gates: Tensor | None = None  # (N, T)
    about: dict[str, Any] = field(default_factory=dict)  # split, data fingerprint, class names

    def __post_init__(self) -> None:
        if self.outputs.ndim != 4:
            raise OptionError(
                f"a bank holds outputs shaped (samples, members, heads, classes), got {self.outputs.ndim} axes"
            )
        samples, members = self.outputs.shape[:2]
        if len(self.targets) != samples or len(self.ids) != samples:
            raise OptionError(
                f"a bank of {samples} samples needs as many targets and ids, "
                f"got {len(self.targets)} and {len(self.ids)}"
            )
        if len(self.costs) != members:
            raise OptionError(f"a bank of {members} members needs as many costs, got {len(self.costs)}")
        if not bool(self.outputs.isfinite().all()):
            raise OptionError("a bank cannot hold NaN or infinite outputs: look at the members that gave them")

    def __len__(self) -> int:
        return len(self.outputs)

    @property
    def steps(self) -> int:
        return self.outputs.shape[1]

    def rows(self, index: Tensor) -> Bank:
        """The bank of some of the samples."""
        gates = None if self.gates is None else self.gates[index]
        return replace(self, outputs=self.outputs[index], targets=self.targets[index], ids=self.ids[index], gates=gates)

    def members(self, order: Sequence[int]) -> Bank:
        """The bank of some of the members, in another order."""
        columns = list(order)
        gates = None if self.gates is None else self.gates[:, columns]
        costs = tuple(self.costs[i] for i in columns)
        return replace(self, outputs=self.outputs[:, columns], costs=costs, gates=gates)

    def trajectory(self, policy: Policy, aggregation: Aggregation | None = None) -> Trajectory:
        """Scores and running answers at every step, from which any threshold can be read off."""
        return trajectory(Rule(policy, aggregation or Aggregation.equal(self.steps), self.task), self.outputs)

    def replay(self, policy: Policy | None = None, aggregation: Aggregation | None = None) -> Prediction:
        """What the cascade of these members with this policy would have answered."""
        if self.gates is not None:
            return mix(self.outputs, self.gates, self.task)
        policy = policy or Never()
        return self.trajectory(policy, aggregation).stop(policy.threshold)

    def save(self, path: Path, *, dtype: torch.dtype = torch.float32) -> str:
        """Write the bank as one safetensors file and return its SHA-256."""
        tensors = {"outputs": self.outputs.to(dtype), "targets": self.targets, "ids": self.ids}
        if self.gates is not None:
            tensors["gates"] = self.gates
        header = {"task": self.task, "costs": [cost.to_dict() for cost in self.costs], "about": self.about}
        content = {key: value.contiguous().cpu() for key, value in tensors.items()}
        return write_atomically(path, save(content, metadata={"bank": json.dumps(header)}))

    @classmethod
    def load(cls, path: str | Path) -> Bank:
        """Read a bank that `save` wrote."""
        try:
            with safe_open(str(path), framework="pt") as file:
                header = json.loads(file.metadata()["bank"])
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
            return cls(
                task=header["task"],
                outputs=tensors["outputs"].float(),
                targets=tensors["targets"],
                ids=tensors["ids"],
                costs=tuple(Cost.from_dict(cost) for cost in header["costs"]),
                gates=tensors.get("gates"),
                about=header["about"],
            )
        except FileNotFoundError:
            raise DataError(f"{path}: no such bank; make it with `irene evaluate` or Bank.save") from None
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: not a bank that irene wrote ({error}); make it again") from None


def mix(outputs_NTHK: Tensor, gates_NT: Tensor, task: Task) -> Prediction:
    """The answer of a mixture of experts: members weighted by their gate, those with weight zero not run."""
    answers_NTK = outputs_NTHK[:, :, 0].float()
    if task == "classification":
        answers_NTK = answers_NTK.softmax(2)
    ran_NT = gates_NT > 0
    return Prediction(
        task=task,
        outputs=(gates_NT[:, :, None] * answers_NTK).sum(1),
        members_used=ran_NT.sum(1),
        trace=gates_NT.masked_fill(~ran_NT, torch.nan),
    )


@torch.no_grad()
def collect(member: MemberLike, batches: Iterable[Batch]) -> Tensor:
    """(N, H, K) float32 outputs of one member over batches, on the CPU."""
    return torch.cat([as_heads(member(batch.inputs)).float().cpu() for batch in batches])
