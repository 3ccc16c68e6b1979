"""Policies compared on saved outputs: at exactly the same mean cost, in points of accuracy with 95 % intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from irene.bank import Bank
from irene.metrics import paired_bootstrap


def joined(*banks: Bank) -> Bank:
    """The members of several banks one after the other, on the same samples."""
    first = banks[0]
    if not all(torch.equal(first.ids, bank.ids) for bank in banks):
        raise SystemExit("the banks of members that are to run together are of other samples")
    costs = tuple(cost for bank in banks for cost in bank.costs)
    return replace(first, outputs=torch.cat([bank.outputs for bank in banks], 1), costs=costs)


def points(right: Tensor, against: Tensor) -> list[float]:
    """The mean difference in points of accuracy, with the ends of its 95 % interval."""
    return [100 * value for value in paired_bootstrap(right, against, samples=4000)]


def gain(values: Sequence[float]) -> str:
    mean, low, high = values
    text = f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]"
    return f"**{text}**" if low > 0 or high < 0 else text


def count_ahead(gains: Sequence[Sequence[float]]) -> int:
    """How many are clearly above zero."""
    return sum(low > 0 for _, low, _ in gains)


def span(gains: Sequence[Sequence[float]]) -> str:
    """The smallest and the largest of their means; the mean where there is only one."""
    return " to ".join(dict.fromkeys(f"{end([mean for mean, _, _ in gains]):+.2f}" for end in (min, max)))
