"""Evidence: the tables a selector learns from, and how they follow a member that still learns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from irene.bank import Bank
from irene.halting.features import FEATURES, feature_table
from irene.halting.rule import Aggregation
from irene.training import losses
from irene.training.evidence import Evidence
from irene.types import Task

CPU = torch.device("cpu")
TABLES = ("features", "regret", "member_loss", "reference_loss")


def make(bank: Bank, outputs: Tensor | None = None, scale: Tensor | None = None) -> Evidence:
    return Evidence(
        bank.outputs if outputs is None else outputs,
        bank.targets,
        names=FEATURES[bank.task],
        task=bank.task,
        device=CPU,
        scale_K=scale,
    )


def test_tables_of_classes_are_of_the_running_ensemble(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(40, accuracy=0.6)
    evidence = make(bank)
    assert (len(evidence), evidence.steps) == (40, 3)
    probs = bank.outputs[:, :, 0].double().softmax(2).numpy()
    labels = bank.targets.numpy()
    whole = probs.mean(1)
    picked = np.stack([whole[np.arange(40), probs[:, : t + 1].mean(1).argmax(1)] for t in range(3)], 1)
    given_up = whole.max(1)[:, None] - picked
    np.testing.assert_allclose(evidence.regret.numpy(), 0.2 * given_up / given_up.mean(), rtol=1e-4, atol=1e-5)
    own, before = probs[np.arange(40), 2, labels], probs[:, :2].mean(1)[np.arange(40), labels]
    np.testing.assert_allclose(evidence.member_loss.numpy(), -np.log(own), rtol=1e-4)
    np.testing.assert_allclose(evidence.reference_loss.numpy(), -np.log(before), rtol=1e-4)
    expected, _ = feature_table(FEATURES["classification"], bank.outputs, Aggregation.equal(3), "classification")
    assert torch.equal(evidence.features, expected)


def test_tables_of_values_count_errors_in_units_of_the_spread(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(40, task="regression", outputs=2)
    scale = torch.tensor([10.0, 0.1])
    evidence = make(bank, scale=scale)
    values, targets = bank.outputs[:, :, 0].double(), bank.targets.double()
    running = values.cumsum(1) / torch.arange(1, 4)[:, None]
    distance = ((running - running[:, -1:]) / scale).square().mean(2)
    torch.testing.assert_close(evidence.regret.double(), 0.2 * distance / distance.mean(), rtol=1e-4, atol=1e-4)
    own = ((values[:, 2] - targets) / scale).square().mean(1)
    torch.testing.assert_close(evidence.member_loss.double(), own, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_refresh_puts_the_newest_member_in_place(make_bank: Callable[..., Bank], task: Task) -> None:
    bank = make_bank(40, task=task)
    before = bank.outputs.clone()
    old = before.clone()
    old[:, -1] = old[:, -2]
    evidence, expected = make(bank, old), make(bank)
    places = {name: getattr(evidence, name) for name in TABLES}
    evidence.refresh(bank.outputs[:, -1])
    for name in TABLES:
        assert getattr(evidence, name) is places[name]  # a CUDA graph reads these very tensors
        assert torch.equal(getattr(evidence, name), getattr(expected, name))
    assert torch.equal(old[:, -1], old[:, -2])  # the caller's tensor is its own
    assert torch.equal(bank.outputs, before)


def test_the_first_member_is_its_own_reference(make_bank: Callable[..., Bank]) -> None:
    evidence = make(make_bank(20, members=1))
    torch.testing.assert_close(evidence.reference_loss, evidence.member_loss)


def test_weights_and_temperatures_shape_the_tables(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(40)
    aggregation = Aggregation((1.0, 2.0, 3.0), (2.0, 1.0, 0.5))
    evidence = Evidence(
        bank.outputs, bank.targets, names=("margin",), task="classification", device=CPU, aggregation=aggregation
    )
    _, means = feature_table(("margin",), bank.outputs, aggregation, "classification")
    regret = losses.regret(means, "classification")
    torch.testing.assert_close(evidence.regret, 0.2 * regret / regret.mean())
