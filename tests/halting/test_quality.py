"""The quality of an answer is right or wrong, or minus its squared error."""

from __future__ import annotations

import math

import pytest
import torch

from irene.halting.quality import drop, quality


def test_classification_is_right_or_wrong() -> None:
    answers = torch.tensor([[[0.6, 0.4], [0.3, 0.7]]])
    assert quality(answers, torch.tensor([1]), "classification").tolist() == [[0.0, 1.0]]


def test_regression_is_minus_the_mean_squared_error() -> None:
    answers = torch.tensor([[[1.0, 2.0], [0.0, 0.0]]])
    assert quality(answers, torch.tensor([[0.0, 0.0]]), "regression").tolist() == [[-2.5, 0.0]]
    assert quality(answers[:, :, :1], torch.tensor([0.0]), "regression").tolist() == [[-1.0, 0.0]]


def test_a_drop_is_accuracy_lost_or_the_growth_of_the_squared_error() -> None:
    lost, full = torch.tensor([-0.1, 0.1], dtype=torch.float64), torch.tensor(0.8, dtype=torch.float64)
    assert drop(lost, full, "classification").tolist() == [-0.1, 0.1]
    assert drop(lost, -full, "regression").tolist() == pytest.approx([-0.125, 0.125])


def test_a_drop_from_no_error_at_all_is_beyond_any_wish() -> None:
    lost = torch.tensor([0.0, 1e-300, 0.1], dtype=torch.float64)
    assert drop(lost, -torch.zeros((), dtype=torch.float64), "regression").tolist() == [0.0, math.inf, math.inf]
