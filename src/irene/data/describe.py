"""What a data set holds, as plain values for printing or JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from irene.data.samples import Data, Samples
from irene.data.splits import split


def describe(data: Data, *, heldout: float | int | None = None, seed: int = 0) -> dict[str, Any]:
    """A summary of a data set: task, shape, classes, sizes and balance of the splits, fingerprint."""
    splits = split(data, heldout=heldout, seed=seed)
    parts = {"train": splits.train, "heldout": splits.heldout, "test": splits.test}
    summary: dict[str, Any] = {
        "name": data.name,
        "task": data.task,
        "shape": list(data.shape),
        "classes": list(data.classes),
        "sizes": splits.record["sizes"],
        "augment": asdict(data.augment),
        "in_memory": data.train.inputs is not None,
        "fingerprint": data.fingerprint,
    }
    if data.task == "classification":
        summary["balance"] = {name: _balance(part, data.classes) for name, part in parts.items()}
    else:
        summary["values"] = {name: _ranges(part, data.classes) for name, part in parts.items()}
    return summary | data.table


def _balance(samples: Samples, classes: tuple[str, ...]) -> dict[str, int]:
    """How many samples each class has."""
    counts = torch.bincount(samples.targets, minlength=len(classes)).tolist()
    return dict(zip(classes, counts, strict=True))


def _ranges(samples: Samples, names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Smallest, mean and largest of each target value."""
    if not len(samples):
        return {}
    return {
        name: {"min": float(column.min()), "mean": float(column.mean()), "max": float(column.max())}
        for name, column in zip(names, samples.targets.T, strict=True)
    }
