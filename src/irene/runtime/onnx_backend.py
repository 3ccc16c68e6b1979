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
from irene.runtime.backend import Backend, Precision, check_precision
from irene.runtime.export.graphs import Signature, as_onnx
from irene.runtime.int8 import quantise_onnx


@final
class OnnxRuntime(Backend):
    """A session of ONNX Runtime with as many threads as torch has now; torch modules and .onnx files go in."""

    name: ClassVar[str] = "onnx"
    precisions: ClassVar[tuple[Precision, ...]] = ("fp32", "int8")

    def __init__(self, model: bytes, signature: Signature, precision: Precision) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtraError("onnxruntime", "onnx") from None
        self.device = torch.device("cpu")
        self.precision = precision
        self.signature = signature
        self.model = model
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # it warns of weights it folded away
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name

    @classmethod
    def load(cls, member: Callable[[Tensor], Tensor], inputs: Tensor, *, precision: Precision = "fp32") -> Self:
        check_precision(cls, precision)
        check_on_cpu(cls, inputs)
        with TemporaryDirectory() as folder:
            path, signature = as_onnx(member, inputs, Path(folder))
            if precision == "int8":
                whole, path = path, Path(folder) / "int8.onnx"
                quantise_onnx(whole, path, inputs)
            return cls(path.read_bytes(), signature, precision)

    def run(self, inputs: Tensor) -> Tensor:
        rows = inputs.contiguous().numpy().astype(self.signature.dtype, copy=False)
        (answer,) = self._session.run([self.signature.output], {self._input: rows})
        return as_logits(torch.from_numpy(answer), self.signature)

    def save(self, path: Path) -> None:
        """Write the model as an .onnx file."""
        write_atomically(path, self.model)


def as_logits(answer: Tensor, signature: Signature) -> Tensor:
    """(B, H, K) logits or values from what a graph answered."""
    if signature.log:
        answer = answer.clamp_min(torch.finfo(torch.float32).eps).log()
    return as_heads(answer)


def check_on_cpu(backend: type[Backend], inputs: Tensor) -> None:
    """Refuse inputs that lie on an accelerator."""
    if inputs.device.type != "cpu":
        raise OptionError(f"the {backend.name} backend runs on the CPU, got inputs on {inputs.device}: use eager there")
