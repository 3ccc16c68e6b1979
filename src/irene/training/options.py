"""The options of one training of one model."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Literal, get_args

import torch

from irene.errors import OptionError
from irene.training.schedules import Schedule

OptimizerKind = Literal["sgd", "adam"]
Precision = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class OptimizerOptions:
    """An optimiser with its schedule. `sgd` has Nesterov momentum; `adam` is Adam with decoupled weight decay."""

    kind: OptimizerKind = "sgd"
    lr: float = 0.1
    weight_decay: float = 5e-4
    momentum: float = 0.9
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        if self.kind not in get_args(OptimizerKind):
            raise OptionError(f"optimizer must be sgd or adam, got {self.kind!r}")
        if self.lr <= 0:
            raise OptionError(f"the learning rate must be above 0, got {self.lr:g}")
        if self.weight_decay < 0 or not 0 <= self.momentum < 1:
            raise OptionError(
                f"weight decay must be at least 0 and momentum in [0, 1), got {self.weight_decay:g} and "
                f"{self.momentum:g}"
            )


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """How one model is trained: how long, in which batches, by which optimiser, in which precision.

    `batch_size` is the global batch: under torchrun each process takes its share of it. Precision `auto` is
    bf16 autocast where the device computes it fast (CUDA), fp32 elsewhere. `compile` runs the model through
    torch.compile. With or without it, on CUDA the whole step of a single process is one CUDA graph.
    """

    epochs: int = 20
    batch_size: int = 128
    optimizer: OptimizerOptions = field(default_factory=OptimizerOptions)
    clip: float | None = None
    precision: Precision = "auto"
    compile: bool = False

    def __post_init__(self) -> None:
        if not all(isinstance(count, Integral) and count >= 1 for count in (self.epochs, self.batch_size)):
            raise OptionError(
                f"epochs and batch size must be whole numbers, at least 1, got {self.epochs!r} and {self.batch_size!r}"
            )
        if self.clip is not None and self.clip <= 0:
            raise OptionError(f"the gradient-norm limit must be above 0, got {self.clip:g}")
        if self.precision not in get_args(Precision):
            raise OptionError(f"precision must be one of {', '.join(get_args(Precision))}, got {self.precision!r}")

    def autocast_dtype(self, device: torch.device) -> torch.dtype | None:
        """The dtype to autocast to on this device, or None for plain fp32."""
        if self.precision == "bf16" or (self.precision == "auto" and device.type == "cuda"):
            return torch.bfloat16
        return None

    def autocast(self, device: torch.device) -> torch.autocast:
        """A context that computes in the precision asked for on this device."""
        dtype = self.autocast_dtype(device)
        return torch.autocast(device.type, dtype, enabled=dtype is not None)
