"""Label noise changes exactly the share of training labels that it says, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from training.label_noise import load_named, wrong_labels

from irene.data import load, split
from irene.errors import OptionError


@pytest.mark.parametrize("share", [0.0, 0.2, 0.55])
def test_exactly_this_share_is_wrong(share: float) -> None:
    targets = torch.arange(2000) % 10
    noisy = wrong_labels(targets, share, classes=10, seed=0)
    assert int((noisy != targets).sum()) == round(share * 2000)
    assert set(noisy.tolist()) <= set(range(10))
    assert torch.equal(targets, torch.arange(2000) % 10)


def test_every_other_class_is_as_likely() -> None:
    targets = torch.full((40_000,), 3)
    noisy = wrong_labels(targets, 0.9, classes=10, seed=0)
    counts = torch.bincount(noisy, minlength=10).double()
    assert counts[3] == 4000
    others = counts[torch.arange(10) != 3]
    assert float(((others - 4000).square() / 4000).sum()) < 20.1  # chi-squared, 8 degrees of freedom, 1 %


def test_the_samples_are_drawn_from_all() -> None:
    targets = torch.zeros(10_000, dtype=torch.int64)
    wrong = wrong_labels(targets, 0.2, classes=10, seed=0) != 0
    assert int(wrong[:5000].sum()) == pytest.approx(1000, abs=100)


def test_the_same_labels_are_wrong_each_time() -> None:
    targets = torch.arange(500) % 10
    once, again, other = (wrong_labels(targets, 0.2, classes=10, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(once, again)
    assert not torch.equal(once, other)


def test_training_and_held_out_labels_are_noisy_and_test_labels_clean(tmp_path: Path) -> None:
    clean, noisy = load("digits"), load_named("digits+noise20", tmp_path)
    truth = dict(zip(clean.train.ids.tolist(), clean.train.targets.tolist(), strict=True))
    assert noisy.name == "digits+noise20"
    assert noisy.fingerprint != clean.fingerprint
    assert noisy.augment == clean.augment
    for part in ("train", "test"):
        assert torch.equal(getattr(noisy, part).inputs, getattr(clean, part).inputs)
        assert torch.equal(getattr(noisy, part).ids, getattr(clean, part).ids)
    assert torch.equal(noisy.test.targets, clean.test.targets)
    parts = split(noisy, heldout=400, seed=0)
    for samples, spread in ((parts.train, 0.03), (parts.heldout, 0.06)):
        wrong = [truth[one] != label for one, label in zip(samples.ids.tolist(), samples.targets.tolist(), strict=True)]
        assert sum(wrong) / len(wrong) == pytest.approx(0.2, abs=spread)


def test_a_plain_name_is_the_plain_data(tmp_path: Path) -> None:
    assert load_named("digits", tmp_path).fingerprint == load("digits").fingerprint


@pytest.mark.parametrize("name", ["digits+noise", "digits+blur20", "digits+noise2.5", "digits+"])
def test_another_wish_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError, match="noise and a whole percentage"):
        load_named(name, tmp_path)
