"""Readers read what the process itself would have read, fail as it would have failed, and none outlives it."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from irene.data import Augment, Batch, Loader, Samples, folder, from_arrays, from_datasets, readers
from irene.data.folder import from_folder
from irene.data.readers import check_readers
from irene.errors import DataError, OptionError

HERE = os.getpid()


class Drawn(Dataset[tuple[Tensor, int]]):
    """Images of all kinds of chance, with a sum that depends on how many threads take it."""

    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = torch.full((1, 4, 4), float(index))
        drawn = [torch.rand(1).item(), np.random.rand(), random.random(), torch.rand(200_000).sum().item()]
        image[0, 0] = torch.tensor(drawn)
        return image, index % 2


class Doing(Dataset[tuple[Tensor, int]]):
    """Samples of one number each, with something done before sample 7 is read."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.action = action
        self.targets = [index % 2 for index in range(24)]

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 7:
            self.action()
        return torch.full((1,), float(os.getpid())), index % 2


class OddError(Exception):
    """An exception that pickle cannot bring back."""

    def __init__(self, what: str, where: int) -> None:
        super().__init__(f"{what} at {where}")


def fail() -> None:
    raise OddError("nothing", 7)


def fail_elsewhere() -> None:
    if os.getpid() != HERE:
        fail()


def die_elsewhere() -> None:
    if os.getpid() != HERE:
        time.sleep(0.5)  # by then whoever started us waits
        os.kill(os.getpid(), signal.SIGKILL)


def batches(samples: Samples, epoch: int = 0, **options: Any) -> Iterator[Batch]:
    return Loader(samples, **{"batch_size": 4, "device": "cpu", "shuffle": False, **options}).epoch(epoch)


def doing(action: Callable[[], object] = lambda: None) -> Samples:
    return from_datasets(Doing(action), test_fraction=0).train


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    assert not multiprocessing.active_children()


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("world", [1, 2])
def test_batches_are_the_same_for_any_number_of_readers(world: int) -> None:
    samples = from_datasets(Drawn(), test_fraction=0).train.subset(torch.arange(29, 2, -1))
    options: dict[str, Any] = {
        "shuffle": True,
        "seed": 5,
        "augment": Augment(crop=1, flip=True),
        "rank": world - 1,
        "world": world,
    }
    for epoch in (0, 3):
        expected = list(batches(samples, epoch, **options))
        for count in (1, 3):
            found = list(batches(samples, epoch, readers=count, **options))
            assert len(found) == 7
            for one, other in zip(expected, found, strict=True):
                for name in ("inputs", "targets", "ids", "index"):
                    assert torch.equal(getattr(one, name), getattr(other, name)), name
        drawn = torch.cat([batch.inputs for batch in batches(samples, epoch, **options, drop_last=True)])
        assert all(not torch.equal(one, other) for one, other in pairwise(drawn)), "no two draw the same"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_readers_are_forked_beside_a_gpu() -> None:
    samples = from_datasets(Drawn(), test_fraction=0).train
    torch.zeros(1, device="cuda")
    expected = list(batches(samples))
    for one, other in zip(expected, batches(samples, device="cuda", readers=2), strict=True):
        assert other.inputs.is_cuda
        assert torch.equal(one.inputs, other.inputs.cpu())


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("count", [0, 2])
def test_whoever_asks_keeps_chance_and_threads(count: int) -> None:
    samples = from_datasets(Drawn(), test_fraction=0).train
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    expected = (torch.rand(1).item(), np.random.rand(), random.random(), 2)
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    list(batches(samples, readers=count))
    assert (torch.rand(1).item(), np.random.rand(), random.random(), torch.get_num_threads()) == expected


def test_readers_read_and_nobody_else() -> None:
    found = {int(value) for batch in batches(doing(), readers=2) for value in batch.inputs}
    assert len(found) == 2
    assert HERE not in found


def test_readers_end_with_what_they_are_for() -> None:
    begun = batches(doing(), readers=2)
    next(begun)
    assert len(multiprocessing.active_children()) == 2
    begun.close()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("count", [0, 2])
def test_an_error_is_that_of_the_dataset(count: int) -> None:
    begun = batches(doing(fail), readers=count)
    assert len(next(begun)) == 4
    with pytest.raises(OddError, match=r"^nothing at 7$") as caught:
        next(begun)
    assert not multiprocessing.active_children(), f"none waits for {caught} to be forgotten"


def test_an_error_of_readers_alone_is_told_in_one_line() -> None:
    for action, words in (
        (fail_elsewhere, r"^a reader cannot read what this process can \(OddError: nothing at 7\): leave readers out$"),
        (die_elsewhere, r"^a reader has failed \(DataLoader worker .*\): give fewer readers, or more memory$"),
    ):
        with pytest.raises(DataError, match=words) as caught:
            list(batches(doing(action), readers=2))
        assert not multiprocessing.active_children(), f"none waits for {caught} to be forgotten"


def test_a_broken_image_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "IN_MEMORY_BYTES", 0)
    chance = np.random.default_rng(0)
    for number in range(12):
        path = tmp_path / ("cat", "dog")[number % 2] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(chance.integers(256, size=(20, 20, 3), dtype=np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:600])
    samples = from_folder(tmp_path, test_fraction=0).train
    said = []
    for count in (0, 2):
        with pytest.raises(DataError, match=r"11\.png cannot be read as an image") as caught:
            list(batches(samples, readers=count))
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "\n" not in said[0]


def test_ctrl_c_while_waiting_ends_the_readers() -> None:
    def interrupt() -> None:
        if os.getpid() != HERE:
            os.kill(HERE, signal.SIGINT)
            time.sleep(0.2)

    with pytest.raises(KeyboardInterrupt) as caught:
        list(batches(doing(interrupt), readers=2))
    assert not multiprocessing.active_children(), f"none waits for {caught} to be forgotten"


def test_ctrl_c_while_readers_start_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(DataLoader[Any]):
        def __iter__(self) -> Any:
            os.kill(HERE, signal.SIGINT)
            return super().__iter__()

    monkeypatch.setattr(readers, "DataLoader", Interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        list(batches(doing(), readers=2))
    assert not multiprocessing.active_children(), f"none waits for {caught} to be forgotten"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


SLEEPING = """
import time, torch
from irene.data import Loader, from_datasets

class Asleep(torch.utils.data.Dataset):
    targets = [0, 1] * 8
    awake = True
    def __len__(self):
        return 16
    def __getitem__(self, index):
        if not self.awake:
            print("reading", flush=True)
            time.sleep(200)
        return torch.zeros(1), index % 2

samples = from_datasets(Asleep(), test_fraction=0).train
Asleep.awake = False
list(Loader(samples, batch_size=4, device="cpu", shuffle=False, readers=2).epoch(0))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_reader_outlives_a_killed_process(how: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", SLEEPING], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["reading\n"] * 2
        process.send_signal(how)
        process.communicate(timeout=60)  # until the last reader is gone: they have stdout, too
    finally:
        process.kill()
    assert process.returncode == -how


SPAWNED = """
import multiprocessing, sys, torch
from irene.data import Loader, from_datasets

class Drawn(torch.utils.data.Dataset):
    targets = [0, 1] * 8
    def __init__(self, held=None):
        self.held = held
    def __len__(self):
        return 16
    def __getitem__(self, index):
        return torch.rand(3), index % 2

def read(dataset, readers):
    samples = from_datasets(dataset, test_fraction=0).train
    epoch = Loader(samples, batch_size=4, device="cpu", shuffle=True, readers=readers).epoch(2)
    return torch.cat([batch.inputs for batch in epoch])

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    assert torch.equal(read(Drawn(), 0), read(Drawn(), 1))
    try:
        read(Drawn(lambda: None), 1)
    except ValueError as error:
        print(error)
"""


def test_readers_need_not_be_forked(tmp_path: Path) -> None:
    script = tmp_path / "spawned.py"
    script.write_text(SPAWNED)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("the Dataset cannot be sent to readers (")
    assert line.endswith("): define it and all it holds at the top of a module, or leave readers out")


def test_a_worker_has_no_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing.current_process(), "daemon", True, raising=False)
    with pytest.raises(OptionError, match="readers cannot be started by a process that is a worker itself"):
        list(batches(doing(), readers=1))


def test_readers_without_anything_to_read_are_refused() -> None:
    near = from_arrays(np.zeros((8, 2)), [0, 1] * 4, name="points")
    far = from_datasets(Doing(lambda: None))
    check_readers(0, near)
    check_readers(2, far)
    with pytest.raises(OptionError, match=r"^readers read what does not fit in memory, and points is in memory: leave"):
        check_readers(1, near)
    with pytest.raises(OptionError, match=r"^readers must be 0 or more processes, got -1$"):
        check_readers(-1, far)


def test_samples_in_memory_need_no_readers() -> None:
    near = from_arrays(np.arange(16.0).reshape(8, 2), [0, 1] * 4, test_fraction=0).train
    for limit in (None, 0):
        read = torch.cat([batch.inputs for batch in batches(near, readers=2, limit_bytes=limit)])
        assert torch.equal(read, torch.arange(16.0).view(8, 2))
