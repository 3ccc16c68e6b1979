"""Splits are stratified, disjoint, seeded and recorded."""

from __future__ import annotations

import json

import pytest
import torch

from irene.data import Data, from_arrays, load, split
from irene.data.stratify import fold_indices
from irene.errors import OptionError


def make(samples: int = 300, classes: int = 3) -> Data:
    labels = torch.arange(samples) % classes
    return from_arrays(torch.arange(samples, dtype=torch.float32)[:, None], labels, test_fraction=0.1)


def test_no_sample_is_in_two_splits_and_none_is_lost() -> None:
    data = make()
    parts = split(data, seed=1)
    ids = torch.cat([parts.train.ids, parts.heldout.ids, parts.test.ids])
    assert sorted(ids.tolist()) == list(range(300))
    # In this data set a sample's input is its id, so inputs must have travelled with their ids.
    for samples in (parts.train, parts.heldout, parts.test):
        assert samples.inputs is not None
        assert torch.equal(samples.inputs[:, 0].long(), samples.ids)
        assert torch.equal(samples.ids % 3, samples.targets)


def test_classes_keep_their_proportions() -> None:
    parts = split(make(), heldout=0.2, seed=0)
    assert torch.bincount(parts.heldout.targets).tolist() == [18, 18, 18]


@pytest.mark.parametrize(("heldout", "count"), [(0.5, 135), (30, 30), (0, 0), (0.0, 0), (0.001, 1), (None, 54)])
def test_sizes_as_asked(heldout: float | int | None, count: int) -> None:
    parts = split(make(), heldout=heldout)
    assert len(parts.heldout) == count
    assert len(parts.train) == 270 - count
    assert parts.record["sizes"] == {"train": 270 - count, "heldout": count, "test": 30}


@pytest.mark.parametrize(("samples", "count"), [(12_000, 1200), (50_000, 5000), (70_000, 5000)])
def test_large_sets_give_a_tenth_and_never_more_than_enough(samples: int, count: int) -> None:
    data = from_arrays(torch.zeros(samples, 1), torch.arange(samples) % 2, test_fraction=0)
    assert len(split(data).heldout) == count
    assert len(split(data, heldout=0.1).heldout) == samples // 10  # what is asked for is given


@pytest.mark.parametrize("heldout", [-1, -0.1, 1.0, 270, True, False, "0.1", float("nan")])
def test_sizes_that_cannot_work_are_refused(heldout: float) -> None:
    with pytest.raises(OptionError, match="heldout must be"):
        split(make(), heldout=heldout)


def test_the_seed_decides_and_test_never_moves() -> None:
    data = make()
    assert split(data, seed=5).record == split(data, seed=5).record
    first, second = split(data, seed=0), split(data, seed=1)
    assert first.record["ids"]["heldout"] != second.record["ids"]["heldout"]
    assert first.record["ids"]["test"] == second.record["ids"]["test"]


def test_the_record_is_json_and_names_the_data() -> None:
    data = load("digits")
    record = split(data, seed=2).record
    assert json.loads(json.dumps(record)) == record
    assert record["data"] == "digits"
    assert record["fingerprint"] == data.fingerprint
    assert record["seed"] == 2
    assert set(record["ids"]) == {"train", "heldout", "test"}


def test_folds_of_samples_are_stratified() -> None:
    train = split(make()).train
    for stay, out in fold_indices(train.targets, 4, seed=0):
        assert torch.bincount(train.targets[out]).tolist() == [18, 18, 18]
        assert not set(stay.tolist()) & set(out.tolist())
