"""Mixture: a gate that looks at the input and chooses which members to run, and with what weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from irene.bank import mix
from irene.cascade import MemberLike
from irene.errors import OptionError
from irene.models.adapters import as_batch
from irene.models.member import as_heads
from irene.types import Cost, Prediction, Task


class Mixture:
    """A mixture of experts: the gate gives each sample weights, and only members with a weight are run.

    It answers with the same `Prediction` as a `Cascade`, so metrics, reports and servers treat both alike.
    The gate is a callable from a batch to one logit a member; `top` of them are kept. Members and gate that are torch
    modules are put into evaluation mode, and stay in it.
    """

    def __init__(
        self,
        members: Sequence[MemberLike],
        gate: MemberLike,
        *,
        top: int | None = None,
        costs: Sequence[Cost] | None = None,
        task: Task = "classification",
    ) -> None:
        self.members = tuple(members)
        self.gate = gate
        self.top = len(self.members) if top is None else top
        if not 1 <= self.top <= len(self.members):
            raise OptionError(f"a mixture of {len(self.members)} members cannot run the top {self.top}")
        if costs is not None and len(costs) != len(self.members):
            raise OptionError(f"got {len(self.members)} members and costs for {len(costs)}")
        self.costs = tuple(costs) if costs is not None else (Cost(),) * len(self.members)
        self.task: Task = task
        for module in (*self.members, gate):
            if isinstance(module, nn.Module):
                module.eval()

    def __repr__(self) -> str:
        return f"Mixture({len(self.members)} members, top {self.top}, {self.task})"

    @torch.no_grad()
    def gates(self, inputs: Tensor | NDArray[Any]) -> Tensor:
        """(B, T) weights that sum to one; zero for the members that are not run."""
        logits_BT = as_heads(self.gate(as_batch(inputs)))[:, 0].float()
        if logits_BT.shape[1] != len(self.members):
            raise OptionError(f"the gate gave {logits_BT.shape[1]} weights for {len(self.members)} members")
        return gate_weights(logits_BT, self.top)

    @torch.no_grad()
    def predict(self, inputs: Tensor | NDArray[Any]) -> Prediction:
        """Answer a batch; each sample runs through the members its gate chose.

        Where the gate gives NaN for a sample, no member runs on it and it has no answer.
        """
        inputs = as_batch(inputs)
        gates_BT = self.gates(inputs)
        chosen = [(gates_B > 0).nonzero()[:, 0] for gates_B in gates_BT.unbind(1)]
        asked = [t for t, rows in enumerate(chosen) if len(rows)] or [0]  # of no samples, the shape of the answer
        answers = {t: as_heads(self.members[t](inputs[chosen[t]]))[:, :1].float() for t in asked}  # by the first head
        shape = (len(inputs), len(self.members), *answers[asked[0]].shape[1:])
        outputs = torch.zeros(shape, device=inputs.device)
        for t, answer_B1K in answers.items():
            outputs[chosen[t], t] = answer_B1K
        return mix(outputs, gates_BT, self.task)


def gate_weights(logits_BT: Tensor, top: int) -> Tensor:
    """Softmax over the `top` largest gate logits of each sample, zero for the others."""
    if top == logits_BT.shape[1]:
        return logits_BT.softmax(1)
    kept = logits_BT.topk(top, dim=1)
    return torch.zeros_like(logits_BT).scatter(1, kept.indices, kept.values.softmax(1))
