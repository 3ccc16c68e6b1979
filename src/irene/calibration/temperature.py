"""Per-member temperature scaling: logits divided so that each member's confidence means what it says."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

COLDEST, HOTTEST = 0.05, 20.0
_AT_ONCE = 2**18  # logits: as many as a processor's cache holds, for memory takes longer than the arithmetic


def fit_temperature(logits_NK: Tensor, labels_N: Tensor) -> float:
    """The temperature at which logits give the labels the highest likelihood, between 0.05 and 20."""
    from scipy.optimize import minimize_scalar

    rows = max(1, _AT_ONCE // logits_NK.shape[1])
    parts = list(zip(logits_NK.to(torch.float64).split(rows), labels_N.split(rows), strict=True))

    def nll(log_temperature: float) -> float:
        scale = math.exp(-log_temperature)
        total = sum(float(functional.cross_entropy(part * scale, labels, reduction="sum")) for part, labels in parts)
        return total / len(labels_N)

    bounds = (math.log(COLDEST), math.log(HOTTEST))  # one minimum lies between: the NLL is convex in 1 / temperature
    return math.exp(minimize_scalar(nll, bounds=bounds, method="bounded", options={"xatol": 1e-4}).x)


def fit_temperatures(outputs_NTHK: Tensor, labels_N: Tensor) -> tuple[float, ...]:
    """A temperature for each member, from the logits of its first head, the one that answers."""
    return tuple(fit_temperature(outputs_NTHK[:, t, 0], labels_N) for t in range(outputs_NTHK.shape[1]))
