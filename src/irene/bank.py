"""Bank: every member's output on a data set, computed once and replayed by every policy in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor

from irene.bank_files import read_outputs
from irene.cascade import Cascade, MemberLike
from irene.data.loader import Batch
from irene.data.targets import is_one_hot, too_coarse
from irene.errors import DataError, OptionError
from irene.halting.policies import Never
from irene.halting.policy import Stopper
from irene.halting.rule import Aggregation
from irene.halting.trajectory import Trajectory, follow
from irene.models.adapters import as_batch, float_type_for
from irene.models.member import as_heads, refuse_probabilities
from irene.tensor_files import read_with_header, write_with_header
from irene.types import Cost, Prediction, Task, check_costs, check_task_name, check_width


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
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
    about: dict[str, Any] = field(default_factory=dict)  # split, data fingerprint, members of the whole bank

    def __post_init__(self) -> None:
        if self.outputs.ndim != 4:
            raise OptionError(
                f"a bank holds outputs shaped (samples, members, heads, classes), got {self.outputs.ndim} axes"
            )
        check_width(self.outputs.shape[3], self.task)
        samples, members = self.outputs.shape[:2]
        if len(self.targets) != samples or len(self.ids) != samples:
            raise OptionError(
                f"a bank of {samples} samples needs as many targets and ids, "
                f"got {len(self.targets)} and {len(self.ids)}"
                + "; samples are the first axis of outputs, and members the second"
                * (members == len(self.targets) != samples)
            )
        if len(self.costs) != members:
            raise OptionError(f"a bank of {members} members needs as many costs, got {len(self.costs)}")
        check_costs(self.costs)
        if self.gates is not None and self.gates.shape != (samples, members):
            raise OptionError(f"a bank's gates are (samples, members), got {tuple(self.gates.shape)}")
        spoilt_NT = ~self.outputs.isfinite().flatten(2).all(2)
        if bool(spoilt_NT.any()):
            sample, member = spoilt_NT.nonzero()[0].tolist()
            count = int(spoilt_NT.any(1).sum())
            raise OptionError(
                f"a bank holds finite outputs, and member {member + 1} gave NaN or infinity for sample {sample}, the "
                f"first of {count} such: leave them out, or raise probabilities of 0 before their logarithm"
            )

    def __len__(self) -> int:
        return len(self.outputs)

    def __repr__(self) -> str:
        samples, members, heads, outputs = self.outputs.shape
        return f"Bank({self.task}, {samples} samples, {members} members, {heads} heads, {outputs} outputs)"

    @property
    def steps(self) -> int:
        return self.outputs.shape[1]

    def rows(self, index: Tensor) -> Bank:
        """The bank of some of the samples."""
        gates = None if self.gates is None else self.gates[index]
        return replace(self, outputs=self.outputs[index], targets=self.targets[index], ids=self.ids[index], gates=gates)

    def members(self, order: Sequence[int]) -> Bank:
        """The bank of some of the members, in another order; `about` keeps how many there were."""
        columns = list(order)
        gates = None if self.gates is None else self.gates[:, columns]
        costs = tuple(self.costs[i] for i in columns)
        about = {"members": self.steps, **self.about}
        return replace(self, outputs=self.outputs[:, columns], costs=costs, gates=gates, about=about)

    def trajectory(self, policy: Stopper, aggregation: Aggregation | None = None) -> Trajectory:
        """Scores and running answers at every step, from which any threshold can be read off."""
        return follow(policy, aggregation or Aggregation.equal(self.steps), self.task, self.outputs)

    def replay(self, policy: Stopper | None = None, aggregation: Aggregation | None = None) -> Prediction:
        """What the cascade of these members with this policy would have answered."""
        if self.gates is not None:
            return mix(self.outputs, self.gates, self.task)
        policy = policy or Never()
        return self.trajectory(policy, aggregation).stop(policy.threshold)

    @classmethod
    def from_arrays(
        cls,
        outputs: Tensor | NDArray[Any],
        targets: Tensor | NDArray[Any],
        *,
        costs: Sequence[Cost] | None = None,
        ids: Tensor | NDArray[Any] | None = None,
        task: Task = "classification",
    ) -> Bank:
        """A bank of outputs that were computed elsewhere: logits (or log-probabilities), or values.

        `outputs` is (samples, members, classes), or (samples, members, heads, classes) for members with heads.
        """
        outputs_NTHK = as_batch(outputs).to(torch.float32)
        if outputs_NTHK.ndim == 3:
            outputs_NTHK = outputs_NTHK.unsqueeze(2)
        if outputs_NTHK.ndim != 4 or outputs_NTHK.numel() == 0:
            raise OptionError(
                "outputs must be (samples, members, classes) or (samples, members, heads, classes), "
                f"at least one of each, got shape {tuple(outputs.shape)}"
            )
        samples, members, _, width = outputs_NTHK.shape
        check_task_name(task)
        check_logits(outputs_NTHK, task)
        return cls(
            task=task,
            outputs=outputs_NTHK,
            targets=_as_targets(as_batch(targets), width, task),
            ids=torch.arange(samples) if ids is None else as_batch(ids).to(torch.int64),
            costs=tuple(costs) if costs is not None else (Cost(),) * members,
        )

    @classmethod
    def of(
        cls,
        cascade: Cascade,
        inputs: Tensor | NDArray[Any] | Iterable[tuple[Any, Any]],
        targets: Tensor | NDArray[Any] | None = None,
        *,
        batch_size: int = 1024,
    ) -> Bank:
        """The bank of a cascade's members on these samples: what its policy is fitted and judged on.

        Without `targets`, `inputs` gives batches of (inputs, targets), as a DataLoader does.
        """
        if not isinstance(cascade, Cascade):
            raise OptionError(f"expected a cascade, got {type(cascade).__name__}: make one with Cascade.from_members")
        float_type = float_type_for(cascade.members)
        if targets is None:
            wanted: list[Tensor] = []
            outputs = outputs_of(cascade, _apart(inputs, wanted, float_type))
            targets = torch.cat(wanted)
        else:
            outputs = outputs_of(cascade, as_batch(inputs, float_type).split(batch_size))  # type: ignore[arg-type] # it refuses
        return cls.from_arrays(outputs, targets, costs=cascade.costs, task=cascade.task)

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        costs: Sequence[Cost] | None = None,
        task: Task | None = None,
        labelled: bool = True,
    ) -> Bank:
        """A bank from a file: .safetensors as `save` wrote it, or outputs computed elsewhere.

        A .npz file has the arrays `outputs` and `targets` of `from_arrays` and may have `ids` and, with one value
        a member, `ms`, `flops` and `parameters`. A .parquet file has one row a sample: a column `target`, which
        `id` may join, and a column for each member, in their order, with a list of its outputs. Fractions as
        targets mean regression unless `task` says otherwise. A file without targets is read where it need not be
        `labelled`; its targets are zeros.
        """
        path = Path(path)
        if path.suffix == ".safetensors":
            return cls.load(path)
        found = read_outputs(path)
        targets = found.targets
        if targets is None and not labelled:
            outputs = found.outputs
            targets = np.zeros((len(outputs), outputs.shape[-1]) if task == "regression" else len(outputs), np.int64)
        if targets is None:
            raise DataError(f"{path}: has no targets; expected an array targets (.npz) or a column target (.parquet)")
        values = targets.dtype.kind == "f" and not is_one_hot(targets)
        task = task or ("regression" if values else "classification")
        try:
            return cls.from_arrays(found.outputs, targets, costs=costs or found.costs, ids=found.ids, task=task)
        except OptionError as error:
            raise DataError(f"{path}: {error}") from error

    def save(self, path: str | Path, *, dtype: torch.dtype = torch.float32) -> str:
        """Write the bank as one safetensors file and return its SHA-256."""
        tensors = {"outputs": self.outputs.to(dtype), "targets": self.targets, "ids": self.ids}
        if self.gates is not None:
            tensors["gates"] = self.gates
        header = {"task": self.task, "costs": [cost.to_dict() for cost in self.costs], "about": self.about}
        return write_with_header(Path(path), "bank", header, tensors)

    @classmethod
    def load(cls, path: str | Path) -> Bank:
        """Read a bank that `save` wrote."""
        try:
            header, tensors = read_with_header(path, "bank")
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
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: not a bank that irene wrote ({error}); make it again") from None


def _as_targets(targets: Tensor, width: int, task: Task) -> Tensor:
    """(N,) class indices below `width`, or (N, K) values as many as there are outputs."""
    if task == "regression":
        values_NK = targets.to(torch.float32)
        values_NK = values_NK.unsqueeze(1) if values_NK.ndim == 1 else values_NK
        if values_NK.ndim != 2 or values_NK.shape[1] != width:
            raise OptionError(
                f"{width} outputs a member need as many target values, got shape {tuple(targets.shape)}: for classes "
                "give their indices as whole numbers, in an integer type"
            )
        if not bool(values_NK.isfinite().all()):
            raise OptionError("targets must be finite numbers, got NaN or infinity: leave such samples out")
        if words := too_coarse(targets):
            raise OptionError(words)
        return values_NK
    check_width(width, task)
    if is_one_hot(targets):
        raise OptionError(
            f"targets of classification are (samples,) class indices, got one-hot rows of shape {tuple(targets.shape)}"
            ": give their argmax(1), or use task regression for values that only look so"
        )
    if targets.ndim != 1 or targets.is_floating_point():
        remedy = (
            "whole numbers in an integer type" if targets.ndim == 1 else "one class a sample, such as targets[:, 0]"
        )
        raise OptionError(
            f"targets of classification are (samples,) class indices, got shape {tuple(targets.shape)} of "
            f"{targets.dtype}: give {remedy}, or use task regression for values"
        )
    targets = targets.to(torch.int64)  # torch compares no unsigned integers of more than 8 bits
    if len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < width:
        raise OptionError(
            f"class indices must be from 0 to {width - 1}, got {int(targets.min())} to {int(targets.max())}"
        )
    return targets


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


def collect(member: MemberLike, batches: Iterable[Batch]) -> Tensor:
    """(N, H, K) float32 outputs of one member over batches, on the CPU."""
    with torch.no_grad():
        return torch.cat([as_heads(member(batch.inputs)).float().cpu() for batch in batches])


@torch.no_grad()
def outputs_of(cascade: Cascade, batches: Iterable[Tensor]) -> Tensor:
    """(N, T, H, K) float32 outputs of every member over batches of inputs, on the CPU."""
    columns: list[list[Tensor]] = [[] for _ in cascade.members]
    for inputs in batches:
        for number, (member, column) in enumerate(zip(cascade.members, columns, strict=True), start=1):
            # Copies, as in `Cascade.predict`: a member may change what it is given, and answer in memory it uses again.
            output_BHK = as_heads(member(inputs.clone())).to("cpu", torch.float32, copy=True)
            column.append(output_BHK)
            found, expected = tuple(output_BHK.shape), (len(inputs), *columns[0][0].shape[1:])
            if found != expected:
                raise OptionError(
                    f"member {number} gave outputs of shape {found} where {expected} was expected: members return one "
                    "row a sample, and all of them as many heads and outputs"
                )
    if not columns[0]:
        raise OptionError("a bank needs samples, got no batch of them: an iterator gives its batches only once")
    return torch.stack([torch.cat(column) for column in columns], 1)


def check_logits(outputs_NTHK: Tensor, task: Task) -> None:
    """Refuse members that answer with probabilities."""
    for number, outputs_NHK in enumerate(outputs_NTHK.unbind(1) if task == "classification" else (), start=1):
        refuse_probabilities(number, outputs_NHK)


def _apart(batches: Any, targets: list[Tensor], float_type: torch.dtype) -> Iterator[Tensor]:
    """The inputs of batches of (inputs, targets), whose targets are added to a list."""
    if isinstance(batches, Tensor | np.ndarray):
        raise OptionError("a bank needs targets: give them after the inputs, or give batches of (inputs, targets)")
    for batch in batches:
        if not isinstance(batch, list | tuple) or len(batch) != 2:
            raise OptionError(f"expected batches of (inputs, targets), got {type(batch).__name__}")
        if np.ndim(batch[1]) == 0:
            raise OptionError("expected batches of (inputs, targets), got a single sample: give a DataLoader")
        targets.append(as_batch(batch[1]))
        yield as_batch(batch[0], float_type)
