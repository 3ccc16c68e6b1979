"""Programs that the GPU itself chooses from: CUDA graphs with switches, made by the driver's own calls.

A switch is a conditional node of a CUDA graph. torch records graphs but cannot make such nodes of them, so this file
asks the driver, by ctypes: recorded graphs become the bodies of switches, and a kernel of one thread sets each switch
from a number that lies on the device. The host is not asked, and need not wait.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from irene.runtime.recorder import Program

_WITH_SWITCHES = 12080  # CUDA 12.8, the first driver whose graphs have them
_CONDITIONAL, _SWITCH = 13, 2  # CU_GRAPH_NODE_TYPE_CONDITIONAL, CU_GRAPH_COND_TYPE_SWITCH

_CHOOSE = b"""
.version 7.0
.target sm_70
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry choose(.param .u64 handle, .param .u64 key, .param .u64 table)
{
    .reg .b64 %handle, %key, %table, %place;
    .reg .b32 %value;
    ld.param.u64 %handle, [handle];
    ld.param.u64 %key, [key];
    ld.param.u64 %table, [table];
    cvta.to.global.u64 %key, %key;
    cvta.to.global.u64 %table, %table;
    ld.global.u64 %place, [%key];
    shl.b64 %place, %place, 2;
    add.s64 %table, %table, %place;
    ld.global.u32 %value, [%table];
    {
        .param .b64 first;
        .param .b32 second;
        st.param.b64 [first], %handle;
        st.param.b32 [second], %value;
        call.uni cudaGraphSetConditional, (first, second);
    }
    ret;
}
\0"""


class CannotSwitch(RuntimeError):
    """The driver refused a graph with switches: the host has to choose."""


class Switches:
    """Switches one after the other in one graph: each runs one of its programs, or none.

    `programs` of a Recorder that keeps graphs; they and the tensors are kept alive here.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        with torch.cuda.device(device):
            torch.cuda.current_stream().synchronize()  # the context is there from here on
            self._graph = _new("cuGraphCreate", ctypes.c_uint(0))
            self._context = _new("cuCtxGetCurrent")
            self._kernel = _kernel(torch.cuda.current_device())
        self._last: ctypes.c_void_p | None = None
        self._kept: list[Any] = []
        self._ready: ctypes.c_void_p
        weakref.finalize(self, _call, "cuGraphDestroy", self._graph)

    def add(self, key: Tensor, table: Tensor, programs: Sequence[Program]) -> None:
        """Run `programs[table[key]]` next, or nothing where there is no program of this number.

        `key` is one int64 and `table` holds int32; what they hold when the graph runs counts.
        """
        with torch.cuda.device(self._device):
            handle = ctypes.c_ulonglong()
            _call(
                "cuGraphConditionalHandleCreate", ctypes.byref(handle), self._graph, self._context, _uint(0), _uint(0)
            )
            chosen = self._add_choice(handle, key, table)
            node = _NodeParameters(type=_CONDITIONAL, handle=handle.value, kind=_SWITCH, size=len(programs))
            node.context = self._context
            self._last = _new("cuGraphAddNode_v2", self._graph, _array([chosen]), None, _size(1), ctypes.byref(node))
            for number, program in enumerate(programs):
                assert program.graph is not None
                recorded = ctypes.c_void_p(program.graph.raw_cuda_graph())
                _new("cuGraphAddChildGraphNode", ctypes.c_void_p(node.bodies[number]), None, _size(0), recorded)
        self._kept += [key, table, *programs]

    def finish(self) -> None:
        """Make the graph ready to run; nothing can be added to it then."""
        with torch.cuda.device(self._device):
            self._ready = _new("cuGraphInstantiateWithFlags", self._graph, ctypes.c_ulonglong(0))
        weakref.finalize(self, _call, "cuGraphExecDestroy", self._ready)

    def run(self) -> None:
        """Give the finished switches to the current stream."""
        with torch.cuda.device(self._device):
            _call("cuGraphLaunch", self._ready, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))

    def _add_choice(self, handle: ctypes.c_ulonglong, key: Tensor, table: Tensor) -> ctypes.c_void_p:
        """A node that sets the switch of this handle, behind everything there is so far."""
        values = [handle, *(ctypes.c_ulonglong(tensor.data_ptr()) for tensor in (key, table))]
        node = _KernelParameters(function=self._kernel, grid=(1, 1, 1), block=(1, 1, 1))
        addresses = _array([ctypes.addressof(value) for value in values])
        node.arguments = ctypes.cast(addresses, ctypes.c_void_p)
        before = [] if self._last is None else [self._last]
        # The driver copies the arguments here and now.
        return _new("cuGraphAddKernelNode_v2", self._graph, _array(before), _size(len(before)), ctypes.byref(node))


class _KernelParameters(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2"""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class _NodeParameters(ctypes.Structure):
    """CUgraphNodeParams of a conditional node."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("reserved0", ctypes.c_int * 3),
        ("handle", ctypes.c_ulonglong),
        ("kind", ctypes.c_int),
        ("size", ctypes.c_uint),
        ("bodies", ctypes.POINTER(ctypes.c_void_p)),
        ("context", ctypes.c_void_p),
        ("reserved1", ctypes.c_longlong * 25),
        ("reserved2", ctypes.c_longlong),
    )


_uint, _size = ctypes.c_uint, ctypes.c_size_t


@cache
def _driver() -> ctypes.CDLL | None:
    """The NVIDIA driver, if it is here and its graphs have switches."""
    if not sys.platform.startswith("linux") or torch.version.cuda is None:
        return None
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    failed = driver.cuDriverGetVersion(ctypes.byref(version))
    return None if failed or version.value < _WITH_SWITCHES else driver


def can_switch(device: torch.device) -> bool:
    """Whether recorded programs can be put behind switches on this device."""
    if device.type != "cuda" or not hasattr(torch.cuda.CUDAGraph, "raw_cuda_graph") or _driver() is None:
        return False
    return torch.cuda.get_device_capability(device) >= (7, 0)


@cache
def _kernel(device: int) -> ctypes.c_void_p:
    """The kernel that sets a switch, in the context of the present device, whose number this is."""
    module = _new("cuModuleLoadData", _CHOOSE)
    return _new("cuModuleGetFunction", module, b"choose")


def _call(name: str, *arguments: Any) -> None:
    driver = _driver()
    assert driver is not None
    failed = driver[name](*arguments)
    if failed:
        said = ctypes.c_char_p()
        driver.cuGetErrorString(failed, ctypes.byref(said))
        raise CannotSwitch(f"the CUDA driver's {name} failed with {failed}: {(said.value or b'no text').decode()}")


def _new(name: str, *arguments: Any) -> ctypes.c_void_p:
    """What the driver makes: its calls give the new thing by their first argument."""
    made = ctypes.c_void_p()
    _call(name, ctypes.byref(made), *arguments)
    return made


def _array(values: Sequence[Any]) -> Any:
    return (ctypes.c_void_p * max(1, len(values)))(*values)
