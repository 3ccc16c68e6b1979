"""What the backends that run a member as a graph on a CPU have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from irene.errors import DataError, OptionError
from irene.models.member import as_heads
from irene.models.onnx_file import are_cut, log_probabilities
from irene.runtime.backend import Backend, Precision, check_precision
from irene.runtime.export.graphs import Signature, as_onnx


class GraphBackend(Backend):
    """A member as a graph with as many threads as torch has now; torch modules and .onnx files go in."""

    precisions: ClassVar[tuple[Precision, ...]] = ("fp32", "int8")
    keeps_inputs = True

    def __init__(self, signature: Signature, precision: Precision) -> None:
        self.device = torch.device("cpu")
        self.precision = precision
        self.signature = signature

    @classmethod
    def load(cls, member: Callable[[Tensor], Tensor], inputs: Tensor, *, precision: Precision = "fp32") -> Self:
        check_precision(cls, precision)
        if inputs.device.type != "cpu":
            raise OptionError(f"the {cls.name} backend runs on the CPU, got inputs on {inputs.device}: use eager there")
        with TemporaryDirectory() as folder:
            path, signature = as_onnx(member, inputs, Path(folder))
            return cls.open(path, signature, inputs.to(signature.type) if precision == "int8" else None)

    @classmethod
    @abstractmethod
    def open(cls, path: Path, signature: Signature, inputs: Tensor | None = None) -> Self:
        """From an ONNX file, quantised by the ranges that `inputs` show if there are some."""

    def run(self, inputs: Tensor) -> Tensor:
        rows = inputs.to(self.signature.type)
        if are_cut(inputs, rows):
            raise DataError(f"a member takes whole numbers ({self.signature.dtype}), got others: scale and round them")
        answer = torch.from_numpy(self.answer(rows.contiguous().numpy()))
        return as_heads(log_probabilities(answer) if self.signature.log else answer)

    @abstractmethod
    def answer(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The answers of the graph to a batch, in memory of their own."""

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write the graph as a file of its runtime."""
