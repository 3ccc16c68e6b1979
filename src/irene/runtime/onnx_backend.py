"""Members run by ONNX Runtime on a CPU, in float or in 8-bit integers."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, final

import torch
from numpy.typing import NDArray
from torch import Tensor

from irene.errors import import_extra
from irene.files import write_atomically
from irene.runtime.backend import Precision
from irene.runtime.export.graphs import Signature
from irene.runtime.graph_backend import GraphBackend
from irene.runtime.int8 import quantise_onnx


@final
class OnnxRuntime(GraphBackend):
    """A session of ONNX Runtime."""

    name: ClassVar[str] = "onnx"

    def __init__(self, model: bytes, signature: Signature, precision: Precision) -> None:
        super().__init__(signature, precision)
        onnxruntime = import_extra("onnxruntime", "onnx")
        self.model = model
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # it warns of weights it folded away
        # The members take turns on the same cores: threads that wait by spinning would take them from the others.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name

    @classmethod
    def open(cls, path: Path, signature: Signature, inputs: Tensor | None = None) -> Self:
        if inputs is None:
            return cls(path.read_bytes(), signature, "fp32")
        with TemporaryDirectory() as folder:
            quantised = Path(folder) / "int8.onnx"
            quantise_onnx(path, quantised, inputs)
            return cls(quantised.read_bytes(), signature, "int8")

    def answer(self, rows: NDArray[Any]) -> NDArray[Any]:
        (answer,) = self._session.run([self.signature.output], {self._input: rows})
        array: NDArray[Any] = answer
        return array

    def save(self, path: Path) -> None:
        """Write the model as an .onnx file."""
        write_atomically(path, self.model)
