"""How small a learned policy is beside a member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from irene.halting.rule import Rule
from irene.models.cost import measure_cost
from irene.types import Cost


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Parameters of a policy and milliseconds a sample of its step, each also as a share of the cheapest member's."""

    parameters: int
    ms: float
    parameter_share: float
    ms_share: float

    def __str__(self) -> str:
        return (
            f"{self.parameters} parameters, {self.parameter_share:.2g} of a member's; "
            f"{self.ms:.2g} ms a step, {self.ms_share:.2g} of a member's"
        )


@torch.no_grad()
def measure_footprint(rule: Rule, outputs_BHK: Tensor, costs: Sequence[Cost]) -> Footprint:
    """Measure a policy on the outputs of a batch, as many samples as the costs of the members were measured with.

    A step is all that is done between two members: their mean, the features, the score and which samples stop.
    """

    def step(outputs: Tensor) -> Tensor:
        state = rule.start(len(outputs), outputs.shape[2], outputs.device)
        return rule.step(0, outputs, state)[0].halt_B

    parameters = sum(parameter.numel() for parameter in rule.policy.parameters())
    ms = measure_cost(step, outputs_BHK).ms
    return Footprint(
        parameters=parameters,
        ms=ms,
        parameter_share=parameters / max(1, min(cost.parameters for cost in costs)),
        ms_share=ms / min(cost.ms for cost in costs),
    )
