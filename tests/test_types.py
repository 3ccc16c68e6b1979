"""Predictions and costs say what they are, and refuse what they are not."""

from __future__ import annotations

import json
import math

import pytest
import torch

from irene.errors import OptionError
from irene.types import Cost, Prediction, Task, cost_vector


def make(task: Task = "classification") -> Prediction:
    return Prediction(
        task=task,
        outputs=torch.tensor([[0.2, 0.8], [0.9, 0.1]]),
        members_used=torch.tensor([1, 2]),
        trace=torch.tensor([[0.6, math.nan], [-math.inf, 0.8]]),
    )


def test_a_classification_has_labels_and_no_values() -> None:
    prediction = make()
    assert prediction.labels.tolist() == [1, 0]
    assert prediction.probs is prediction.outputs
    with pytest.raises(OptionError, match="regression only"):
        _ = prediction.values


def test_a_regression_has_values_and_no_labels() -> None:
    prediction = make("regression")
    assert prediction.values is prediction.outputs
    with pytest.raises(OptionError, match="classification only"):
        _ = prediction.labels


def test_a_score_of_minus_infinity_is_still_a_step_that_ran() -> None:
    assert make().ran.tolist() == [[True, False], [True, True]]


def test_costs_count_the_members_that_ran() -> None:
    costs = (Cost(flops=5.0, ms=0.1), Cost(flops=7.0, ms=0.2))
    assert make().cost.tolist() == [1.0, 2.0]
    assert make().cost_in(costs, "members").tolist() == [1.0, 2.0]
    assert make().cost_in(costs, "flops").tolist() == [5.0, 12.0]
    assert make().cost_in(costs, "ms").tolist() == pytest.approx([0.1, 0.3])


def test_a_cost_that_was_not_measured_is_no_zero() -> None:
    with pytest.raises(OptionError, match="no measured cost in flops"):
        cost_vector((Cost(), Cost(flops=1.0)), "flops")
    with pytest.raises(OptionError, match="one of members, flops, ms, got 'joules'"):
        cost_vector((Cost(),), "joules")  # the annotation says the same, to those who check it


def test_a_cost_survives_json() -> None:
    cost = Cost(members=1.0, parameters=3, flops=2.5, ms=0.01)
    assert Cost.from_dict(json.loads(json.dumps(cost.to_dict()))) == cost
