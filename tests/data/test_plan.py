"""An epoch's plan is a pure function of seed and epoch, cut evenly among processes."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from irene.data.plan import Plan, batch_bounds, draw_plan, epoch_seed
from irene.data.samples import Augment


def test_the_same_seed_and_epoch_draw_the_same_and_others_do_not() -> None:
    augment = Augment(crop=4, flip=True)
    first = draw_plan(100, 3, 5, shuffle=True, augment=augment)
    torch.manual_seed(99)  # the global generator has no say
    assert torch.equal(first, draw_plan(100, 3, 5, shuffle=True, augment=augment))
    assert not torch.equal(first, draw_plan(100, 3, 6, shuffle=True, augment=augment))
    assert not torch.equal(first, draw_plan(100, 4, 5, shuffle=True, augment=augment))


def test_the_order_does_not_depend_on_the_augmentation() -> None:
    plain = draw_plan(50, 0, 0, shuffle=True, augment=Augment())
    varied = draw_plan(50, 0, 0, shuffle=True, augment=Augment(crop=2, flip=True))
    assert torch.equal(plain[0], varied[0])


def test_draws_cover_their_whole_range() -> None:
    plan = Plan(*draw_plan(5000, 0, 0, shuffle=True, augment=Augment(crop=2, flip=True)))
    assert sorted(plan.rows.tolist()) == list(range(5000))
    assert set(plan.offsets_y.tolist()) == set(plan.offsets_x.tolist()) == {0, 1, 2, 3, 4}
    assert set(plan.flips.tolist()) == {0, 1}


def test_without_shuffle_and_augmentation_nothing_is_random() -> None:
    plan = draw_plan(7, 1, 2, shuffle=False, augment=Augment())
    assert torch.equal(plan, torch.stack([torch.arange(7), *torch.zeros(3, 7, dtype=torch.int64)]))


def test_epoch_seeds_do_not_meet() -> None:
    assert len({epoch_seed(seed, epoch) for seed in range(20) for epoch in range(20)}) == 400


@given(samples=st.integers(0, 60), size=st.integers(1, 20), world=st.integers(1, 5), drop_last=st.booleans())
def test_slices_of_all_processes_are_the_batches_of_one(samples: int, size: int, world: int, drop_last: bool) -> None:
    alone = batch_bounds(samples, size, drop_last=drop_last, rank=0, world=1)
    assert len(alone) == (samples // size if drop_last else -(-samples // size))
    ranks = [batch_bounds(samples, size, drop_last=drop_last, rank=r, world=world) for r in range(world)]
    for (start, stop), *slices in zip(alone, *ranks, strict=True):
        assert [row for a, b in slices for row in range(a, b)] == list(range(start, stop))
        lengths = [b - a for a, b in slices]
        assert max(lengths) - min(lengths) <= 1
