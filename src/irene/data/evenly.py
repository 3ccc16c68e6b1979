"""Some of many samples, where looking at all would take too long."""

from __future__ import annotations

import torch
from torch import Tensor


def evenly(count: int, most: int) -> Tensor:
    """At most so many of `count` positions, spread over all of them, as data often comes sorted by class."""
    return torch.linspace(0, count - 1, min(count, most), dtype=torch.float64).round().to(torch.int64)
