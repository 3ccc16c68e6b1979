"""The quality of an answer is right or wrong, or minus its squared error."""

from __future__ import annotations

import torch

from irene.halting.quality import quality


def test_classification_is_right_or_wrong() -> None:
    answers = torch.tensor([[[0.6, 0.4], [0.3, 0.7]]])
    assert quality(answers, torch.tensor([1]), "classification").tolist() == [[0.0, 1.0]]


def test_regression_is_minus_the_mean_squared_error() -> None:
    answers = torch.tensor([[[1.0, 2.0], [0.0, 0.0]]])
    assert quality(answers, torch.tensor([[0.0, 0.0]]), "regression").tolist() == [[-2.5, 0.0]]
    assert quality(answers[:, :, :1], torch.tensor([0.0]), "regression").tolist() == [[-1.0, 0.0]]
