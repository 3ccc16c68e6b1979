"""Which device to run on, whether it is there, and how long work on it takes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import torch

from irene.errors import OptionError
from irene.limits import most_memory


def pick_device(name: str | torch.device) -> torch.device:
    """The device of this name, which must be there; `auto` is a GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        kind = torch.get_device_module(device)
    except RuntimeError:
        raise OptionError(f"device must be auto, cpu, cuda or cuda:N, got {str(name)!r}") from None
    there = kind.device_count() if kind.is_available() else 0
    if (device.index or 0) >= there:
        seen = f"only {device.type}:0 to {device.type}:{there - 1}" if there else "none"
        raise OptionError(f"device {device} was asked for and torch sees {seen} here: use auto or --device cpu")
    return device


def machine_memory() -> int | None:
    """Bytes of memory of this machine, or of the container on it, without swap space; None where nobody says."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    return min((most for most in (there, most_memory()) if most is not None), default=None)


def memory_of(device: torch.device) -> int | None:
    """Bytes of memory that a device has in all, with the swap space of a CPU; None where nobody says."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    file, memory = Path("/proc/meminfo"), machine_memory()
    if device.type != "cpu" or not file.exists() or memory is None:
        return None
    swap = re.search(r"^SwapTotal: +(\d+) kB$", file.read_text(), re.MULTILINE)
    return memory + (1024 * int(swap[1]) if swap else 0)


@contextmanager
def one_thread() -> Iterator[None]:
    """Have torch compute with one thread on the CPU; where tensors are small, several only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def fastest_kernels() -> Iterator[None]:
    """Try which kernels are the fastest: it pays where sizes are few and never change."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def synchronise(device: torch.device) -> None:
    """Wait until everything that was given to the device is done."""
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is not None and device.type == accelerator.type:
        torch.accelerator.synchronize(device)


def seconds_of(work: Callable[[], object], device: torch.device) -> float:
    """Seconds that work takes on a device, which is waited for before and after."""
    synchronise(device)
    start = perf_counter()
    work()
    synchronise(device)
    return perf_counter() - start
