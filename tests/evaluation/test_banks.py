"""Members run on other data give the bank that calibration needs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from irene.data import Data, from_arrays
from irene.errors import DataError
from irene.evaluation.banks import as_run_expects, bank_of
from irene.run import Run


def test_the_bank_of_a_cascade_is_what_training_wrote(runs: dict[str, Run], blobs: Data) -> None:
    run = runs["average"]
    bank = bank_of(run.cascade(), blobs.test, "cpu", about={"split": "test"})
    written = run.bank("test")
    torch.testing.assert_close(bank.outputs, written.outputs, rtol=0, atol=1e-5)
    assert torch.equal(bank.targets, written.targets)
    assert torch.equal(bank.ids, written.ids)
    assert bank.costs == run.costs
    assert bank.about == {"split": "test"}


def test_classes_are_found_by_their_names(runs: dict[str, Run]) -> None:
    data = from_arrays(np.zeros((40, 5)), np.array([2, 0] * 20), name="two", seed=0)
    expected = as_run_expects(runs["average"], data)
    assert expected.classes == ("0", "1", "2")
    assert set(expected.train.targets.tolist()) == {0, 2}


def test_values_must_be_the_same_ones(regression_runs: list[Run]) -> None:
    data = from_arrays(np.zeros((40, 4)), np.random.default_rng(0).normal(size=(40, 2)), name="other", seed=0)
    with pytest.raises(DataError, match=r"predict, target0, target1, than .* trained on, large, small: give"):
        as_run_expects(regression_runs[0], data)
