"""A member as a graph for batches of any size: traced by torch.export, written as ONNX, .pt2 or OpenVINO IR."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from irene.errors import IreneError, OptionError, first_line, import_extra
from irene.files import write_atomically
from irene.models.onnx_file import OnnxFile

if TYPE_CHECKING:
    from torch.export import ExportedProgram

INPUT, OUTPUT = "input", "output"


@dataclass(frozen=True, kw_only=True)
class Signature:
    """How a member's graph is called, and what its answer is."""

    dtype: str = "float32"  # of the inputs
    output: str = OUTPUT
    log: bool = False  # whether it answers with probabilities, whose logarithms are the logits

    @property
    def type(self) -> torch.dtype:
        """Of the inputs, as torch calls it."""
        found: torch.dtype = getattr(torch, self.dtype)
        return found


def as_onnx(member: Callable[[Tensor], Tensor], inputs: Tensor, folder: Path) -> tuple[Path, Signature]:
    """A member as an ONNX file: a torch module is traced and written into the folder, a file stays where it is."""
    if isinstance(member, OnnxFile):
        if member.batch is not None:
            raise OptionError(
                f"{member.path}: takes batches of {member.batch} only: export it with a free batch axis, or run it "
                "with the eager backend"
            )
        return member.path, Signature(dtype=np.dtype(member.dtype).name, output=member.output, log=member.log)
    path = folder / "member.onnx"
    # Bytes become floats outside the graph, so that it takes both.
    example = inputs.float() if inputs.dtype == torch.uint8 else inputs
    write_onnx(trace(member, example), path)
    return path, Signature(dtype=str(example.dtype).removeprefix("torch."))


def trace(member: Callable[[Tensor], Tensor], inputs: Tensor) -> ExportedProgram:
    """The graph of a torch module in evaluation mode, for any number of inputs of this shape and type."""
    if not isinstance(member, nn.Module):
        raise OptionError(
            f"only torch modules can be turned into graphs, got {type(member).__name__}: "
            "run such a member as it is, or export it with the library it comes from"
        )
    module = deepcopy(member).cpu().eval()
    # torch.export takes a batch of one for a fixed size, so the example has two rows, even of one input.
    example = inputs[:1].cpu().repeat(2, *(1,) * (inputs.ndim - 1))
    try:
        with torch.no_grad(), _quiet():
            return torch.export.export(
                module, (example,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},), strict=False
            )
    except IreneError:  # of a member of ours, which says what is wrong
        raise
    except Exception as error:  # torch.export lets through whatever the module's own code raises
        raise OptionError(
            f"{type(member).__name__} cannot be turned into a graph for batches of any size ({first_line(error)}): "
            "run it with torch"
        ) from error


def write_onnx(program: ExportedProgram, path: Path) -> None:
    """Write a graph as an ONNX file with one input and one output."""
    onnx = import_extra("onnx", "onnx")
    import_extra("onnxscript", "onnx")  # torch's exporter needs it, and says so in many lines
    with _quiet():
        exported = torch.onnx.export(
            program, input_names=[INPUT], output_names=[OUTPUT], dynamo=True, verbose=False, external_data=False
        )
    assert exported is not None  # it is only with the exporter of old
    model = onnx.ModelProto.FromString(exported.model_proto.SerializeToString())
    _forget_origin(model)
    write_atomically(path, model.SerializeToString())


def write_pt2(program: ExportedProgram, path: Path) -> None:
    """Write a graph as a .pt2 archive of torch.export."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _quiet():
        torch.export.save(program, path)


def _forget_origin(model: Any) -> None:
    """Drop notes of the exporter: they are longer than the graph, and tell of the machine it was made on."""
    for part in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output):
        del part.metadata_props[:]
        part.doc_string = ""
    for part in (*model.graph.value_info, *model.graph.initializer):
        del part.metadata_props[:]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to ourselves what torch's exporters say about torch's own internals."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
