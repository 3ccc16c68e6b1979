"""The streaming engine: survivors of several batches wait at their stage until there are enough to fill a bucket.

This is survivor backfill: every member runs on full buckets only, however few of a batch's samples reach it. Slots
form a ring in order of arrival, and every list and queue keeps that order, so the oldest sample that is not done is
at the head of some queue, and answers leave in the order in which their inputs came.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irene.cascade import Cascade
from irene.errors import OptionError
from irene.models.adapters import as_batch
from irene.runtime.arrivals import in_time
from irene.runtime.backend import Backend, Precision, load_backends
from irene.runtime.buckets import usual_bucket
from irene.runtime.queues import Queue
from irene.runtime.recorder import Fetch
from irene.runtime.stages import Stages, as_example, out_of_inference_mode
from irene.types import Prediction

_BUCKETS_HELD = 64  # by default, as many samples may be in flight as fill this many buckets
MOST_BYTES = 2**31  # or as many as take this much memory
_RUNS_AHEAD = 3  # what a GPU has been given to do, so that it never waits for the host


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """How a stream runs."""

    bucket: int | None = None
    """Samples a member runs at once; by default 1024, or 64 for images on a CPU."""
    window: int | None = None
    """Samples in flight at most, from those just put in to those whose answer waits for an older one's; memory is
    taken for so many and never more. By default 64 buckets, or as many as fit into 2 GiB with all that is kept of
    each (input, what its policy remembers, answer), and one bucket at least."""
    deadline_ms: float | None = None
    """How long the oldest sample may wait for a bucket to fill; then it runs in one that is not full. Batches are then
    read on a thread of their own, so that a source that gives nothing for a while holds up no answer."""
    fuse: bool | None = None
    """Whether features, policy and lists are compiled; by default on a GPU."""

    def __post_init__(self) -> None:
        if self.bucket is not None and (not isinstance(self.bucket, Integral) or self.bucket < 1):
            raise OptionError(f"bucket must be 1 sample or more, a whole number, got {self.bucket}")
        if self.window is not None and (not isinstance(self.window, Integral) or self.window < (self.bucket or 1)):
            raise OptionError(f"window must hold at least a bucket, a whole number of samples, got {self.window}")
        if self.deadline_ms is not None and not self.deadline_ms >= 0:  # NaN is not
            raise OptionError(f"deadline_ms must be 0 or more, got {self.deadline_ms}")


@dataclass(frozen=True)
class _Run:
    """A stage that has been started on some samples."""

    stage: int
    oldest: int
    rows: int
    fetch: Fetch  # which samples go on


@dataclass(frozen=True)
class _Part:
    """Samples of one batch, small enough for a bucket."""

    start: int
    stop: int
    arrival: float
    last: bool  # of its batch


class Stream:
    """Answers batch after batch as `Cascade.predict` would, in order, with every member run on full buckets.

        stream = Stream(cascade, images[:1])
        for prediction in stream.predict(batches):
            ...

    `example` and `backends` are as for `Engine`. A stream is for one thread and one `predict` at a time.
    """

    @out_of_inference_mode
    def __init__(
        self,
        cascade: Cascade,
        example: Tensor | NDArray[Any],
        *,
        backends: str | Sequence[str | Backend] = "eager",
        precision: Precision | None = None,
        options: StreamOptions | None = None,
    ) -> None:
        self.options = options or StreamOptions()
        inputs = as_example(example, cascade)
        bucket, window = self.options.bucket or usual_bucket(inputs.shape[1:], inputs.device), self.options.window
        self.bucket = bucket if window is None else min(bucket, window)
        self._stages = Stages(
            cascade,
            inputs,
            load_backends(cascade, inputs, backends, precision),
            slots=_BUCKETS_HELD * bucket if window is None else window,
            most_bytes=MOST_BYTES if window is None else None,
            largest=self.bucket,
            fuse=self.options.fuse,
        )
        self.window = self._stages.spare
        self._cuda = inputs.device.type == "cuda"
        self._ahead = _RUNS_AHEAD if self._cuda else 0
        self._copies = torch.cuda.Stream(inputs.device) if self._cuda else None
        self.peak = 0  # the most samples that were in flight
        self.runs = [0] * self._stages.steps  # how often each member ran
        self.samples = [0] * self._stages.steps  # and on how many samples in all
        self._clear()

    def __repr__(self) -> str:
        return f"Stream({self._stages}, bucket {self.bucket}, window {self.window})"

    @property
    def recorded(self) -> int:
        """How many programs (a member in a bucket) were compiled or captured: all of them when it was made."""
        return self._stages.recorder.recorded

    @property
    def live(self) -> int:
        """Samples in flight."""
        return self._put - self._freed

    @out_of_inference_mode
    @torch.no_grad()
    def predict(self, batches: Iterable[Tensor | NDArray[Any] | None]) -> Iterator[Prediction]:
        """Answers in the order of the batches, each as soon as the samples before it are done too.

        A None among the batches says that nothing has come for now: what waits is run, as the device is idle.
        """
        if isinstance(batches, Tensor | np.ndarray) and batches.ndim == len(self._stages.input_shape) + 1:
            raise OptionError("a stream takes batches, got one array: give [inputs], or inputs.split(100) of a tensor")
        self._clear()
        begun = self._begun
        for batch in batches if self.options.deadline_ms is None else in_time(batches, self._seconds_left):
            self._check_turn(begun)
            if batch is None:
                self._idle()
            else:
                self._take(as_batch(batch, self._stages.float_type))
            yield from self._leaving(begun)
        while self._parts:
            self._drain()
            yield from self._leaving(begun)

    def _leaving(self, begun: object) -> Iterator[Prediction]:
        """Answers that are there."""
        while self._done:
            yield self._done.popleft()
            self._check_turn(begun)

    def _check_turn(self, begun: object) -> None:
        """Slots and queues serve one `predict` at a time, which `begun` tells from the others."""
        if self._begun is not begun:
            raise OptionError("this stream was given other batches meanwhile: use one after the other, or two streams")

    def _clear(self) -> None:
        self._begun = object()  # tells one `predict` from the next
        self._queues = [Queue() for _ in range(self._stages.steps)]
        self._runs: deque[_Run] = deque()
        self._parts: deque[_Part] = deque()
        self._answers: list[Prediction] = []  # parts of the batch that is next to leave
        self._done: deque[Prediction] = deque()
        self._put = 0  # samples that came so far: a sample's number, modulo the window, is its slot
        self._freed = 0  # samples whose answers have left their slots

    def _take(self, batch: Tensor) -> None:
        """Put a batch in and run whatever became full by it."""
        self._stages.check(batch)
        state = self._stages.begin(len(batch))
        arrival = time.monotonic()
        for start in range(0, max(len(batch), 1), self.bucket):
            stop = min(start + self.bucket, len(batch))
            while self.live + stop - start > self.window:
                self._help_oldest()
            for low, high, slot in self._segments(self._put, self._put + stop - start):
                self._copy(batch[start + low : start + high], self._stages.inputs[slot : slot + high - low])
                for key, value in state.items():
                    self._stages.state[key][slot : slot + high - low].copy_(value[start + low : start + high])
            self._parts.append(_Part(self._put, self._put + stop - start, arrival, stop == len(batch)))
            self._queues[0].push(np.arange(self._put, self._put + stop - start))
            self._put += stop - start
            self.peak = max(self.peak, self.live)
            self._run_full()
            while self._overdue():
                self._help_oldest()

    def _copy(self, source: Tensor, slots: Tensor) -> None:
        """Bring inputs into their slots; from the host's memory beside whatever the GPU is doing."""
        if self._copies is None or source.is_cuda:
            slots.copy_(source)
            return
        with torch.cuda.stream(self._copies):
            slots.copy_(source if source.is_pinned() else source.pin_memory(), non_blocking=True)
        torch.cuda.current_stream(slots.device).wait_stream(self._copies)

    def _segments(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Samples `start` to `stop` as stretches of slots, at most two: from, to (counted from start), first slot."""
        low = 0
        while low < stop - start:
            slot = (start + low) % self.window
            high = min(stop - start, low + self.window - slot)
            yield low, high, slot
            low = high

    def _run_full(self) -> None:
        """Run every full bucket, at the deepest stage first: that is where samples come to their end soonest."""
        while True:
            while self._runs and self._runs[0].fetch.ready():
                self._finish()
            full = [stage for stage, queue in enumerate(self._queues) if len(queue) >= self.bucket]
            if not full:
                break
            self._start(full[-1])
        self._free()

    def _start(self, stage: int) -> None:
        """Start a stage on what waits there, up to a bucket."""
        stages = self._stages
        numbers = self._queues[stage].pop(self.bucket)
        rows, _ = stages.plan(stage, len(numbers), self.bucket)
        listed = torch.full((rows,), stages.spare, dtype=torch.int64, device="cpu", pin_memory=self._cuda)
        listed[: len(numbers)] = torch.from_numpy(numbers % self.window)
        stages.lists[stage][:rows].copy_(listed, non_blocking=True)
        stages.run(stage, rows)
        self.runs[stage] += 1
        self.samples[stage] += len(numbers)
        self._runs.append(_Run(stage, int(numbers[0]), rows, Fetch(stages.survivors(stage, rows))))
        while len(self._runs) > self._ahead:
            self._finish()

    def _finish(self) -> None:
        """Learn which samples go on after the run that was started first."""
        run = self._runs.popleft()
        listed = run.fetch.wait().numpy()
        if run.stage + 1 < self._stages.steps:
            slots = listed[: listed[run.rows]]
            self._queues[run.stage + 1].push(self._freed + (slots - self._freed) % self.window)

    def _free(self) -> None:
        """Collect the answers of all samples before the oldest that is not done, and give their slots back."""
        oldest = min([self._put, *(run.oldest for run in self._runs), *(queue.head for queue in self._queues if queue)])
        while self._parts and self._parts[0].stop <= oldest:
            part = self._parts.popleft()
            pieces = [
                self._stages.answers(slot, slot + high - low)
                for low, high, slot in self._segments(part.start, part.stop)
            ]
            self._answers += pieces or [self._stages.answers(0, 0)]
            self._freed = part.stop
            if part.last:
                self._done.append(Prediction.cat(self._answers))
                self._answers = []

    def _overdue(self) -> bool:
        return self._seconds_left() == 0

    def _seconds_left(self) -> float | None:
        """How long the oldest sample may still wait; None where nothing waits, or there is no deadline."""
        if self.options.deadline_ms is None or not self._parts:
            return None
        return max(0.0, self._parts[0].arrival + self.options.deadline_ms / 1000 - time.monotonic())

    def _help_oldest(self) -> None:
        """Bring the oldest sample that is not done one stage further, in a bucket that need not be full."""
        if self._runs:
            self._finish()
        else:
            waiting = [stage for stage, queue in enumerate(self._queues) if queue]
            self._start(min(waiting, key=lambda stage: self._queues[stage].head))
        self._run_full()

    def _idle(self) -> None:
        """Nothing new came: take what waits one step further, or more where it is overdue."""
        if self._parts:
            self._help_oldest()
        while self._overdue():
            self._help_oldest()

    def _drain(self) -> None:
        """Nothing more will come: run what waits, the first stage before the others, which fill up by it."""
        if self._runs:
            self._finish()
        else:
            waiting = [stage for stage, queue in enumerate(self._queues) if queue]
            if waiting:
                self._start(waiting[0])
        self._run_full()
