"""What running a member costs: parameters, FLOPs and measured time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from irene.devices import fastest_kernels, seconds_of
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
    with torch.no_grad(), evaluating(member), fastest_kernels():
        if isinstance(member, nn.Module):
            parameters = sum(parameter.numel() for parameter in member.parameters())
            with _in_parts(), FlopCounterMode(display=False, custom_mapping=_FUSED) as counter:
                member(inputs)
            flops = counter.get_total_flops() / len(inputs)
        for _ in range(_WARM_UP):
            member(inputs)
        seconds: list[float] = []
        while len(seconds) < repeats or (sum(seconds) < _LEAST_SECONDS and len(seconds) < _MOST_REPEATS):
            seconds.append(seconds_of(lambda: member(inputs), inputs.device))
    ms = 1000 * statistics.median(seconds) / len(inputs)
    return Cost(members=1.0, parameters=parameters, flops=flops, ms=ms, ms_batch=len(inputs))


@contextmanager
def _in_parts() -> Iterator[None]:
    """Have transformers run as the operations they are made of: torch counts none of those that it fuses into one."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _of_attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    count: int = sdpa_flop_count(query, key, value)
    return count


def _of_recurrence(inputs: Any, *weights: Any, **__: Any) -> int:
    """Of a layer on a CPU, from the shapes of (steps, batch, features) and of its matrices."""
    return _at_each_step(inputs, weights[:2])


def _of_cudnn_recurrence(inputs: Any, weights: Any, *_: Any, **__: Any) -> int:
    """Of all layers at once; each matrix is used at every step of every sample."""
    return _at_each_step(inputs, [shape for shape in weights if len(shape) == 2])


def _at_each_step(inputs: Sequence[int], matrices: Iterable[Sequence[int]]) -> int:
    return 2 * inputs[0] * inputs[1] * sum(map(math.prod, matrices))


_FUSED = {  # what torch runs as one operation and has no formula for
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _of_attention,
    torch.ops.aten.mkldnn_rnn_layer: _of_recurrence,
    torch.ops.aten._cudnn_rnn: _of_cudnn_recurrence,
}


def _device_of(member: Callable[[Tensor], Any], inputs: Tensor) -> torch.device:
    if isinstance(member, nn.Module):
        for tensor in (*member.parameters(), *member.buffers()):
            return tensor.device
    return inputs.device
