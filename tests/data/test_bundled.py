"""The bundled sets are what scikit-learn ships, in raw form."""

from __future__ import annotations

import torch
from sklearn.datasets import load_diabetes, load_digits

from irene.data import load


def test_digits() -> None:
    data = load("digits")
    assert data.task == "classification"
    assert data.shape == (1, 8, 8)
    assert data.classes == tuple("0123456789")
    assert (len(data.train), len(data.test)) == (1438, 359)
    assert data.train.inputs is not None
    assert data.train.inputs.dtype == torch.uint8
    assert int(data.train.inputs.max()) == 16
    original = load_digits()
    for samples in (data.train, data.test):
        assert torch.equal(samples.inputs[:, 0].double(), torch.from_numpy(original.images)[samples.ids])
        assert torch.equal(samples.targets, torch.from_numpy(original.target)[samples.ids])


def test_the_test_set_of_digits_is_the_same_for_every_seed_and_balanced() -> None:
    data = load("digits")
    assert torch.equal(data.test.ids, load("digits", seed=7).test.ids)
    counts = torch.bincount(data.test.targets)
    assert int(counts.min()) >= 34
    assert int(counts.max()) <= 37


def test_fingerprints_are_pinned() -> None:
    """A change here means that old runs no longer match their data."""
    assert load("digits").fingerprint[:16] == "1cc02d06bc50112b"
    assert load("diabetes").fingerprint[:16] == "429af48934d2bf8d"


def test_diabetes() -> None:
    data = load("diabetes")
    assert data.task == "regression"
    assert data.shape == (10,)
    assert data.classes == ("progression",)
    assert data.outputs == 1
    assert (len(data.train), len(data.test)) == (354, 88)
    original = load_diabetes(scaled=False)
    assert data.test.targets[:, 0].tolist() == original.target[data.test.ids.numpy()].tolist()
