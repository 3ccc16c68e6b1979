"""Batches of samples on a device: out of its memory where they fit, read batch by batch where they do not."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

import torch
from torch import Tensor

from irene.data.augmentation import augment_images, gather_augmented
from irene.data.plan import Plan, batch_bounds, draw_plan, epoch_seed
from irene.data.readers import read_ahead
from irene.data.samples import Augment, Samples
from irene.devices import pick_device
from irene.errors import OptionError

_SHARE_OF_FREE_MEMORY = 0.25


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples that are processed together."""

    inputs: Tensor
    targets: Tensor
    ids: Tensor
    index: Tensor
    """Position of each row in the Samples."""

    def __len__(self) -> int:
        return len(self.targets)


class Loader:
    """Batches of samples, epoch by epoch.

    Order and augmentation depend on the seed and the epoch alone. `batch_size` counts the samples of all
    `world` processes together, and process `rank` gets its slice of every batch. `limit_bytes` is the most
    that inputs may take on the device (a quarter of the free memory of a GPU unless it is given); beyond it,
    or when inputs are read lazily, each batch is read when it is asked for. Inputs that are read lazily are read
    by `readers` processes, some batches ahead, or by this one if that is 0; the batches are the same. For inputs in
    memory `readers` means nothing.
    """

    def __init__(
        self,
        samples: Samples,
        *,
        batch_size: int,
        device: torch.device | str,
        shuffle: bool,
        seed: int = 0,
        augment: Augment | None = None,
        drop_last: bool = False,
        rank: int = 0,
        world: int = 1,
        limit_bytes: int | None = None,
        readers: int = 0,
    ) -> None:
        if not 0 <= rank < world:
            raise OptionError(f"rank must be from 0 to below the {world} processes, got {rank}")
        if batch_size < world:
            raise OptionError(f"batch size must be 1 or more for each of the {world} processes, got {batch_size}")
        if seed < 0:
            raise OptionError(f"seed must be 0 or more, got {seed}")
        if augment and len(samples.shape) != 3:
            raise OptionError(
                f"crop and flip need images (C, H, W), got inputs of shape {samples.shape}: leave augment out"
            )
        self.samples = samples
        self.batch_size = min(batch_size, max(len(samples), 1))
        self.device = pick_device(device)
        self.shuffle = shuffle
        self.seed = seed
        self.augment = augment or Augment()
        self.readers = readers
        self._bounds = batch_bounds(len(samples), self.batch_size, drop_last=drop_last, rank=rank, world=world)
        self._targets = samples.targets.to(self.device)
        self._ids = samples.ids.to(self.device)
        self._resident = _place(samples, self.device, limit_bytes)

    def __len__(self) -> int:
        return len(self._bounds)

    @property
    def resident(self) -> bool:
        """Whether all inputs lie in the memory of the device."""
        return self._resident is not None

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch, the same ones each time they are asked for."""
        drawn = draw_plan(len(self.samples), self.seed, epoch, shuffle=self.shuffle, augment=self.augment)
        cuda = self.device.type == "cuda"
        rows = (drawn.pin_memory() if cuda else drawn).to(self.device, non_blocking=True)
        if self._resident is not None:
            for start, stop in self._bounds:
                plan = Plan(*rows[:, start:stop])
                yield self._batch(plan, self._gather(self._resident, plan))
        else:
            # Closed by name, as below: since Python 3.12 a generator that is closed may keep alive what it loops over.
            with closing(self._read(drawn[0], epoch)) as read:
                for (start, stop), inputs in zip(self._bounds, read, strict=True):
                    plan = Plan(*rows[:, start:stop])
                    yield self._batch(plan, self._augmented(inputs.to(self.device, non_blocking=True), plan))

    def _batch(self, plan: Plan, inputs: Tensor) -> Batch:
        return Batch(inputs, self._targets[plan.rows], self._ids[plan.rows], plan.rows)

    def _gather(self, resident: Tensor, plan: Plan) -> Tensor:
        return gather_augmented(resident, *plan, self.augment.crop) if self.augment else resident[plan.rows]

    def _augmented(self, inputs: Tensor, plan: Plan) -> Tensor:
        return augment_images(inputs, *plan[1:], self.augment.crop) if self.augment else inputs

    def _read(self, order: Tensor, epoch: int) -> Generator[Tensor, None, None]:
        """The inputs of this process's rows, batch by batch."""
        seed = epoch_seed(self.seed, epoch)
        batches = [order[start:stop].tolist() for start, stop in self._bounds]
        if self.readers and self.samples.lazy is not None:
            read = read_ahead(self.samples.lazy, batches, seed, self.readers)
        else:
            read = (self.samples.read(batch, seed) for batch in batches)
        with closing(read):
            for inputs in read:
                yield inputs.pin_memory() if self.device.type == "cuda" else inputs


def _place(samples: Samples, device: torch.device, limit_bytes: int | None) -> Tensor | None:
    """The inputs on the device, or None when they are not in memory or too large."""
    if samples.inputs is None:
        return None
    if limit_bytes is None and device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        limit_bytes = int(free * _SHARE_OF_FREE_MEMORY)
    if limit_bytes is not None and samples.inputs.nbytes > limit_bytes:
        return None
    return samples.inputs.to(device)
