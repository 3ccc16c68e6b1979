"""Ranges in int8 are taken from each input once."""

from __future__ import annotations

import numpy as np

from irene.runtime.int8 import _batches


def test_batches_hold_each_row_once() -> None:
    rows = np.arange(70)[:, None]
    batches = list(_batches(rows, 32))
    assert [len(batch) for batch in batches] == [32, 32, 6]
    assert np.array_equal(np.concatenate(batches), rows)
