"""Members run by ONNX Runtime on a CPU, in float or in 8-bit integers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Self, final

import torch
from torch import Tensor

from irene.errors import MissingExtraError, OptionError
from irene.files import write_atomically
from irene.models.member import as_heads
from irene.models.onnx_file import OnnxFile
from irene.runtime.backend import Backend, Precision, check_precision
from irene.runtime.export.graphs import trace, write_onnx
from irene.runtime.int8 import quantise_onnx


@final
class OnnxRuntime(Backend):
    """A session of ONNX Runtime with as many threads as torch uses; torch modules and .onnx files go in."""

    name: ClassVar[str] = "onnx"
    precisions: ClassVar[tuple[Precision, ...]] = ("fp32", "int8")

    def __init__(self, model: bytes, precision: Precision, *, output: str | None = None) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtraError("onnxruntime", "onnx") from None
        self.device = torch.device("cpu")
        self.precision = precision
        self.model = model
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # it warns of weights it folded away
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name
        self._output = output or self._session.get_outputs()[0].name

    @classmethod
    def load(cls, member: Callable[[Tensor], Tensor], inputs: Tensor, *, precision: Precision = "fp32") -> Self:
        check_precision(cls, precision)
        check_on_cpu(cls, inputs)
        output = None
        with TemporaryDirectory() as folder:
            path = Path(folder) / "member.onnx"
            if isinstance(member, OnnxFile):
                path, output = usable_file(member, inputs), member.output
            else:
                write_onnx(trace(member, inputs), path)
            if precision == "int8":
                whole, path = path, Path(folder) / "int8.onnx"
                quantise_onnx(whole, path, inputs)
            return cls(path.read_bytes(), precision, output=output)

    def run(self, inputs: Tensor) -> Tensor:
        (answer,) = self._session.run([self._output], {self._input: inputs.contiguous().numpy()})
        return as_heads(torch.from_numpy(answer))

    def save(self, path: Path) -> None:
        """Write the model as an .onnx file."""
        write_atomically(path, self.model)


def check_on_cpu(backend: type[Backend], inputs: Tensor) -> None:
    """Refuse inputs that lie on an accelerator."""
    if inputs.device.type != "cpu":
        raise OptionError(f"the {backend.name} backend runs on the CPU, got inputs on {inputs.device}: use eager there")


def usable_file(member: OnnxFile, inputs: Tensor) -> Path:
    """The file of a member that is one already, if it does no more than a session can."""
    if member.batch is not None or "prob" in member.output.lower() or inputs.numpy().dtype != member.dtype:
        raise OptionError(
            f"{member.path}: has a fixed batch, another input type or answers with probabilities: "
            "use the eager backend, which runs such a file by ONNX Runtime too"
        )
    return member.path
