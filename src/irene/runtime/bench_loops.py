"""What the engines are measured against: a member alone, and the loop that runs everything and counts exits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from irene.halting.rule import Rule
from irene.runtime.backend import Backend
from irene.runtime.recorder import Recorder


class Alone:
    """One member on whole batches, as fast as its backend can: on a GPU as a CUDA graph."""

    def __init__(self, backend: Backend, example: Tensor) -> None:
        self._backend = backend
        self._inputs = example.clone()
        self._output: Tensor | None = None
        self._program = Recorder(example.device).record(self._call, capture=backend.capturable)

    @torch.no_grad()
    def run(self, inputs: Tensor) -> Tensor:
        self._inputs.copy_(inputs)
        self._program()
        assert self._output is not None  # recording called it
        return self._output.clone()

    @torch.no_grad()
    def _call(self) -> None:
        self._output = self._backend.run(self._inputs)


class Whole:
    """Every member on every sample, and the step at which each would have stopped: the usual early-exit code.

    It answers as the cascade does and saves nothing; with one member after the other it is the whole ensemble's time.
    """

    def __init__(self, backends: Sequence[Backend], rule: Rule, example: Tensor) -> None:
        self._backends = backends
        self._rule = rule
        self._inputs = example.clone()
        self._answer: Tensor | None = None
        # What a policy starts from may be drawn on the host, which a graph cannot record.
        width = backends[0].run(self._inputs).shape[2]
        self._start = rule.start(len(example), width, example.device)
        capture = all(backend.capturable for backend in backends)
        self._program = Recorder(example.device).record(self._call, capture=capture)

    @torch.no_grad()
    def run(self, inputs: Tensor) -> Tensor:
        self._inputs.copy_(inputs)
        self._program()
        assert self._answer is not None  # recording called it
        return self._answer.clone()

    @torch.no_grad()
    def _call(self) -> None:
        state = self._start
        running_B: Tensor | None = None
        answer_BK: Tensor | None = None
        for t, backend in enumerate(self._backends):
            outcome, state = self._rule.step(t, backend.run(self._inputs), state)
            if running_B is None or answer_BK is None:
                answer_BK, running_B = outcome.mean_BK, ~outcome.halt_B
            else:
                answer_BK = torch.where(running_B[:, None], outcome.mean_BK, answer_BK)
                running_B = running_B & ~outcome.halt_B
        self._answer = answer_BK
