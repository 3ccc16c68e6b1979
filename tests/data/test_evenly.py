"""Some of many samples are spread over all there are, each of them once."""

from __future__ import annotations

import pytest
import torch

from irene.data.evenly import evenly


@pytest.mark.parametrize("count", [0, 1, 16, 500, 512, 513, 40_000, 2**25])
def test_positions_from_the_first_to_the_last_are_taken_evenly(count: int) -> None:
    taken = evenly(count, 512)
    assert len(taken) == min(count, 512)
    assert torch.equal(taken[:1], torch.zeros_like(taken[:1]))
    assert torch.equal(taken[-1:], torch.full_like(taken[-1:], count - 1))
    steps = taken.diff()
    assert count < 2 or int(steps.max() - steps.min()) <= 1
