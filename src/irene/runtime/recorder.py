"""Work over fixed memory: recorded once and replayed on a GPU, simply called elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from irene.devices import fastest_kernels

_WARM_UP = 2


@dataclass(frozen=True)
class Program:
    """Recorded work: call it to do it again."""

    run: Callable[[], None]
    graph: torch.cuda.CUDAGraph | None = None
    """The CUDA graph that it is, on a GPU."""

    def __call__(self) -> None:
        self.run()


class Recorder:
    """Turns functions that read and write the same memory every time into programs.

    On a GPU a program is a CUDA graph; all graphs share one pool of memory, as they run one after the other and
    leave nothing behind in it; `keep` them to make larger graphs of them. Elsewhere a program is the function itself.
    `recorded` counts them.
    """

    def __init__(self, device: torch.device, *, keep: bool = False) -> None:
        self.device = device
        self.recorded = 0
        self._keep = keep
        cuda = device.type == "cuda"
        self._pool: Any = torch.cuda.graph_pool_handle() if cuda else None
        self._aside = torch.cuda.Stream(device) if cuda else None
        self._beside = torch.cuda.Stream(device) if cuda else None

    def record(self, function: Callable[[], None], *, capture: bool) -> Program:
        """The program of a function, which is called some times to warm it up; `capture` False never makes a graph."""
        self.recorded += 1
        if self._aside is None or not capture:
            function()
            return Program(function)
        with torch.cuda.device(self.device):
            self._aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._aside), fastest_kernels():
                for _ in range(_WARM_UP):
                    function()
            torch.cuda.current_stream().wait_stream(self._aside)
            graph = torch.cuda.CUDAGraph(keep_graph=True) if self._keep else torch.cuda.CUDAGraph()
            # Other threads, such as a server's, may use the GPU while this one records.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                function()
            if self._keep:
                graph.instantiate()
        return Program(graph.replay, graph)

    def together(self, first: Callable[[], Tensor], second: Callable[[], Tensor]) -> list[Tensor]:
        """The answers of two functions that do not depend on each other: on a GPU their kernels run side by side."""
        if self._beside is None:
            return [first().clone(), second()]  # members may answer in the same memory
        here = torch.cuda.current_stream(self.device)
        self._beside.wait_stream(here)
        with torch.cuda.stream(self._beside):
            beside = second()
        answer = first()
        here.wait_stream(self._beside)
        return [answer, beside]


class Mark:
    """A place in the work given to a device, which the host can wait for; set anew as often as you like."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._event = torch.cuda.Event() if device.type == "cuda" else None

    def set(self) -> None:
        """Put the mark behind everything given so far."""
        if self._event is not None:
            self._event.record(torch.cuda.current_stream(self._device))

    def passed(self) -> bool:
        """Whether waiting would take no time."""
        return self._event is None or self._event.query()

    def wait(self) -> None:
        if self._event is not None:
            self._event.synchronize()


class Fetch:
    """A small tensor on its way to the host: the GPU goes on, and only `wait` waits for it."""

    def __init__(self, tensor: Tensor) -> None:
        self._host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=tensor.is_cuda)
        self._host.copy_(tensor, non_blocking=True)
        self._mark = Mark(tensor.device)
        self._mark.set()

    def ready(self) -> bool:
        """Whether waiting would take no time."""
        return self._mark.passed()

    def now(self) -> Tensor | None:
        """The value, on the host, if it is there."""
        return self._host if self.ready() else None

    def wait(self) -> Tensor:
        """The value, on the host."""
        self._mark.wait()
        return self._host


def gpu_ms(work: Callable[[], object], device: torch.device, times: int) -> float:
    """Milliseconds that a GPU needs for this, some times in a row and without waiting for the host."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    stream = torch.cuda.current_stream(device)
    work()
    start.record(stream)
    for _ in range(times):
        work()
    stop.record(stream)
    stop.synchronize()
    return float(start.elapsed_time(stop)) / times
