"""Predictions and costs say what they are, and refuse what they are not."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from irene.errors import OptionError
from irene.types import Cost, Prediction, Task, cost_vector, differ_in_size, not_finite


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


def test_a_sample_without_finite_outputs_has_no_label() -> None:
    outputs = torch.tensor([[math.nan, math.nan], [0.9, 0.1], [0.5, math.inf]])
    prediction = Prediction("classification", outputs, torch.tensor([2, 1, 2]), torch.zeros(3, 2))
    assert prediction.failed.tolist() == [True, False, True]
    assert prediction.labels.tolist() == [-1, 0, -1]


@given(hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.floats(width=32)))
def test_rows_that_are_not_finite_are_found(rows: NDArray[np.float32]) -> None:
    assert not_finite(torch.from_numpy(rows)).tolist() == [not np.isfinite(row).all() for row in rows]


@pytest.mark.parametrize("wrong", [-1.0, math.inf, math.nan, None, "3"])
@pytest.mark.parametrize("name", ["members", "parameters", "flops", "ms"])
def test_a_cost_is_a_number_that_can_be(name: str, wrong: Any) -> None:
    with pytest.raises(OptionError, match=rf"a cost in {name} must be a finite number of at least 0, .*got {wrong!r}"):
        Cost.from_dict({name: wrong})
    assert getattr(Cost.from_dict({name: np.float32(2)}), name) == 2


def test_parts_become_one() -> None:
    parts = [make(), make(), make()]
    whole = Prediction.cat(parts).cpu()
    assert whole.task == "classification"
    assert whole.members_used.tolist() == [1, 2] * 3
    torch.testing.assert_close(whole.outputs, torch.cat([part.outputs for part in parts]))
    torch.testing.assert_close(whole.trace, torch.cat([part.trace for part in parts]), equal_nan=True)
    assert Prediction.cat(parts[:1]) is parts[0]


def test_a_prediction_is_shown_in_a_line_and_equal_to_itself_alone() -> None:
    one, other = make(), make()
    assert repr(one) == "Prediction(classification, 2 samples, 2 outputs, 2 members)"
    assert one == one
    assert one != other
    assert len({one, other}) == 2


def test_costs_count_the_members_that_ran() -> None:
    costs = (Cost(flops=5.0, ms=0.1), Cost(flops=7.0, ms=0.2))
    assert make().cost.tolist() == [1.0, 2.0]
    assert make().cost_in(costs, "members").tolist() == [1.0, 2.0]
    assert make().cost_in(costs, "flops").tolist() == [5.0, 12.0]
    assert make().cost_in(costs, "ms").tolist() == pytest.approx([0.1, 0.3])


def test_a_cost_that_was_not_measured_is_no_zero() -> None:
    with pytest.raises(OptionError, match=r"no measured cost in flops: .*`irene bank` takes --flops"):
        cost_vector((Cost(), Cost(flops=1.0)), "flops")
    with pytest.raises(OptionError, match="one of members, flops, ms, got 'joules'"):
        cost_vector((Cost(),), "joules")  # the annotation says the same, to those who check it


def test_members_differ_by_their_size_and_not_by_their_time() -> None:
    assert differ_in_size((Cost(flops=1.0), Cost(flops=2.0)))
    assert differ_in_size((Cost(parameters=1), Cost(parameters=1), Cost(parameters=2)))
    assert not differ_in_size((Cost(flops=1.0, ms=1.0), Cost(flops=1.0, ms=2.0)))


def test_a_cost_survives_json() -> None:
    cost = Cost(members=1.0, parameters=3, flops=2.5, ms=0.01)
    assert Cost.from_dict(json.loads(json.dumps(cost.to_dict()))) == cost


def test_costs_of_other_members_are_refused() -> None:
    with pytest.raises(OptionError, match="expected the costs of the 2 members that answered, got 1"):
        make().cost_in((Cost(flops=5.0),), "flops")
