"""Graphs in 8-bit integers: weights a channel at a time, activations by the ranges that held-out inputs show."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from irene.data.evenly import evenly
from irene.errors import OptionError, import_extra
from irene.runtime.telemetry import import_quietly

MOST_INPUTS = 512  # ranges hardly move any more
LEAST_INPUTS = 16
_BATCH = 32
# Elementwise with a constant: the normalisation of the inputs and the scale of the answers, cheap and precious.
_ELEMENTWISE = ("Add", "Sub", "Mul", "Div")
_LINEAR = ("Gemm", "MatMul")


def quantise_onnx(source: Path, target: Path, inputs: Tensor) -> None:
    """Write a statically quantised copy (QDQ) of an ONNX file, calibrated on raw inputs no member was trained on.

    Activations are unsigned and weights signed, the pair that CPUs multiply fastest. The last linear layer stays in
    float: it costs next to nothing, and its answers are what halting looks at.
    """
    for module in ("onnx", "onnxruntime"):
        import_extra(module, "onnx")
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    rows = _rows(inputs)
    with TemporaryDirectory() as folder, _silent():
        folded = Path(folder) / "folded.onnx"  # batch norms folded into convolutions, shapes inferred
        quant_pre_process(source, folded, skip_symbolic_shape=True)
        name, kept = _input_and_kept(folded)

        class Reader(quantization.CalibrationDataReader):  # type: ignore[misc] # onnxruntime publishes no types
            def __init__(self) -> None:
                self.batches = _batches(rows, _BATCH)

            def get_next(self) -> dict[str, NDArray[Any]] | None:
                batch = next(self.batches, None)
                return None if batch is None else {name: batch}

        quantization.quantize_static(
            folded,
            target,
            Reader(),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            calibrate_method=quantization.CalibrationMethod.MinMax,
            per_channel=True,
            nodes_to_exclude=kept,
        )


def quantise_openvino(model: Any, inputs: Tensor) -> Any:
    """A quantised copy of an OpenVINO model, made by nncf; as with ONNX, the last linear layer stays in float."""
    nncf = import_quietly("nncf")
    estimators = import_quietly("nncf.quantization.range_estimator")
    nncf.set_log_level(logging.ERROR)
    rows = _rows(inputs)
    linear = [node.get_friendly_name() for node in model.get_ordered_ops() if node.get_type_name() == "MatMul"]
    with _silent():
        return nncf.quantize(
            model,
            nncf.Dataset(list(_batches(rows, 1))),
            preset=nncf.QuantizationPreset.MIXED,
            subset_size=len(rows),
            ignored_scope=nncf.IgnoredScope(names=linear[-1:]),
            # By itself nncf takes the mean of each sample's range, and so cuts off what is above it.
            advanced_parameters=nncf.AdvancedQuantizationParameters(
                activations_range_estimator_params=estimators.RangeEstimatorParametersSet.MINMAX
            ),
        )


def _rows(inputs: Tensor) -> NDArray[Any]:
    if len(inputs) < LEAST_INPUTS:
        raise OptionError(
            f"int8 takes its ranges from inputs: give some hundreds that no member was trained on, got {len(inputs)}"
        )
    return inputs[evenly(len(inputs), MOST_INPUTS)].cpu().numpy()


def _batches(rows: NDArray[Any], size: int) -> Iterator[NDArray[Any]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _input_and_kept(path: Path) -> tuple[str, list[str]]:
    """The name of the graph's input, and the names of the nodes that stay in float."""
    import onnx

    graph = onnx.load(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    kept = [node.name for node in graph.node if node.op_type in _ELEMENTWISE and constants.intersection(node.input)]
    linear = [node.name for node in graph.node if node.op_type in _LINEAR]
    return graph.input[0].name, kept + linear[-1:]


@contextmanager
def _silent() -> Iterator[None]:
    """Both libraries tell of their progress on stdout and in the root logger."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)
