"""Networks made ready for inference: batch norms folded into their convolutions, and each convolution in one kernel
with the sum and the ReLU that follow it.

What a small batch takes on a GPU is mostly the number of kernels: a ResNet-18 has 20 convolutions and, as it is
written, some 50 kernels beside them.
"""

from __future__ import annotations

import copy
import operator
from functools import partial
from typing import Any, final

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from irene.runtime.recorder import gpu_ms
from irene.runtime.traces import called, read_once, trace, writes

_RELUS = (F.relu, torch.relu)
_SUMS = (operator.add, operator.iadd, torch.add)
_REPEATS = 5
_CHANNELS = 8  # tensor cores take channels by eights
_FASTER_APART: dict[tuple[Any, ...], bool] = {}  # kinds of convolutions for which cuDNN has no good kernel in one piece


@final
class ConvReLU(nn.Module):
    """relu(convolution(x) + shortcut), the shortcut being left out where there is none."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv
        if conv.bias is None:
            conv.bias = nn.Parameter(conv.weight.new_zeros(conv.out_channels), requires_grad=False)
        self.missing = _CHANNELS - conv.in_channels if conv.groups == 1 and conv.in_channels < _CHANNELS else 0
        if self.missing:
            conv.weight = nn.Parameter(F.pad(conv.weight, (0, 0, 0, 0, 0, self.missing)), requires_grad=False)

    def forward(self, x: Tensor, shortcut: Tensor | None = None) -> Tensor:
        if self.missing and x.shape[1] < _CHANNELS:
            x = F.pad(x, (0, 0, 0, 0, 0, self.missing))
        # A compiler fuses what it sees.
        if not x.is_cuda or torch.compiler.is_compiling() or not self._takes(x, shortcut):
            return self._in_steps(x, shortcut)
        kind = self._kind(x, shortcut)
        if torch.backends.cudnn.benchmark and kind not in _FASTER_APART:
            ways = (partial(way, x, shortcut) for way in (self._in_steps, self._in_one))
            in_steps_ms, in_one_ms = (gpu_ms(way, x.device, _REPEATS) for way in ways)
            _FASTER_APART[kind] = in_steps_ms < in_one_ms
        way = self._in_steps if _FASTER_APART.get(kind, False) else self._in_one
        return way(x, shortcut)

    def _kind(self, x: Tensor, shortcut: Tensor | None) -> tuple[Any, ...]:
        """All that the time of this convolution depends on; the members of an ensemble have the same ones."""
        conv = self.conv
        made = (conv.weight.shape, conv.stride, conv.padding, conv.dilation, conv.groups)
        return (x.device, x.dtype, x.shape, x.stride(), made, shortcut is not None)

    def _takes(self, x: Tensor, shortcut: Tensor | None) -> bool:
        """Whether one kernel can add the shortcut: it knows nothing of broadcasting and of mixed types."""
        if shortcut is None:
            return True
        conv = self.conv
        assert not isinstance(conv.padding, str)
        sides = [
            (side + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
            for side, kernel, stride, padding, dilation in zip(
                x.shape[2:], conv.kernel_size, conv.stride, conv.padding, conv.dilation, strict=True
            )
        ]
        return shortcut.dtype == x.dtype and shortcut.shape == (len(x), conv.out_channels, *sides)

    def _in_steps(self, x: Tensor, shortcut: Tensor | None) -> Tensor:
        y: Tensor = self.conv(x)
        return F.relu(y if shortcut is None else y + shortcut)

    def _in_one(self, x: Tensor, shortcut: Tensor | None) -> Tensor:
        conv = self.conv
        assert not isinstance(conv.padding, str)
        weight, bias, stride, padding = conv.weight, conv.bias, conv.stride, conv.padding
        if shortcut is None:
            return torch.cudnn_convolution_relu(x, weight, bias, stride, padding, conv.dilation, conv.groups)
        return torch.cudnn_convolution_add_relu(
            x, weight, shortcut, 1.0, bias, stride, padding, conv.dilation, conv.groups
        )


def fused(module: nn.Module) -> nn.Module:
    """The module, which should be in evaluation, with its convolutions fused; itself where it cannot be traced.

    Weights are shared with the module where they are not folded.
    """
    traced = trace(module)
    if traced is None:
        return module
    parts = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        _fold(traced, parts, node)
    for node in list(traced.graph.nodes):
        _fuse(traced, parts, node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def channels_read(module: nn.Module, channels: int) -> int:
    """How many channels a fused network may be given in place of these, the rest being zeros, to save it padding."""
    if not isinstance(module, fx.GraphModule):
        return channels
    parts = dict(module.named_modules())
    readers = [user for node in module.graph.nodes if node.op == "placeholder" for user in node.users]
    convs = [conv for conv in (called(parts, reader) for reader in readers) if isinstance(conv, ConvReLU)]
    return _CHANNELS if len(convs) == len(readers) == 1 and convs[0].missing else channels


def _fold(traced: fx.GraphModule, parts: dict[str, nn.Module], node: fx.Node) -> None:
    """Where this is a batch norm of a convolution that nothing else reads, put it into the convolution's weights."""
    norm = called(parts, node)
    source = node.args[0] if node.args else None
    conv = called(parts, source)
    folds = type(norm) is nn.BatchNorm2d and norm.track_running_stats and not norm.training
    if folds and _plain(conv) and read_once(source):
        assert isinstance(source, fx.Node)
        assert isinstance(conv, nn.Conv2d)
        assert isinstance(norm, nn.BatchNorm2d)
        _put(traced, parts, str(source.target), fuse_conv_bn_eval(conv, norm))
        node.replace_all_uses_with(source)
        traced.graph.erase_node(node)


def _fuse(traced: fx.GraphModule, parts: dict[str, nn.Module], node: fx.Node) -> None:
    """Where this is the ReLU of a convolution, or of its sum with a shortcut, make it one with the convolution."""
    if not (isinstance(called(parts, node), nn.ReLU) or (node.op == "call_function" and node.target in _RELUS)):
        return
    below = node.args[0] if node.args else None
    if not isinstance(below, fx.Node):
        return
    summed = below.op == "call_function" and below.target in _SUMS and not below.kwargs and read_once(below)
    terms = [term for term in below.args if isinstance(term, fx.Node)] if summed else [below]
    if summed and (len(below.args) != 2 or len(set(terms)) != 2):
        return
    able = terms[:1] if below.target is operator.iadd else terms  # what it writes to, others may see
    conv = next((term for term in able if _plain(called(parts, term)) and read_once(term)), None)
    if conv is None or conv.kwargs:
        return
    nodes = list(traced.graph.nodes)
    between = nodes[nodes.index(conv) + 1 : nodes.index(node)]
    if any(writes(parts, other) for other in between if other is not below):
        return  # it would read what was written after its turn
    found = parts[str(conv.target)]
    assert isinstance(found, nn.Conv2d)
    shortcut = [term for term in terms if term is not conv]
    whole_conv = ConvReLU(copy.deepcopy(found))
    for term in shortcut:
        _take_bias(traced, parts, term, whole_conv.conv)
    _put(traced, parts, str(conv.target), whole_conv)
    with traced.graph.inserting_before(node):
        whole = traced.graph.call_module(str(conv.target), (*conv.args, *shortcut))
    node.replace_all_uses_with(whole)
    for dead in (node, below, conv) if summed else (node, conv):
        traced.graph.erase_node(dead)


def _take_bias(traced: fx.GraphModule, parts: dict[str, nn.Module], term: fx.Node, into: nn.Conv2d) -> None:
    """Where a shortcut is a convolution, which has its bias added by a kernel of its own, add the bias elsewhere."""
    conv = called(parts, term)
    if type(conv) is not nn.Conv2d or conv.out_channels != into.out_channels or not read_once(term):
        return
    if conv.bias is not None and into.bias is not None:
        into.bias.data += conv.bias.data
        without = copy.deepcopy(conv)
        without.bias = None
        _put(traced, parts, str(term.target), without)


def _plain(module: nn.Module | None) -> bool:
    return type(module) is nn.Conv2d and module.padding_mode == "zeros" and not isinstance(module.padding, str)


def _put(traced: fx.GraphModule, parts: dict[str, nn.Module], name: str, module: nn.Module) -> None:
    traced.set_submodule(name, module)
    parts[name] = module
