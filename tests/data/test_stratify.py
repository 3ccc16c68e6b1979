"""What goes aside keeps the classes' proportions and never takes a class's last sample."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from irene.data.stratify import fold_indices, quotas, take_aside
from irene.errors import DataError, OptionError


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=12), data=st.data())
def test_quotas_are_proportional(sizes: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, sum(sizes) - len(sizes)))
    given_ = quotas(sizes, count)
    assert sum(given_) == count
    for size, quota in zip(sizes, given_, strict=True):
        assert 0 <= quota <= size - 1
        assert quota >= size * count // sum(sizes)
    if all(size * count // sum(sizes) + 1 <= size - 1 for size in sizes):
        assert all(q <= s * count // sum(sizes) + 1 for s, q in zip(sizes, given_, strict=True))


def test_quotas_of_an_even_case() -> None:
    assert quotas([100, 50, 10], 16) == [10, 5, 1]


@given(labels=st.lists(st.integers(0, 4), min_size=8, max_size=80), seed=st.integers(0, 2**32 - 1))
def test_parts_do_not_overlap_and_cover_everything(labels: list[int], seed: int) -> None:
    targets = torch.tensor(labels)
    count = (len(labels) - len(set(labels))) // 2
    stay, aside = take_aside(targets, count, seed)
    assert len(aside) == count
    assert sorted(stay.tolist() + aside.tolist()) == list(range(len(labels)))
    assert set(targets[stay].tolist()) == set(labels)
    again = take_aside(targets, count, seed)
    assert torch.equal(stay, again[0])
    assert torch.equal(aside, again[1])


def test_a_seed_means_the_same_split_for_ever() -> None:
    _, aside = take_aside(torch.arange(20) % 4, 4, seed=0)
    assert aside.tolist() == [1, 6, 8, 15]


def test_other_seeds_take_other_samples() -> None:
    targets = torch.arange(200) % 4
    assert not torch.equal(take_aside(targets, 40, 0)[1], take_aside(targets, 40, 1)[1])


def test_values_are_taken_at_random() -> None:
    for values in (torch.randn(30, 1), torch.arange(60).reshape(30, 2)):
        stay, aside = take_aside(values, 10, 0)
        assert len(stay) == 20
        assert sorted(stay.tolist() + aside.tolist()) == list(range(30))


def test_more_than_leaves_each_class_a_sample_is_refused() -> None:
    with pytest.raises(DataError, match="at most 8"):
        take_aside(torch.arange(10) % 2, 9, 0)


def test_fewer_go_aside_where_that_is_allowed() -> None:
    stay, aside = take_aside(torch.arange(10) % 8, 5, 0, fewer=True)
    assert len(aside) == 2
    assert set((stay % 8).tolist()) == set(range(8))


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_out_of_range_are_refused(seed: int) -> None:
    with pytest.raises(OptionError, match="seed"):
        take_aside(torch.arange(10) % 2, 2, seed)


def test_each_sample_is_out_of_one_fold_and_classes_are_spread() -> None:
    targets = torch.tensor([0] * 40 + [1] * 20 + [2] * 10)
    folds = fold_indices(targets, 5, seed=3)
    assert sorted(torch.cat([out for _, out in folds]).tolist()) == list(range(70))
    for stay, out in folds:
        assert sorted(stay.tolist() + out.tolist()) == list(range(70))
        assert torch.bincount(targets[out]).tolist() == [8, 4, 2]


def test_fold_sizes_differ_by_one_at_most() -> None:
    sizes = [len(out) for _, out in fold_indices(torch.arange(23) % 3, 4, seed=0)]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("count", [1, 11])
def test_fold_counts_that_cannot_work_are_refused(count: int) -> None:
    with pytest.raises(OptionError, match="folds must be from 2"):
        fold_indices(torch.arange(10) % 2, count, 0)
