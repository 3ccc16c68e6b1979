"""Ranges in int8 are taken from inputs that are spread over all there are, each of them once."""

from __future__ import annotations

import numpy as np
import pytest

from irene.runtime.int8 import MOST_INPUTS, _batches, enough_of


@pytest.mark.parametrize("samples", [16, 500, MOST_INPUTS, 40_000])
def test_inputs_from_the_first_to_the_last_are_taken_evenly(samples: int) -> None:
    taken = enough_of(samples)
    assert len(taken) == min(samples, MOST_INPUTS)
    assert (taken[0], taken[-1]) == (0, samples - 1)
    assert np.ptp(np.diff(taken)) <= 1


def test_batches_hold_each_row_once() -> None:
    rows = np.arange(70)[:, None]
    batches = list(_batches(rows, 32))
    assert [len(batch) for batch in batches] == [32, 32, 6]
    assert np.array_equal(np.concatenate(batches), rows)
