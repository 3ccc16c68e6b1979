"""A member that is a file: an ONNX model run by ONNX Runtime."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irene.errors import DataError, OptionError, first_line, import_extra

_DTYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
}
_ROUNDING = 5e-3  # of probabilities in half precision
_FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)")
_SPEAKS_OF_PROBABILITIES = re.compile(r"prob(a|s|as|ability|abilities)?(?![a-z])")
_PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")


@final
class OnnxFile:
    """An ONNX model with one input, whose batch axis may be free or fixed.

    It answers with its output `logits`, or with its first floating-point output. With `log` these are
    probabilities, turned into log-probabilities; by default where the name of the output, as scikit-learn's exporters
    write it, speaks of them.
    """

    def __init__(self, path: Path, *, log: bool | None = None) -> None:
        self.path = path
        self.session = _open(path)
        inputs = self.session.get_inputs()
        if len(inputs) != 1 or inputs[0].type not in _DTYPES:
            found = ", ".join(f"{each.name} of {each.type}" for each in inputs)
            raise OptionError(f"{path}: a member takes one batch of numbers, this model takes {found}")
        self.input = inputs[0].name
        self.dtype = _DTYPES[inputs[0].type]
        first, *rest = inputs[0].shape or [None]
        self.batch: int | None = first if isinstance(first, int) else None
        self.shape: tuple[int | str | None, ...] = tuple(rest)  # of one sample; a name or None where it may vary
        self.output = _output(path, self.session)
        name = self.output.lower()
        self.log = log if log is not None else "log" not in name and bool(_SPEAKS_OF_PROBABILITIES.search(name))

    @property
    def whole(self) -> bool:
        """Whether it takes whole numbers only."""
        return np.issubdtype(self.dtype, np.integer)

    def __call__(self, inputs: Tensor) -> Tensor:
        name = np.dtype(self.dtype).name
        given = inputs.detach().cpu()
        rows = given.to(getattr(torch, name))
        if are_cut(given, rows):
            raise DataError(
                f"{self.path}: takes whole numbers ({name}), got inputs from {given.min():g} to {given.max():g} that "
                "are not: scale and round them, pixels to 0 to 255"
            )
        answer = torch.from_numpy(self._run(rows.numpy())).to(inputs.device)
        if not self.log:
            return answer
        if bool(((answer < -_ROUNDING) | (answer > 1 + _ROUNDING)).any()):
            raise OptionError(
                f"{self.path}: its output {self.output!r} is taken for probabilities, and gave values from "
                f"{answer.min():g} to {answer.max():g}: call an output of logits `logits`"
            )
        return log_probabilities(answer)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.path, self.log)  # a session of ONNX Runtime stays in its process

    def _run(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        size = self.batch or max(len(rows), 1)
        parts = []
        for start in range(0, max(len(rows), 1), size):
            part = rows[start : start + size]
            missing = size - len(part) if self.batch else 0  # a fixed batch is filled up, and cut below
            padded = np.concatenate([part, np.zeros((missing, *rows.shape[1:]), self.dtype)]) if missing else part
            (answer,) = self.session.run([self.output], {self.input: np.ascontiguousarray(padded)})
            parts.append(np.asarray(answer, np.float32)[: len(part)])
        return np.concatenate(parts)


def _again(path: Path, log: bool) -> OnnxFile:
    return OnnxFile(path, log=log)


def are_cut(inputs: Tensor, rows: Tensor) -> bool:
    """Whether inputs lose something as rows of whole numbers: pixels from 0 to 1 would all become 0."""
    if rows.dtype == inputs.dtype or rows.is_floating_point():
        return False
    return not torch.equal(rows.to(inputs.dtype), inputs)


def log_probabilities(probs: Tensor) -> Tensor:
    """Logits from probabilities: their logarithms, where zero counts as the epsilon of float32, as in scikit-learn."""
    return probs.clamp_min(torch.finfo(torch.float32).eps).log()


def _open(path: Path) -> Any:
    if path.suffix != ".onnx":
        raise OptionError(f"{path}: a member given as a path must be a .onnx file")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    onnxruntime = import_extra("onnxruntime", "onnx")
    available = onnxruntime.get_available_providers()
    try:
        return onnxruntime.InferenceSession(path, providers=[name for name in _PROVIDERS if name in available])
    except Exception as error:  # ONNX Runtime has a class for each reason and no common one that it publishes
        raise DataError(f"{path}: ONNX Runtime cannot open it ({first_line(error)}); export it again") from error


def self_contained(path: Path) -> bytes:
    """The content of a .onnx file, with the tensors that its exporter put into files beside it taken in."""
    onnx = import_extra("onnx", "onnx")
    from onnx.external_data_helper import uses_external_data

    if not any(uses_external_data(one) for one in onnx.load(path, load_external_data=False).graph.initializer):
        return path.read_bytes()
    try:
        content: bytes = onnx.load(path).SerializeToString()
        return content
    except Exception as error:  # a class of protobuf's, which publishes none
        raise DataError(f"{path}: is too large for one file ({error}): quantise it, or leave it out") from error


def _output(path: Path, session: Any) -> str:
    numbers = [each.name for each in session.get_outputs() if each.type in _FLOATS]
    if not numbers:
        found = ", ".join(f"{each.name} of {each.type}" for each in session.get_outputs())
        raise OptionError(f"{path}: a member answers with logits or values as a tensor, this model gives {found}")
    return "logits" if "logits" in numbers else str(numbers[0])
