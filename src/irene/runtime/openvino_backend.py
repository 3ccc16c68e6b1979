"""Members run by OpenVINO on a CPU, in float or in 8-bit integers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, final

import torch
from torch import Tensor

from irene.models.member import as_heads
from irene.models.onnx_file import OnnxFile
from irene.runtime.backend import Backend, Precision, check_precision
from irene.runtime.export.graphs import trace, write_onnx
from irene.runtime.int8 import quantise_openvino
from irene.runtime.onnx_backend import check_on_cpu, usable_file
from irene.runtime.telemetry import import_quietly


@final
class OpenVino(Backend):
    """A model compiled by OpenVINO with as many threads as torch uses; torch modules and .onnx files go in."""

    name: ClassVar[str] = "openvino"
    precisions: ClassVar[tuple[Precision, ...]] = ("fp32", "int8")

    def __init__(self, model: Any, precision: Precision, *, output: str | None = None) -> None:
        openvino = import_quietly("openvino")
        self.device = torch.device("cpu")
        self.precision = precision
        self.model = model
        options = {
            "INFERENCE_PRECISION_HINT": "f32",  # else a CPU that can would compute in bf16
            "PERFORMANCE_HINT": "LATENCY",  # all threads on one batch: an engine has one in flight
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        }
        self._run = openvino.Core().compile_model(model, "CPU", options)
        self._output: Any = output or 0

    @classmethod
    def load(cls, member: Callable[[Tensor], Tensor], inputs: Tensor, *, precision: Precision = "fp32") -> Self:
        check_precision(cls, precision)
        check_on_cpu(cls, inputs)
        openvino = import_quietly("openvino")
        output = None
        with TemporaryDirectory() as folder:
            path = Path(folder) / "member.onnx"
            if isinstance(member, OnnxFile):
                path, output = usable_file(member, inputs), member.output
            else:
                write_onnx(trace(member, inputs), path)
            model = openvino.Core().read_model(path)
            if precision == "int8":
                model = quantise_openvino(model, inputs)
            return cls(model, precision, output=output)

    def run(self, inputs: Tensor) -> Tensor:
        answer = self._run(inputs.contiguous().numpy(), share_outputs=False)[self._output]
        return as_heads(torch.from_numpy(answer))

    def save(self, path: Path) -> None:
        """Write the model as OpenVINO's .xml file, with its weights in a .bin file beside it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        import_quietly("openvino").save_model(self.model, path, compress_to_fp16=False)
