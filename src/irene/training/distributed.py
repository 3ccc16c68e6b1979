"""Data-parallel training under torchrun: who am I, and gradients averaged over the processes."""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn

Word = TypeVar("Word")


@dataclass(frozen=True)
class World:
    """The processes that train together; a single process is a world of one."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def average_gradients(self, parameters: list[nn.Parameter]) -> None:
        """Replace every gradient by its mean over the processes, in one flat all-reduce."""
        if self.size == 1:
            return
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        self._average(gradients)

    def average_buffers(self, module: nn.Module) -> None:
        """Replace floating-point buffers (batch-norm statistics) by their mean over the processes."""
        if self.size == 1:
            return
        self._average([buffer for buffer in module.buffers() if buffer.is_floating_point()])

    def average(self, values: Tensor) -> Tensor:
        """Replace a tensor by its mean over the processes, and give it back."""
        if self.size > 1:
            self._average([values])
        return values

    def told(self, word: Word) -> Word:
        """What the leading process says, in every process; all of them wait for it."""
        if self.size == 1:
            return word
        words = [word]
        distributed.broadcast_object_list(words, src=0)
        return words[0]

    def wait(self) -> None:
        """Wait until every process is here."""
        if self.size > 1:
            distributed.barrier()

    def _average(self, tensors: list[Tensor]) -> None:
        if not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        distributed.all_reduce(flat)
        flat /= self.size
        for tensor, mean in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(mean.view_as(tensor))


def world(device: torch.device) -> World:
    """The world this process was started in: torchrun's if there is one, a world of one otherwise."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    if not distributed.is_initialized():
        if device.type == "cuda":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))  # else all processes would share one GPU
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        # Only at the end of the program: a group that was left cannot be joined again by the next training.
        atexit.register(distributed.destroy_process_group)
    return World(distributed.get_rank(), size)
