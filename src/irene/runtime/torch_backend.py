"""Members run by torch: as they are, or compiled."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain
from typing import Any, ClassVar, Self, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from irene.errors import OptionError
from irene.models.member import Member, as_heads
from irene.runtime.backend import Backend, Precision, check_precision
from irene.runtime.fused import channels_read, fused

_TYPES: dict[Precision, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}
_COMPILATIONS = 4096  # that torch may keep of one function; its own limit of 8 is soon passed by unlike members


class _Torch(Backend):
    """A member that torch runs. On a GPU its kernels go into CUDA graphs, if it is a torch module."""

    precisions: ClassVar[tuple[Precision, ...]] = ("fp32", "bf16", "fp16")

    def __init__(self, member: Callable[[Tensor], Tensor], device: torch.device, precision: Precision) -> None:
        self.device = device
        self.precision = precision
        self.capturable = device.type == "cuda" and isinstance(member, nn.Module)
        self.keeps_inputs = isinstance(member, Member)  # which normalises them first, into memory of its own
        self._member = member

    @classmethod
    def load(cls, member: Callable[[Tensor], Tensor], inputs: Tensor, *, precision: Precision = "fp32") -> Self:
        check_precision(cls, precision)
        return cls(_prepared(member, inputs.device, precision), inputs.device, precision)

    @torch.no_grad()
    def run(self, inputs: Tensor) -> Tensor:
        return as_heads(self._member(inputs))


@final
class Eager(_Torch):
    """A member called as it is."""

    name: ClassVar[str] = "eager"


@final
class Compiled(_Torch):
    """A member compiled by torch.compile: once for batches of one, once for all larger ones."""

    name: ClassVar[str] = "compile"
    fixed_sizes = True

    def __init__(self, member: Callable[[Tensor], Tensor], device: torch.device, precision: Precision) -> None:
        super().__init__(member, device, precision)
        self._member = _CompiledForBatches(member, frozen=device.type == "cpu")

    @classmethod
    def load(cls, member: Callable[[Tensor], Tensor], inputs: Tensor, *, precision: Precision = "fp32") -> Self:
        if not isinstance(member, nn.Module):
            raise OptionError(f"the compile backend takes torch modules, got {type(member).__name__}: use eager for it")
        return super().load(member, inputs, precision=precision)


@final
class _CompiledForBatches:
    """A function of a batch, compiled: torch is made ready for it at each new number of samples, and only then."""

    def __init__(self, function: Callable[[Tensor], Tensor], *, frozen: bool = False) -> None:
        self._function: Callable[[Tensor], Tensor] = torch.compile(function)
        self._frozen = frozen
        self._compiled: set[tuple[int, bool]] = set()

    def __call__(self, inputs: Tensor) -> Tensor:
        inputs = inputs.detach()  # no view: what is compiled for a view serves views of as large tensors alone
        kind = (len(inputs), bool(inputs.storage_offset() > 0))  # torch compiles apart what begins its memory
        if kind in self._compiled:
            return self._function(inputs)
        with compiling(frozen=self._frozen):
            if len(inputs) > 1:
                torch._dynamo.maybe_mark_dynamic(inputs, 0)
            output = self._function(inputs)
        self._compiled.add(kind)
        return output


def generates_kernels() -> bool:
    """Whether torch can compile for a GPU here."""
    return torch.cuda.is_available() and find_spec("triton") is not None


def failed_to_compile(error: Exception) -> bool:
    """Whether an error is that torch cannot compile here, say without a C compiler; a warning then tells it.

    What was to be compiled can run as it is, only slower.
    """
    from torch._dynamo.exc import TorchDynamoException

    if not isinstance(error, TorchDynamoException):
        return False
    cause = getattr(error, "inner_exception", error)
    reason = next((line.strip() for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
    warnings.warn(f"torch could not compile a part of the engine, which runs slower without it: {reason}", stacklevel=2)
    return True


@contextmanager
def compiling(*, frozen: bool = False) -> Iterator[None]:
    """How torch compiles what is called inside; `frozen` folds weights in, which pays on a CPU."""
    from torch._dynamo import config as dynamo  # takes a second: only who compiles waits for it
    from torch._inductor import config as inductor

    tracing: dict[str, Any] = {
        "recompile_limit": _COMPILATIONS,
        "accumulated_recompile_limit": _COMPILATIONS,
        "specialize_int": True,  # the number of a stage is a constant
    }
    with dynamo.patch(tracing), inductor.patch(freezing=frozen):
        yield


def _prepared(member: Callable[[Tensor], Tensor], device: torch.device, precision: Precision) -> Any:
    """The member on the device and in the precision; a copy where that changes it."""
    if not isinstance(member, nn.Module):
        if precision != "fp32":
            raise OptionError(f"only torch modules can run in {precision}, got {type(member).__name__}: use fp32")
        return member
    member = member.eval()
    if any(tensor.device != device for tensor in chain(member.parameters(), member.buffers())):
        member = copy.deepcopy(member).to(device)
    if precision == "fp32":
        return member
    return _reduced(member, _TYPES[precision]) if isinstance(member, Member) else Autocast(member, _TYPES[precision])


def _reduced(member: Member, dtype: torch.dtype) -> Member:
    """A copy, fused, with its layers in `dtype`; what normalises inputs, features and outputs stays in float32."""
    images = len(member.spec.shape) == 3
    layout = torch.channels_last if images else torch.contiguous_format
    reduced = copy.deepcopy(member)
    reduced.backbone = fused(reduced.backbone)
    for module in chain(reduced.backbone.modules(), reduced.head.modules()):
        if not isinstance(module, _BatchNorm):
            for tensor in chain(module.parameters(recurse=False), module.buffers(recurse=False)):
                if tensor.is_floating_point():
                    wanted = layout if tensor.ndim == 4 else torch.preserve_format
                    tensor.data = tensor.data.to(dtype=dtype, memory_format=wanted)
    channels = channels_read(reduced.backbone, member.spec.shape[0]) if images else member.spec.shape[0]
    reduced.normalise = _Normalised(member.normalise, dtype, layout, channels)
    return reduced


@final
class _Normalised(nn.Module):
    """Inputs normalised in float32, then in the type and layout of a reduced network, with channels of zeros added."""

    def __init__(self, normalise: nn.Module, dtype: torch.dtype, layout: torch.memory_format, channels: int) -> None:
        super().__init__()
        self._normalise = copy.deepcopy(normalise)
        self._dtype = dtype
        self._layout = layout
        self._channels = channels
        # One kernel in place of six.
        self._compiled = _CompiledForBatches(self._made) if generates_kernels() else None

    def forward(self, inputs: Tensor) -> Tensor:
        if self._compiled is None or not inputs.is_cuda or torch.compiler.is_compiling():
            return self._made(inputs)
        try:
            return self._compiled(inputs)
        except Exception as error:
            if not failed_to_compile(error):
                raise
            self._compiled = None
            return self._made(inputs)

    def _made(self, inputs: Tensor) -> Tensor:
        values: Tensor = self._normalise(inputs)
        missing = self._channels - values.shape[1]
        if missing:
            values = F.pad(values, (0, 0, 0, 0, 0, missing))
        return values.to(dtype=self._dtype, memory_format=self._layout)


@final
class Autocast(nn.Module):
    """A module of any kind in reduced precision, by torch's own rules of which operation bears it."""

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.module = module
        self.dtype = dtype

    def forward(self, inputs: Tensor) -> Tensor:
        # Without the cache of converted weights, whose memory a CUDA graph would not own.
        with torch.autocast(inputs.device.type, self.dtype, cache_enabled=False):
            output: Tensor = self.module(inputs)
        return output
