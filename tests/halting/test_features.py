"""What a learned policy sees, against numpy and scipy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.special import rel_entr, softmax
from scipy.stats import entropy

from irene.bank import Bank
from irene.errors import OptionError
from irene.halting.features import FEATURES, check_features, feature_table, head_divergence
from irene.halting.rule import Aggregation
from irene.types import Task


def test_class_features_are_what_their_names_say(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(30, members=4, accuracy=0.6)
    names = FEATURES["classification"]
    aggregation = Aggregation((1.0, 2.0, 0.5, 1.0), (1.0, 1.5, 2.0, 0.8))
    features, means = feature_table(names, bank.outputs, aggregation, "classification")
    probs = softmax(bank.outputs.double().numpy() / np.array(aggregation.temperatures)[None, :, None, None], axis=3)
    votes = probs[:, :, 0].argmax(2)
    for t in range(4):
        mean = np.average(probs[:, : t + 1, 0], axis=1, weights=aggregation.weights[: t + 1])
        top = np.sort(mean, 1)
        expected = {
            "kl": rel_entr(probs[:, t, 0], probs[:, t, 1]).sum(1),
            "top1": top[:, -1],
            "margin": top[:, -1] - top[:, -2],
            "entropy": 1 - entropy(mean, axis=1) / math.log(4),
            "agreement": (votes[:, : t + 1] == mean.argmax(1)[:, None]).mean(1),
        }
        np.testing.assert_allclose(means[:, t].numpy(), mean, rtol=1e-5)
        for place, name in enumerate(names):
            np.testing.assert_allclose(features[:, t, place].numpy(), expected[name], rtol=1e-3, atol=1e-6)


def test_regression_features_are_what_their_names_say(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(30, members=4, outputs=2, task="regression", accuracy=0.6)
    names = FEATURES["regression"]
    features, _ = feature_table(names, bank.outputs, Aggregation.equal(4), "regression")
    values = bank.outputs.double().numpy()
    means = np.cumsum(values[:, :, 0], 1) / np.arange(1, 5)[None, :, None]
    squares = ((values - means[:, :, None]) ** 2).mean((2, 3))
    for t in range(4):
        level = means[:, t].mean(1)
        expected = {
            "head_spread": np.abs(values[:, t, 0] - values[:, t, 1]).mean(1),
            "running_spread": np.sqrt(squares[:, : t + 1].mean(1)),
            "shift": np.abs(level - means[:, t - 1].mean(1)) if t else np.zeros(30),
        }
        for place, name in enumerate(names):
            np.testing.assert_allclose(features[:, t, place].numpy(), expected[name], rtol=1e-3, atol=1e-6)


def test_one_head_does_not_diverge_from_itself() -> None:
    assert head_divergence(torch.rand(5, 1, 3).softmax(2)).tolist() == [0.0] * 5


def test_divergence_of_certain_heads_is_finite() -> None:
    heads = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    assert head_divergence(heads).isfinite().all()
    assert head_divergence(heads).item() > 10


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_features_of_a_sample_do_not_depend_on_the_others(make_bank: Callable[..., Bank], task: Task) -> None:
    bank = make_bank(23, task=task)
    table, _ = feature_table(FEATURES[task], bank.outputs, Aggregation.equal(3), task)
    order = torch.randperm(23)
    shuffled, _ = feature_table(FEATURES[task], bank.outputs[order], Aggregation.equal(3), task)
    torch.testing.assert_close(shuffled, table[order], rtol=0, atol=1e-6)


def test_features_of_the_first_steps_do_not_depend_on_later_members(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(23, members=4)
    names = FEATURES["classification"]
    whole, _ = feature_table(names, bank.outputs, Aggregation.equal(4), "classification")
    part, _ = feature_table(names, bank.outputs[:, :2], Aggregation.equal(2), "classification")
    torch.testing.assert_close(part, whole[:, :2], rtol=0, atol=1e-6)


def test_unknown_features_are_named() -> None:
    assert check_features(["kl"], "classification") == ("kl",)
    with pytest.raises(OptionError, match=r"classification are kl, .*; got magrin"):
        check_features(["kl", "magrin"], "classification")
    with pytest.raises(OptionError, match=r"regression are head_spread, .*; got kl"):
        check_features(["kl"], "regression")
    with pytest.raises(OptionError, match="got none"):
        check_features([], "classification")
