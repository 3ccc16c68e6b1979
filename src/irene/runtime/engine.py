"""The compacting engine: after every member only the samples that go on are run, in the next fitting bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from threading import Lock
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from irene.cascade import Cascade
from irene.errors import OptionError
from irene.halting.policy import State
from irene.models.adapters import as_batch
from irene.runtime.backend import Backend, Precision
from irene.runtime.buckets import CostTable, check_buckets
from irene.runtime.recorder import Mark
from irene.runtime.stages import Stages, as_example, load_backends, out_of_inference_mode
from irene.types import Prediction

_SHARES = 32


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """How an engine runs."""

    largest: int = 1024
    """Samples run at once; larger batches are run in parts."""
    buckets: tuple[int, ...] | None = None
    """The batch sizes that members are run in. By default powers of two and, on a GPU, some between; on a CPU
    members that take any size get exactly as many samples as there are."""
    fuse: bool | None = None
    """Whether features, policy and lists are compiled into one piece; by default on a GPU."""

    side_by_side: bool | None = None
    """Whether two members may run at once on samples that one would not fill the device with, where that is the
    faster; the second may then run for nothing. By default on a GPU."""

    def __post_init__(self) -> None:
        if not isinstance(self.largest, Integral) or self.largest < 1:
            raise OptionError(f"largest must be 1 sample or more, a whole number, got {self.largest}")
        if self.buckets is not None:
            check_buckets(self.buckets)


class Engine:
    """Answers exactly as `Cascade.predict` does, and takes about as long as the members used would.

        engine = Engine(cascade, images[:1])
        prediction = engine.predict(images)

    `example` holds one raw input or more on the device to run on; it tells their shape and type. Everything is
    compiled, captured and timed here, and nothing later. `backends` names what runs the members: one name, or
    one for each of them, or backends that are loaded already; a name may say a precision of its own, as eager:bf16
    does. Threads may share an engine: it serves one at a time.
    """

    @out_of_inference_mode
    def __init__(
        self,
        cascade: Cascade,
        example: Tensor | NDArray[Any],
        *,
        backends: str | Sequence[str | Backend] = "eager",
        precision: Precision = "fp32",
        options: EngineOptions | None = None,
    ) -> None:
        self.options = options or EngineOptions()
        inputs = as_example(example)
        self._stages = Stages(
            cascade,
            inputs,
            load_backends(cascade, inputs, backends, precision),
            slots=self.options.largest,
            largest=self.options.largest,
            buckets=self.options.buckets,
            whole_batches=True,
            pairs=inputs.device.type == "cuda" if self.options.side_by_side is None else self.options.side_by_side,
            fuse=self.options.fuse,
        )
        self._numbers = torch.arange(self.options.largest, device=inputs.device)
        self._mark = Mark(inputs.device)
        self._going = [_Going() for _ in cascade.members]
        self._marked = False  # whether the mark stands behind a batch that was not learned from yet
        self._listed = (0, 0)  # samples and rows that the first list stands for
        self._turn = _Turn()

    def __repr__(self) -> str:
        return f"Engine({self._stages}, largest {self.options.largest})"

    @property
    def recorded(self) -> int:
        """How many programs (a member in a bucket) were compiled or captured: all of them when it was made."""
        return self._stages.recorder.recorded

    @property
    def costs(self) -> CostTable | None:
        """What each member takes in each bucket; None where members are run in any size."""
        return self._stages.costs

    @out_of_inference_mode
    @torch.no_grad()
    def predict(self, inputs: Tensor | NDArray[Any]) -> Prediction:
        """Answer a batch of any size; the answers lie on the engine's device."""
        inputs = as_batch(inputs)
        self._stages.check(inputs)
        state = self._stages.begin(len(inputs))
        size = self.options.largest
        with self._turn:
            parts = [
                self._answer(inputs[start : start + size], _rows(state, start, start + size))
                for start in range(0, len(inputs), size)
            ]
            return Prediction.cat(parts or [self._stages.answers(0, 0)])

    def _answer(self, inputs: Tensor, state: State | None) -> Prediction:
        stages, samples = self._stages, len(inputs)
        stages.inputs[:samples].copy_(inputs)
        for key, value in (state or {}).items():
            stages.state[key][:samples].copy_(value)
        self._learn()
        rows, width = stages.plan(0, samples, self.options.largest, self._going[0].share)
        self._list_all(samples, rows)
        stages.run(0, rows, width)
        if stages.chain is None:
            self._go_on(width, rows)
        else:
            stages.chain.run([going.share for going in self._going])
            if not self._marked:
                self._mark.set()
        self._marked = True
        return stages.answers(0, samples)

    def _go_on(self, stage: int, rows: int) -> None:
        """Run the stages from this one on for those who come to it from a list of so many, until nobody goes on."""
        stages = self._stages
        while True:
            self._mark.set()
            if stage == stages.steps:
                return
            self._mark.wait()
            count = int(stages.came[stage])
            if count == 0:
                return
            rows, width = stages.plan(stage, count, rows, self._going[stage].share)
            stages.run(stage, rows, width)
            stage += width

    def _learn(self) -> None:
        """Count who went on in a batch that is done; the last one may not be, and nobody waits for it here."""
        if self._marked and self._mark.passed():
            came = self._stages.came.tolist()
            for going, (here, next_one) in zip(self._going, pairwise(came), strict=False):
                going.add(here, next_one)
            self._marked = False

    def _list_all(self, samples: int, rows: int) -> None:
        if self._listed != (samples, rows):
            self._stages.lists[0][:samples].copy_(self._numbers[:samples])
            self._stages.lists[0][samples:rows].fill_(self._stages.spare)
            self._listed = (samples, rows)


class _Turn:
    """A lock that is copied and pickled as one that nobody holds."""

    def __init__(self) -> None:
        self._lock = Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[_Turn], tuple[()]]:
        return _Turn, ()


class _Going:
    """How many samples came to a stage so far, and how many of them went on."""

    def __init__(self) -> None:
        self.came = self.went = 0

    def add(self, came: int, went: int) -> None:
        self.came += came
        self.went += went

    @property
    def share(self) -> float:
        """The share that went on, to a fraction so coarse that plans seldom change."""
        return round(_SHARES * self.went / max(self.came, 1)) / _SHARES


def _rows(state: State | None, start: int, stop: int) -> State | None:
    return state and {key: value[start:stop] for key, value in state.items()}
