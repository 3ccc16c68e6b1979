"""Members run by OpenVINO on a CPU, in float or in 8-bit integers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, final

import torch
from torch import Tensor

from irene.errors import OptionError
from irene.runtime.backend import Backend, Precision, check_precision
from irene.runtime.export.graphs import Signature, as_onnx
from irene.runtime.int8 import quantise_openvino
from irene.runtime.onnx_backend import as_logits, check_on_cpu
from irene.runtime.telemetry import import_quietly


@final
class OpenVino(Backend):
    """A model compiled by OpenVINO with as many threads as torch has now; torch modules and .onnx files go in."""

    name: ClassVar[str] = "openvino"
    precisions: ClassVar[tuple[Precision, ...]] = ("fp32", "int8")

    def __init__(self, model: Any, signature: Signature, precision: Precision) -> None:
        self.device = torch.device("cpu")
        self.precision = precision
        self.signature = signature
        self.model = model
        options = {
            "INFERENCE_PRECISION_HINT": "f32",  # else a CPU that can would compute in bf16
            "PERFORMANCE_HINT": "LATENCY",  # all threads on one batch: an engine has one in flight
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        }
        self._compiled = import_quietly("openvino").Core().compile_model(model, "CPU", options)

    @classmethod
    def load(cls, member: Callable[[Tensor], Tensor], inputs: Tensor, *, precision: Precision = "fp32") -> Self:
        check_precision(cls, precision)
        check_on_cpu(cls, inputs)
        with TemporaryDirectory() as folder:
            path, signature = as_onnx(member, inputs, Path(folder))
            model = _read(path)
        if precision == "int8":
            model = quantise_openvino(model, inputs)
        return cls(model, signature, precision)

    def run(self, inputs: Tensor) -> Tensor:
        rows = inputs.contiguous().numpy().astype(self.signature.dtype, copy=False)
        answer = self._compiled(rows, share_outputs=False)[self.signature.output]
        return as_logits(torch.from_numpy(answer), self.signature)

    def save(self, path: Path) -> None:
        """Write the model as OpenVINO's .xml file, with its weights in a .bin file beside it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        import_quietly("openvino").save_model(self.model, path, compress_to_fp16=False)


def _read(path: Path) -> Any:
    try:
        return import_quietly("openvino").Core().read_model(path)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise OptionError(f"{path.name}: OpenVINO cannot read it ({reason}): use the onnx or eager backend") from error
