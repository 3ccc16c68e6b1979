"""What runs one member: torch, ONNX Runtime, OpenVINO. The engines know backends by this interface only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import ClassVar, Literal, Self, get_args

import torch
from torch import Tensor

from irene.cascade import Cascade
from irene.errors import MissingExtraError, OptionError

Precision = Literal["fp32", "bf16", "fp16", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class Backend(ABC):
    """One member, ready to run: raw inputs (B, ...) in, logits or values (B, H, K) out.

    Each sample is treated by itself: what stands in the other rows of its batch changes nothing. An engine calls
    `run` from one thread at a time. It may give a backend the same memory again for the next batch, so an answer
    must not lie in the memory of its input.
    """

    name: ClassVar[str]
    precisions: ClassVar[tuple[Precision, ...]]
    device: torch.device
    """Where inputs are expected and where answers lie."""
    precision: Precision
    fixed_sizes: bool = False
    """Whether a batch size that is new costs time once (a compilation): then only bucket sizes are run."""
    capturable: bool = False
    """Whether `run` only launches kernels on a GPU, so that it can be recorded into a CUDA graph."""
    keeps_inputs: bool = False
    """Whether `run` never writes into its inputs; if it may, it is given a copy of what others read too."""

    @classmethod
    @abstractmethod
    def load(cls, member: Callable[[Tensor], Tensor], inputs: Tensor, *, precision: Precision = "fp32") -> Self:
        """Make a member ready to run.

        `inputs` are some raw inputs on the device to run on: one is enough to learn their shape and type; for int8
        they are what quantisation is calibrated on, so give some hundreds that no member was trained on.
        """

    @abstractmethod
    def run(self, inputs: Tensor) -> Tensor:
        """(B, H, K) the member's raw answer, in any floating type; B may be any number from 1 on."""


@dataclass(frozen=True)
class _Home:
    """Where a backend lives, and what has to be installed for it."""

    module: str
    attribute: str
    package: str = "torch"
    extra: str = ""


# Imported when first asked for: most programs need one of them, and some need an extra.
_HOMES = {
    "eager": _Home("irene.runtime.torch_backend", "Eager"),
    "compile": _Home("irene.runtime.torch_backend", "Compiled"),
    "onnx": _Home("irene.runtime.onnx_backend", "OnnxRuntime", "onnxruntime", "onnx"),
    "openvino": _Home("irene.runtime.openvino_backend", "OpenVino", "openvino", "openvino"),
}
BACKENDS: tuple[str, ...] = tuple(_HOMES)


def backend_class(name: str) -> type[Backend]:
    """The backend of this name."""
    if name not in _HOMES:
        raise OptionError(f"unknown backend {name!r} (there are: {', '.join(BACKENDS)})")
    home = _HOMES[name]
    if find_spec(home.package) is None:
        raise MissingExtraError(home.package, home.extra)
    found: type[Backend] = getattr(import_module(home.module), home.attribute)
    return found


def installed_backends() -> tuple[str, ...]:
    """The backends whose packages are here."""
    return tuple(name for name, home in _HOMES.items() if find_spec(home.package) is not None)


def parse_backend(name: str, otherwise: Precision = "fp32") -> tuple[str, Precision]:
    """A backend and a precision from how they are written in one word: eager, eager:bf16, onnx:int8.

    Where the word says no precision, it is the one given as `otherwise`.
    """
    kind, colon, asked = name.partition(":")
    precision = next((one for one in PRECISIONS if one == asked), None) if colon else otherwise
    if kind not in _HOMES or precision is None:
        raise OptionError(
            f"a backend is one of {', '.join(BACKENDS)}, and after a colon its precision, one of "
            f"{', '.join(PRECISIONS)}; got {name!r}"
        )
    return kind, precision


def check_precision(backend: type[Backend], precision: Precision) -> None:
    """Refuse a precision that a backend cannot run in."""
    if precision not in backend.precisions:
        able = ", ".join(backend.precisions)
        raise OptionError(f"the {backend.name} backend runs in {able}, got precision {precision!r}")


def load_backends(
    cascade: Cascade, example: Tensor, backends: str | Sequence[str | Backend], precision: Precision | None = None
) -> list[Backend]:
    """A backend for each member: one name for all of them, or a name or a loaded backend each.

    A name may say its own precision, such as onnx:int8; others are loaded in `precision`, by default fp32. What has
    another precision than the one given is refused.
    """
    asked = [backends] * len(cascade.members) if isinstance(backends, str) else list(backends)
    if len(asked) != len(cascade.members):
        raise OptionError(f"got {len(cascade.members)} members and {len(asked)} backends: give one, or one each")
    loaded = []
    for member, one in zip(cascade.members, asked, strict=True):
        if isinstance(one, str):
            kind, own = parse_backend(one, precision or "fp32")
            _check_one_word(precision, own, one)
            one = backend_class(kind).load(member, example, precision=own)
        if not isinstance(one, Backend):
            raise OptionError(f"a backend is a name, such as eager, or one that is loaded, got {one!r}")
        _check_one_word(precision, one.precision, f"loaded {one.name}")
        loaded.append(one)
    return loaded


def _check_one_word(asked: Precision | None, own: Precision, backend: str) -> None:
    if asked not in (None, own):
        raise OptionError(
            f"precision {asked!r} was asked for and the backend {backend} is {own}: give one precision, in one place"
        )
