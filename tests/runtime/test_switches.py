"""Switches of CUDA graphs: the memory layout that the driver reads, and a graph that chooses, where there is a GPU."""

from __future__ import annotations

import ctypes

import pytest
import torch
from torch import Tensor

from irene.runtime import switches
from irene.runtime.recorder import Recorder
from irene.runtime.switches import Switches, can_switch


def test_a_cpu_has_none() -> None:
    assert not can_switch(torch.device("cpu"))


def test_structures_are_laid_out_as_the_driver_declares_them() -> None:
    assert ctypes.sizeof(switches._NodeParameters) == 256
    assert switches._NodeParameters.handle.offset == 16
    assert switches._NodeParameters.bodies.offset == 32
    assert ctypes.sizeof(switches._KernelParameters) == 72
    assert switches._KernelParameters.arguments.offset == 40


def test_an_old_driver_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Driver:
        def __init__(self, name: str) -> None:
            assert name == "libcuda.so.1"

        def cuDriverGetVersion(self, version: object) -> int:
            ctypes.cast(version, ctypes.POINTER(ctypes.c_int))[0] = 12040
            return 0

    switches._driver.cache_clear()
    monkeypatch.setattr(switches.sys, "platform", "linux")
    monkeypatch.setattr(switches.torch.version, "cuda", "13.0")
    monkeypatch.setattr(switches.ctypes, "CDLL", Driver)
    assert not can_switch(torch.device("cuda"))
    switches._driver.cache_clear()


@pytest.mark.skipif(not can_switch(torch.device("cuda")), reason="needs a GPU whose driver has switches")
def test_the_table_chooses_the_program() -> None:
    device = torch.device("cuda")
    answer, key = torch.zeros(1, device=device), torch.zeros(1, dtype=torch.int64, device=device)
    recorder = Recorder(device, keep=True)

    def adding(number: float) -> Tensor:
        return answer.add_(number)

    programs = [recorder.record(lambda number=number: adding(number), capture=True) for number in (1.0, 10.0)]
    table = torch.tensor([7, 1, 0], dtype=torch.int32, device=device)
    chain = Switches(device)
    for _ in range(2):
        chain.add(key, table, programs)
    chain.finish()
    for place, expected in ((0, 0.0), (1, 20.0), (2, 2.0)):
        answer.zero_()
        key.fill_(place)
        chain.run()
        assert float(answer) == expected
