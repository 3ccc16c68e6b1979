"""Batches are the same whichever path, process or attempt delivers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from irene.data import Augment, Batch, Loader, Samples, augment_images, from_datasets
from irene.data.plan import Plan, draw_plan
from irene.errors import OptionError

CROP_AND_FLIP = Augment(crop=2, flip=True)


def make(count: int = 23) -> Samples:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(1, 256, (count, 3, 6, 6), generator=generator).to(torch.uint8)
    return Samples(images, torch.arange(count) % 3, torch.arange(count) + 1000)


class Images(Dataset[tuple[Tensor, int]]):
    """The images of make(), one by one."""

    def __init__(self) -> None:
        self.samples = make()

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.samples.read([index])[0], int(self.samples.targets[index])


class Noise(Dataset[tuple[Tensor, int]]):
    """Inputs that are drawn from torch's generator each time they are read."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.rand(3), index % 2


def loader(samples: Samples | None = None, **options: Any) -> Loader:
    defaults: dict[str, Any] = {"batch_size": 8, "device": "cpu", "shuffle": True}
    return Loader(make() if samples is None else samples, **(defaults | options))


def same(first: Iterable[Batch], second: Iterable[Batch]) -> bool:
    pairs = list(zip(first, second, strict=True))
    return bool(pairs) and all(
        torch.equal(getattr(a, name), getattr(b, name))
        for a, b in pairs
        for name in ("inputs", "targets", "ids", "index")
    )


def test_an_epoch_goes_through_every_sample_once_with_its_target_and_id() -> None:
    samples = make()
    batches = list(loader(samples).epoch(0))
    assert [len(batch) for batch in batches] == [8, 8, 7]
    index = torch.cat([batch.index for batch in batches])
    assert sorted(index.tolist()) == list(range(23))
    assert index.tolist() != list(range(23))
    for batch in batches:
        assert samples.inputs is not None
        assert torch.equal(batch.inputs, samples.inputs[batch.index])
        assert torch.equal(batch.targets, samples.targets[batch.index])
        assert torch.equal(batch.ids, samples.ids[batch.index])
        assert batch.inputs.dtype == torch.uint8


def test_without_shuffle_the_order_is_that_of_the_samples() -> None:
    batches = list(loader(shuffle=False).epoch(4))
    assert torch.cat([batch.index for batch in batches]).tolist() == list(range(23))


def test_augmentation_is_the_plan_applied() -> None:
    samples = make()
    batch = next(iter(loader(samples, batch_size=23, seed=6, augment=CROP_AND_FLIP).epoch(2)))
    plan = Plan(*draw_plan(23, 6, 2, shuffle=True, augment=CROP_AND_FLIP))
    assert samples.inputs is not None
    assert torch.equal(batch.inputs, augment_images(samples.inputs[plan.rows], *plan[1:], 2))


def test_an_epoch_can_be_replayed_in_any_order_by_any_loader() -> None:
    first = loader(augment=CROP_AND_FLIP, seed=3)
    history = [list(first.epoch(epoch)) for epoch in range(3)]
    torch.manual_seed(11)
    resumed = loader(augment=CROP_AND_FLIP, seed=3)
    for epoch in (2, 0, 1):
        assert same(history[epoch], resumed.epoch(epoch))
    assert not same(history[0], history[1])
    assert not same(history[0], loader(augment=CROP_AND_FLIP, seed=4).epoch(0))


def test_the_global_generator_is_not_touched() -> None:
    lazy = from_datasets(Images(), test_fraction=0).train
    for samples in (make(), lazy):
        before = torch.get_rng_state()
        list(loader(samples, augment=CROP_AND_FLIP).epoch(0))
        assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_processes_together_see_the_batches_of_one(world: int, drop_last: bool) -> None:
    options: dict[str, Any] = {"augment": CROP_AND_FLIP, "drop_last": drop_last, "batch_size": 6}
    alone = list(loader(**options).epoch(5))
    ranks = [list(loader(**options, rank=rank, world=world).epoch(5)) for rank in range(world)]
    assert all(len(batches) == len(alone) for batches in ranks)
    for whole, *slices in zip(alone, *ranks, strict=True):
        for name in ("inputs", "targets", "ids", "index"):
            assert torch.equal(getattr(whole, name), torch.cat([getattr(part, name) for part in slices]))


@pytest.mark.parametrize("world", [1, 2])
def test_every_path_delivers_the_same_batches(world: int) -> None:
    options: dict[str, Any] = {"augment": CROP_AND_FLIP, "seed": 2, "rank": world - 1, "world": world}
    resident = loader(**options)
    too_large = loader(**options, limit_bytes=make().inputs.nbytes - 1)
    lazily = from_datasets(Images(), test_fraction=0).train
    assert lazily.inputs is None
    lazy = loader(Samples(None, lazily.targets, make().ids, lazily.lazy), **options)
    assert (resident.resident, too_large.resident, lazy.resident) == (True, False, False)
    for epoch in (0, 1):
        expected = list(resident.epoch(epoch))
        assert same(expected, too_large.epoch(epoch))
        assert same(expected, lazy.epoch(epoch))


def test_random_transforms_are_replayed() -> None:
    samples = from_datasets(Noise(), test_fraction=0).train
    expected = list(loader(samples, batch_size=5).epoch(3))
    assert same(expected, loader(samples, batch_size=5).epoch(3))
    by_sample = {int(i): row for batch in expected for i, row in zip(batch.index, batch.inputs, strict=True)}
    for batch in loader(samples, batch_size=5).epoch(4):
        assert all(not torch.equal(by_sample[int(i)], row) for i, row in zip(batch.index, batch.inputs, strict=True))


def test_an_abandoned_epoch_leaves_no_trace() -> None:
    samples = from_datasets(Images(), test_fraction=0).train
    used = loader(samples)
    batches = used.epoch(0)
    next(batches)
    batches.close()
    assert same(used.epoch(1), loader(samples).epoch(1))


def test_drop_last_keeps_full_batches_only() -> None:
    dropping = loader(drop_last=True)
    assert [len(batch) for batch in dropping.epoch(0)] == [8, 8]
    assert (len(dropping), len(loader())) == (2, 3)


def test_a_batch_larger_than_the_samples_is_all_of_them() -> None:
    large = loader(batch_size=100, drop_last=True)
    assert large.batch_size == 23
    assert [len(batch) for batch in large.epoch(0)] == [23]


def test_no_samples_give_no_batches() -> None:
    for limit in (None, -1):
        empty = loader(make().subset(torch.arange(0)), limit_bytes=limit)
        assert len(empty) == 0
        assert list(empty.epoch(0)) == []


def test_features_and_values_pass_through() -> None:
    samples = Samples(torch.randn(9, 4), torch.randn(9, 2), torch.arange(9))
    batch = next(iter(loader(samples, shuffle=False, batch_size=4).epoch(0)))
    assert batch.inputs.shape == (4, 4)
    assert batch.targets.shape == (4, 2)


def test_inputs_in_memory_are_not_copied_on_the_cpu() -> None:
    samples = make()
    resident = loader(samples)._resident
    assert resident is not None
    assert samples.inputs is not None
    assert resident.data_ptr() == samples.inputs.data_ptr()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch size must be 1 or more"),
        ({"batch_size": 1, "world": 2}, "for each of the 2 processes"),
        ({"rank": 2, "world": 2}, "rank must be"),
        ({"rank": -1}, "rank must be"),
        ({"seed": -1}, "seed"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        loader(**options)


def test_augmenting_features_is_refused() -> None:
    samples = Samples(torch.randn(9, 4), torch.arange(9), torch.arange(9))
    with pytest.raises(OptionError, match=r"crop and flip need images .* \(4,\)"):
        loader(samples, augment=CROP_AND_FLIP)
    assert len(loader(samples, augment=Augment())) == 2


def test_a_last_batch_smaller_than_the_processes_leaves_some_without_rows() -> None:
    for options in ({}, {"limit_bytes": 0}):
        ranks = [
            list(loader(make(5), batch_size=4, rank=r, world=4, augment=CROP_AND_FLIP, **options).epoch(0))
            for r in range(4)
        ]
        assert [[len(batch) for batch in batches] for batches in ranks] == [[1, 0]] * 3 + [[1, 1]]
        assert all(batch.inputs.shape[1:] == (3, 6, 6) for batches in ranks for batch in batches)


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(OptionError, match="device cuda was asked for and torch sees none here"):
        loader(device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_an_epoch_on_the_gpu_never_waits_for_it(never_waiting: Callable[[], AbstractContextManager[None]]) -> None:
    resident = loader(augment=CROP_AND_FLIP, device="cuda")
    with never_waiting():
        assert len(list(resident.epoch(0))) == 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_delivers_what_the_cpu_delivers() -> None:
    expected = list(loader(augment=CROP_AND_FLIP).epoch(1))
    for options in ({}, {"limit_bytes": 0}):
        batches = list(loader(augment=CROP_AND_FLIP, device="cuda", **options).epoch(1))
        assert all(batch.inputs.is_cuda and batch.targets.is_cuda and batch.ids.is_cuda for batch in batches)
        moved = [Batch(b.inputs.cpu(), b.targets.cpu(), b.ids.cpu(), b.index.cpu()) for b in batches]
        assert same(expected, moved)
