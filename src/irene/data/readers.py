"""Processes that read samples ahead of the one that needs them."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pickle import PicklingError
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from irene.data.lazy import LazyInputs
from irene.data.samples import Data
from irene.errors import DataError, OptionError, first_line
from irene.processes import end_with_parent


def check_readers(readers: int, data: Data) -> None:
    """Refuse a number of readers that is none, and readers that would have nothing to read."""
    if readers < 0:
        raise OptionError(f"readers must be 0 or more processes, got {readers}")
    if readers and data.train.inputs is not None and data.test.inputs is not None:
        raise OptionError(f"readers read what does not fit in memory, and {data.name} is in memory: leave readers out")


def read_ahead(
    inputs: LazyInputs, batches: Sequence[Sequence[int]], seed: int, readers: int
) -> Generator[Tensor, None, None]:
    """`inputs.read(batch, seed)` for each batch, in order, by processes that end with the last of them.

    They end as well when the iterator is closed, at an error, and when this process is gone.
    """
    ahead = _start(_Batches(inputs, seed), batches, readers)
    try:
        for batch in batches:
            with _failing_in_one_line():
                found = next(ahead)
            if isinstance(found, str):
                inputs.read(batch, seed)  # fails here as it did there, and as it does without readers
                raise DataError(f"a reader cannot read what this process can ({found}): leave readers out")
            yield found
    finally:
        ahead._shutdown_workers()  # not left to the garbage collector: a traceback may keep the iterator for long


class _Batches(Dataset[Tensor | str]):
    """A batch for each list of indices, or why it cannot be read: not every exception survives the way back."""

    def __init__(self, inputs: LazyInputs, seed: int) -> None:
        self.inputs = inputs
        self.seed = seed

    def __getitem__(self, batch: Sequence[int]) -> Tensor | str:
        try:
            read: Tensor = self.inputs.read(batch, self.seed).share_memory_()
            return read
        except Exception as error:
            return f"{type(error).__name__}: {first_line(error)}"


def _start(dataset: _Batches, batches: Sequence[Sequence[int]], readers: int) -> Any:
    if multiprocessing.current_process().daemon:
        raise OptionError("readers cannot be started by a process that is a worker itself: leave readers out")
    with _failing_in_one_line(), _interrupted_later(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This DataLoader will create")  # more than cores: files may be far away
        warnings.filterwarnings("ignore", "This process .* is multi-threaded")  # of every such fork, by Python 3.12
        loader = DataLoader(
            dataset,
            batch_size=None,  # an index is a whole batch
            sampler=batches,
            num_workers=readers,
            worker_init_fn=_begin,
            generator=torch.Generator(),  # else a seed that nobody uses would be drawn from the caller's
        )
        return iter(loader)


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Let Ctrl-C wait: in the middle of a fork it would be lost here, and end readers that do not ignore it yet."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield  # nobody else may change what it does
        return
    pressed = []
    signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def _failing_in_one_line() -> Iterator[None]:
    """Say what the DataLoader itself raises; what reading raises comes as text."""
    try:
        yield
    except RuntimeError as error:
        raise DataError(f"a reader has failed ({first_line(error)}): give fewer readers, or more memory") from error
    except (AttributeError, TypeError, PicklingError) as error:  # where processes are started anew and not forked
        raise DataError(
            f"the Dataset cannot be sent to readers ({first_line(error)}): define it and all it holds at the top of a "
            "module, or leave readers out"
        ) from error


def _begin(_: int) -> None:
    end_with_parent()
    sys.excepthook = lambda *_: None  # of the thread that hands a batch over, where Ctrl-C cut that short
