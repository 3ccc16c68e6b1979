"""Cascade: members in order and a policy that stops each sample when the ensemble so far is good enough.

`Cascade.predict` is the obvious loop. It is the specification: whatever is faster must give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from irene.errors import IreneError, OptionError, first_line
from irene.halting import skipping
from irene.halting.policies import Never
from irene.halting.policy import Stopper, check_stopper
from irene.halting.rule import Aggregation, Rule
from irene.models.adapters import as_batch, as_members, check_several, float_type_for
from irene.models.cost import measure_cost
from irene.models.member import as_heads, as_logits, refuse_probabilities
from irene.types import Cost, Prediction, Task, check_costs, check_task_name, check_width

MemberLike = Callable[[Tensor], Tensor]


class Cascade:
    """Runs members in order on a batch and stops each sample as soon as its policy says so.

        cascade = Cascade([small, large], Margin(0.8))
        prediction = cascade.predict(images)
        prediction.labels, prediction.members_used

    Members are callables from a batch of raw inputs to logits (classification) or values (regression), shaped
    (B, K) or (B, H, K) for H heads. They may differ in architecture and size. Those that are torch modules are put into
    evaluation mode, and stay in it: call `train()` on a member before you train it on.

    NaN or infinity from a member spoils the answer of that sample and of no other: see `Prediction.failed`.
    """

    def __init__(
        self,
        members: Sequence[MemberLike],
        policy: Stopper | None = None,
        *,
        aggregation: Aggregation | None = None,
        costs: Sequence[Cost] | None = None,
        task: Task = "classification",
    ) -> None:
        check_several(members)
        if not members:
            raise OptionError("a cascade needs at least one member, got none")
        if policy is not None:
            check_stopper(policy)
        aggregation = aggregation or Aggregation.equal(len(members))
        if len(aggregation.weights) != len(members):
            raise OptionError(f"got {len(members)} members and aggregation weights for {len(aggregation.weights)}")
        if costs is not None and len(costs) != len(members):
            raise OptionError(f"got {len(members)} members and costs for {len(costs)}")
        check_costs(costs or ())
        check_task_name(task)
        for number, member in enumerate(members, start=1):
            if not callable(member):
                raise OptionError(
                    f"member {number} must be a callable, got {type(member).__name__}: use Cascade.from_members, which "
                    "takes scikit-learn models and .onnx files too"
                )
        self.members = tuple(members)
        self.costs = tuple(costs) if costs is not None else (Cost(),) * len(members)
        self.policy = policy or Never()
        self.aggregation = aggregation
        self.task = task
        for member in self.members:
            if isinstance(member, nn.Module):
                member.eval()

    @classmethod
    def from_members(
        cls,
        models: Sequence[Any],
        policy: Stopper | None = None,
        *,
        example: Tensor | NDArray[Any] | None = None,
        aggregation: Aggregation | None = None,
        task: Task | None = None,
    ) -> Cascade:
        """A cascade of models you have already, from one library or several.

        They may be torch modules, which stay in evaluation mode from here on, fitted scikit-learn estimators, paths of
        .onnx files, Hugging Face models, or callables. With an `example` batch of inputs the cost of each is measured:
        parameters, FLOPs and ms.
        """
        members, task = as_members(models, task)
        costs = None if example is None else _costs_of(members, as_batch(example, float_type_for(members)), task)
        return cls(members, policy, aggregation=aggregation, costs=costs, task=task)

    @property
    def rule(self) -> Rule:
        """Policy, aggregation and task as one, for whatever runs the members in order; a router is refused."""
        return Rule.of(self.policy, self.aggregation, self.task)

    def stopped_by(self, policy: Stopper) -> Cascade:
        """The same members, averaged in the same way, stopped by another policy."""
        return Cascade(self.members, policy, aggregation=self.aggregation, costs=self.costs, task=self.task)

    def __repr__(self) -> str:
        return f"Cascade({len(self.members)} members, {self.policy!r}, {self.task})"

    @torch.no_grad()
    def predict(self, inputs: Tensor | NDArray[Any]) -> Prediction:
        """Answer a batch; each sample runs through as few members as the policy allows.

        In order, unless the policy is a `Router`, which chooses the next member of each sample.
        """
        inputs = as_batch(inputs, float_type_for(self.members))
        if isinstance(self.policy, skipping.Router):
            return skipping.predict(self.members, self.policy, self.aggregation, inputs, task=self.task)
        rule = self.rule
        running = torch.arange(len(inputs), device=inputs.device)  # rows that have not stopped
        outputs: Tensor | None = None
        members_used = torch.zeros(len(inputs), dtype=torch.int64, device=inputs.device)
        trace = torch.full((len(inputs), len(self.members)), torch.nan, device=inputs.device)
        state = {}
        for t, member in enumerate(self.members):
            output_BHK = as_heads(member(inputs[running]))
            if outputs is None:
                outputs = torch.zeros(len(inputs), output_BHK.shape[2], device=inputs.device)
                state = rule.start(len(inputs), output_BHK.shape[2], inputs.device)
            outcome, state = rule.step(t, output_BHK, state)
            outputs[running] = outcome.mean_BK
            members_used[running] = t + 1
            trace[running, t] = outcome.score_B
            going = ~outcome.halt_B
            running = running[going]
            if len(running) == 0:
                break
            state = {key: value[going] for key, value in state.items()}
        assert outputs is not None  # there is at least one member
        return Prediction(self.task, outputs, members_used, trace)


@torch.no_grad()
def _costs_of(members: Sequence[Callable[[Tensor], Any]], example: Tensor, task: Task) -> list[Cost]:
    """The measured cost of each member; an error names the one that cannot answer the example, or not as the others."""
    costs, widths = [], []
    for number, member in enumerate(members, 1):
        try:
            costs.append(measure_cost(member, example))
            outputs_BHK, _ = (_answer(number, member, batch) for batch in (example, example[:1]))  # stopping leaves few
            if task == "classification":
                refuse_probabilities(number, outputs_BHK)
            widths.append(outputs_BHK.shape[2])
            if widths[-1] != widths[0]:
                raise OptionError(f"member {number} gave {widths[-1]} outputs a sample and the first one {widths[0]}")
            check_width(widths[-1], task)
        except IreneError:
            raise
        except Exception as error:
            kind = str(example.dtype).removeprefix("torch.")
            raise OptionError(
                f"member {number} ({type(member).__name__}) cannot answer the example, {tuple(example.shape)} of "
                f"{kind} ({first_line(error)}): all members get the same inputs, so give what each of them takes"
            ) from error
    return costs


def _answer(number: int, member: Callable[[Tensor], Any], batch: Tensor) -> Tensor:
    """What a member says of a batch, once it has a row for each sample."""
    output = as_logits(member(batch.clone()))
    if output.ndim not in (2, 3) or len(output) != len(batch):
        raise OptionError(
            f"member {number} gave outputs of shape {tuple(output.shape)} for {len(batch)} samples: return (batch, "
            "outputs) or (batch, heads, outputs), one row a sample, also for a batch of one"
        )
    return as_heads(output)
