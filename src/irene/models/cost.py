"""What running a member costs: parameters, FLOPs and measured time."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from irene.devices import seconds_of
from irene.errors import OptionError
from irene.models.modes import evaluating
from irene.types import Cost

_WARM_UP = 2
_LEAST_SECONDS, _MOST_REPEATS = 0.1, 100  # a short run is easily disturbed


def measure_cost(member: Callable[[Tensor], Any], sample_inputs: Tensor, *, repeats: int = 5) -> Cost:
    """Parameters, FLOPs per sample and milliseconds per sample of a member at this batch size.

    The time is the median of `repeats` synchronised runs on the member's device after a warm-up, of more where they are
    short. FLOPs count a multiply-add as two. A callable that is no module has neither parameters nor FLOPs to count.
    """
    if repeats < 1 or len(sample_inputs) < 1:
        raise OptionError(
            f"cost needs at least 1 repeat and 1 sample, got {repeats} repeats and {len(sample_inputs)} samples"
        )
    inputs = sample_inputs.to(_device_of(member, sample_inputs), copy=True)  # a member may change what it is given
    parameters, flops = 0, 0.0
    with torch.no_grad(), evaluating(member):
        if isinstance(member, nn.Module):
            parameters = sum(parameter.numel() for parameter in member.parameters())
            with FlopCounterMode(display=False) as counter:
                member(inputs)
            flops = counter.get_total_flops() / len(inputs)
        for _ in range(_WARM_UP):
            member(inputs)
        seconds: list[float] = []
        while len(seconds) < repeats or (sum(seconds) < _LEAST_SECONDS and len(seconds) < _MOST_REPEATS):
            seconds.append(seconds_of(lambda: member(inputs), inputs.device))
    ms = 1000 * statistics.median(seconds) / len(inputs)
    return Cost(members=1.0, parameters=parameters, flops=flops, ms=ms)


def _device_of(member: Callable[[Tensor], Any], inputs: Tensor) -> torch.device:
    if isinstance(member, nn.Module):
        for tensor in (*member.parameters(), *member.buffers()):
            return tensor.device
    return inputs.device
