"""Members run by OpenVINO on a CPU, in float or in 8-bit integers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self, final

import torch
from numpy.typing import NDArray
from torch import Tensor

from irene.errors import OptionError
from irene.runtime.backend import Precision
from irene.runtime.export.graphs import Signature
from irene.runtime.graph_backend import GraphBackend
from irene.runtime.int8 import quantise_openvino
from irene.runtime.telemetry import import_quietly


@cache
def _core() -> Any:
    """The one runtime of this process: each would bring plugins and threads of its own, and end them when it goes."""
    return import_quietly("openvino").Core()


@final
class OpenVino(GraphBackend):
    """A model compiled by OpenVINO."""

    name: ClassVar[str] = "openvino"

    def __init__(self, model: Any, signature: Signature, precision: Precision) -> None:
        super().__init__(signature, precision)
        self.model = model
        options = {
            "INFERENCE_PRECISION_HINT": "f32",  # else a CPU that can would compute in bf16
            "PERFORMANCE_HINT": "LATENCY",  # all threads on one batch: an engine has one in flight
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        }
        self._compiled = _core().compile_model(model, "CPU", options)

    @classmethod
    def open(cls, path: Path, signature: Signature, inputs: Tensor | None = None) -> Self:
        try:
            model = _core().read_model(path.read_bytes())
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise OptionError(f"OpenVINO cannot read this member ({reason}): use the onnx backend for it") from error
        if inputs is None:
            return cls(model, signature, "fp32")
        return cls(quantise_openvino(model, inputs), signature, "int8")

    def answer(self, rows: NDArray[Any]) -> NDArray[Any]:
        array: NDArray[Any] = self._compiled(rows, share_outputs=False)[self.signature.output]
        return array

    def save(self, path: Path) -> None:
        """Write the model as OpenVINO's .xml file, with its weights in a .bin file beside it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        import_quietly("openvino").save_model(self.model, path, compress_to_fp16=False)
