"""A device is taken only if it is there, one that is not is refused in one line, and work on it is timed whole."""

from __future__ import annotations

import os

import pytest
import torch

from irene import devices
from irene.devices import machine_memory, memory_of, pick_device, seconds_of, synchronise
from irene.errors import OptionError


def gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def test_auto_is_a_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, 0)
    assert pick_device("auto") == torch.device("cpu")
    gpus(monkeypatch, 1)
    assert pick_device("auto") == torch.device("cuda")


@pytest.mark.parametrize("name", ["cuda", "cuda:0", torch.device("cuda")])
def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, name: str | torch.device) -> None:
    gpus(monkeypatch, 0)
    with pytest.raises(OptionError, match="was asked for and torch sees none here: use auto or --device cpu"):
        pick_device(name)


def test_a_gpu_beyond_the_last_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, 2)
    assert pick_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(OptionError, match="device cuda:2 was asked for and torch sees only cuda:0 to cuda:1 here"):
        pick_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "", "meta", "cuda:x"])
def test_what_is_no_device_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"must be auto, cpu, cuda or cuda:N, got '{name}'"):
        pick_device(name)


@pytest.mark.parametrize(("accelerator", "waited"), [(None, []), ("cuda", []), ("xpu", ["xpu:1"])])
def test_any_accelerator_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, accelerator: str | None, waited: list[str]
) -> None:
    found: list[str] = []
    here = None if accelerator is None else torch.device(accelerator)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: here)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: found.append(str(device)))
    synchronise(torch.device("xpu:1"))
    synchronise(torch.device("cpu"))
    assert found == waited


def test_work_is_timed_from_an_idle_device_to_an_idle_device(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def wait(device: torch.device) -> None:
        now[0] += 10  # what the device still had to do before the work, and then of the work

    def work() -> None:
        now[0] += 3

    monkeypatch.setattr(devices, "perf_counter", lambda: now[0])
    monkeypatch.setattr(devices, "synchronise", wait)
    assert seconds_of(work, torch.device("cpu")) == 13


def test_memory_is_that_of_the_machine_or_what_a_container_leaves_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "most_memory", lambda: None)
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    there = memory_of(torch.device("cpu"))
    assert there is None or there >= machine
    assert memory_of(torch.device("meta")) is None
    for most, left in ((machine // 2, machine // 2), (2 * machine, machine)):
        monkeypatch.setattr(devices, "most_memory", lambda most=most: most)
        assert machine_memory() == left
