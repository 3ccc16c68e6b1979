"""Train, held-out and test: explicit, stratified, seeded and recorded.

Members learn from train. Policies and selectors are fitted on held-out. Test is touched by evaluation alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from irene.data.fingerprint import tensor_digest
from irene.data.samples import Data, Samples
from irene.data.stratify import take_aside
from irene.errors import OptionError

_LARGE = 10_000  # from this many training samples on, a tenth is enough to fit a policy on
_ENOUGH = 5_000  # held-out samples: what more of them tell is less than members lose by them (docs/calibrate.md)


@dataclass(frozen=True, kw_only=True, eq=False)
class Splits:
    """A data set cut in three, with a JSON-able record of how."""

    data: Data
    train: Samples
    heldout: Samples
    test: Samples
    record: dict[str, Any]


def is_share(amount: float | int) -> bool:
    """Whether samples are asked for as a share of all, and not by their number."""
    return isinstance(amount, Real) and not isinstance(amount, Integral)


def _heldout_count(available: int, heldout: float | int | None) -> int:
    if heldout is None:
        heldout = min(0.1, _ENOUGH / available) if available >= _LARGE else 0.2
    if is_share(heldout) and 0 <= heldout < 1:
        # A share that is asked for is never rounded away.
        return max(round(available * heldout), 1) if heldout else 0
    if isinstance(heldout, Integral) and not isinstance(heldout, bool) and 0 <= heldout < available:
        return int(heldout)
    raise OptionError(
        f"heldout must be a share from 0 to below 1 or a number of samples below {available}, got {heldout!r}"
    )


def split(data: Data, *, heldout: float | int | None = None, seed: int = 0) -> Splits:
    """Cut a held-out slice off the training samples.

    `heldout` is a share (0.1), a number of samples (5000), 0 for none, or None for a fifth, of 10,000
    samples or more a tenth, and never more than 5,000. Classes keep their proportions.
    """
    stay, aside = take_aside(data.train.targets, _heldout_count(len(data.train), heldout), seed)
    parts = {
        "train": data.train.subset(stay) if len(aside) else data.train,
        "heldout": data.train.subset(aside),
        "test": data.test,
    }
    record: dict[str, Any] = {
        "data": data.name,
        "fingerprint": data.fingerprint,
        "seed": seed,
        "sizes": {name: len(samples) for name, samples in parts.items()},
        "ids": {name: tensor_digest(samples.ids) for name, samples in parts.items()},
        **data.table,
    }
    return Splits(data=data, record=record, **parts)
