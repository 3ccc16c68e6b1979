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
from irene.runtime.backend import Backend, Precision, load_backends
from irene.runtime.buckets import CostTable, check_buckets
from irene.runtime.recorder import Fetch
from irene.runtime.stages import Stages, as_example, out_of_inference_mode
from irene.types import Prediction

_SHARES = 32
_LOOK_EVERY = 32  # batches after which it looks again how many go on; at first after every one


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """How an engine runs."""

    largest: int = 1024
    """Samples run at once; larger batches are run in parts."""
    buckets: tuple[int, ...] | None = None
    """The batch sizes that members are run in. By default powers of two and, on a GPU, some between; on a CPU
    members that take any size get exactly as many samples as there are."""
    fuse: bool | None = None
    """Whether features, policy and lists are compiled; by default on a GPU."""

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
    one for each of them, or backends that are loaded already; `precision` is that of all members, by default fp32, and
    a name may say one of its own instead, as eager:bf16 does. Threads may share an engine: it serves one at a time.
    """

    @out_of_inference_mode
    def __init__(
        self,
        cascade: Cascade,
        example: Tensor | NDArray[Any],
        *,
        backends: str | Sequence[str | Backend] = "eager",
        precision: Precision | None = None,
        options: EngineOptions | None = None,
    ) -> None:
        self.options = options or EngineOptions()
        inputs = as_example(example, cascade)
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
        self._going = _Going(self._stages.came)
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

    def predict(self, inputs: Tensor | NDArray[Any]) -> Prediction:
        """Answer a batch of any size; the answers lie on the engine's device."""
        if torch.is_inference_mode_enabled():
            with torch.inference_mode(False):  # entered where there is need alone, as that takes time
                return self.predict(inputs)
        inputs = as_batch(inputs, self._stages.float_type)
        if inputs.requires_grad:
            inputs = inputs.detach()
        self._stages.check(inputs)
        samples, size = inputs.shape[0], self.options.largest
        state = self._stages.begin(samples)
        with self._turn:
            parts = [
                self._answer(
                    _part(inputs, start, size), {key: _part(value, start, size) for key, value in state.items()}
                )
                for start in range(0, samples, size)
            ]
            return Prediction.cat(parts or [self._stages.answers(0, 0)])

    def _answer(self, inputs: Tensor, state: State) -> Prediction:
        """Answer a batch that fits into the slots; the work that the device waits for is given to it first."""
        stages, samples = self._stages, inputs.shape[0]
        stages.inputs[:samples].copy_(inputs)
        for key, value in state.items():
            stages.state[key][:samples].copy_(value)
        rows, width = stages.plan(0, samples, self.options.largest, self._going.shares[0])
        stages.list_all(samples, rows)
        self._going.samples += samples
        stages.run(0, rows, width)
        if stages.chain is None:
            self._go_on(width, rows)
        else:
            stages.chain.run(self._going.shares)
        answers = stages.answers(0, samples)
        self._going.learn()
        return answers

    def _go_on(self, stage: int, rows: int) -> None:
        """Run the stages from this one on for the survivors in a list of `rows`, until no sample goes on."""
        stages = self._stages
        while stage < stages.steps:
            count = int(Fetch(stages.survivors(stage - 1, rows)[-1:]).wait().numpy()[0])
            if count == 0:
                return
            rows, width = stages.plan(stage, count, rows, self._going.shares[stage])
            stages.run(stage, rows, width)
            stage += width


class _Turn:
    """A lock that can be copied and pickled; the copy is free."""

    def __init__(self) -> None:
        self._lock = Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[_Turn], tuple[()]]:
        return _Turn, ()


class _Going:
    """Which share of the samples goes on after each stage, looked at now and then without waiting for a device.

    `came` is how many samples came to each stage after the first so far, and `samples` how many came to the first:
    these are counted before they run, as a batch may fail in the middle.
    """

    def __init__(self, came: Tensor) -> None:
        self.shares = [0.0] * len(came)
        self._came = came
        self.samples = 0
        self._batches = 0
        self._look: tuple[int, Fetch] | None = None  # how many came to the first stage, and to the others

    def learn(self) -> None:
        """Look how many went on, if it is time to, after a batch has been given to the device."""
        if self._look is None and (self._batches < _LOOK_EVERY or self._batches % _LOOK_EVERY == 0):
            self._look = (self.samples, Fetch(self._came))
        self._batches += 1
        if self._look is not None and (came := self._look[1].now()) is not None:
            counts = [self._look[0], *came.numpy()[1:]]
            self.shares = [*(_share(next_one, here) for here, next_one in pairwise(counts)), 0.0]
            self._look = None


def _share(part: int, whole: int) -> float:
    """A share, to a fraction so coarse that plans seldom change."""
    return round(_SHARES * part / max(whole, 1)) / _SHARES


def _part(rows: Tensor, start: int, count: int) -> Tensor:
    """`count` rows from `start` on, or all rows if there are no more."""
    return rows if rows.shape[0] <= count else rows[start : start + count]
