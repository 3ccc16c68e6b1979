"""What the engines are measured against: a member alone, and the loop that runs everything and counts exits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from irene.halting.rule import Rule
from irene.runtime.backend import Backend
from irene.runtime.recorder import Recorder


class _Loop(ABC):
    """Work on whole batches over fixed memory, as fast as its backends can: on a GPU as a CUDA graph."""

    def __init__(self, backends: Sequence[Backend], example: Tensor) -> None:
        self._backends = backends
        self._inputs = example.clone()
        self._answer: Tensor | None = None

    def _record(self) -> None:
        capture = all(backend.capturable for backend in self._backends)
        self._program = Recorder(self._inputs.device).record(self._call, capture=capture)

    @torch.no_grad()
    def run(self, inputs: Tensor) -> Tensor:
        self._inputs.copy_(inputs)
        self._program()
        assert self._answer is not None  # recording called it
        return self._answer.clone()

    @abstractmethod
    def _call(self) -> None:
        """Answer the inputs."""


@final
class Alone(_Loop):
    """One member on whole batches."""

    def __init__(self, backend: Backend, example: Tensor) -> None:
        super().__init__([backend], example)
        self._record()

    @torch.no_grad()
    def _call(self) -> None:
        self._answer = self._backends[0].run(self._inputs)


@final
class Whole(_Loop):
    """Every member on every sample, and the step at which each would have stopped: the usual early-exit code.

    It answers as the cascade does and saves nothing; with one member after the other it is the whole ensemble's time.
    """

    def __init__(self, backends: Sequence[Backend], rule: Rule, example: Tensor) -> None:
        super().__init__(backends, example)
        self._rule = rule
        # What a policy starts from may be drawn on the host, which a graph cannot record.
        width = backends[0].run(self._inputs).shape[2]
        self._start = rule.start(len(example), width, example.device)
        self._record()

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
