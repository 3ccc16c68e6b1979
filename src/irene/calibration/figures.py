"""What an operating point is expected to show, with intervals, from the samples it was calibrated on."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from irene.calibration.frontier import Frontier
from irene.halting.quality import drop

Interval = list[float]  # low, high: JSON knows no tuples


def expected_figures(
    frontier: Frontier, threshold: float, *, confidence: float, quality_N: Tensor | None = None
) -> dict[str, Any]:
    """Mean cost, accuracy (or mse), drop, and the share of samples per number of members, with intervals.

    Where the policy was fitted on these very samples, `quality_N` says how good the answers would be without that.
    """
    costs_N = frontier.at(threshold, frontier.costs_NT)
    if quality_N is None:
        quality_N = frontier.at(threshold, frontier.quality_NT)
    used_N = frontier.trajectory.halting_steps(threshold)
    shares = torch.bincount(used_N - 1, minlength=frontier.trajectory.steps).double() / len(used_N)
    low, high = mean_interval(costs_N, confidence)
    task = frontier.trajectory.task
    lost = float(drop((frontier.full_N - quality_N).mean(), frontier.full_N.mean(), task))
    figures: dict[str, Any] = {"cost": float(costs_N.mean())}
    intervals = {"cost": [max(low, float(frontier.costs_NT.min())), min(high, float(frontier.costs_NT.max()))]}
    if task == "classification":
        figures |= {"accuracy": float(quality_N.mean()), "drop": lost}
        intervals["accuracy"] = share_interval(int(quality_N.sum()), len(quality_N), confidence)
        intervals["drop"] = drop_interval(frontier.full_N, quality_N, confidence)
    else:
        error_N = quality_N.abs()
        figures |= {"mse": float(error_N.mean()), "drop": lost}
        intervals["mse"] = mean_interval(error_N, confidence)
        residual_N = drop((1 + lost) * frontier.full_N - quality_N, frontier.full_N.mean(), task)
        intervals["drop"] = [lost + bound for bound in mean_interval(residual_N, confidence)]
    return {**figures, "used": shares.tolist(), "intervals": intervals, "confidence": confidence}


def mean_interval(values_N: Tensor, confidence: float) -> Interval:
    """Interval of a mean (Student)."""
    from scipy.stats import t

    mean = float(values_N.mean())
    half = float(t.ppf((1 + confidence) / 2, len(values_N) - 1)) * float(values_N.std()) / math.sqrt(len(values_N))
    return [mean - half, mean + half]


def share_interval(events: int, samples: int, confidence: float) -> Interval:
    """Exact interval of a share (Clopper-Pearson)."""
    from scipy.stats import binomtest

    return [float(bound) for bound in binomtest(events, samples).proportion_ci(confidence, method="exact")]


def drop_interval(full_N: Tensor, quality_N: Tensor, confidence: float) -> Interval:
    """Interval of the accuracy lost, from samples that only one of the two gets right (Agresti and Min 2005)."""
    # Half a sample is added to each of the four cells, so that no disagreement seen is not taken for none there.
    lost, won = float((full_N > quality_N).sum()) + 0.5, float((full_N < quality_N).sum()) + 0.5
    samples = len(full_N) + 2
    middle = (lost - won) / samples
    half = _z(confidence) * math.sqrt(lost + won - (lost - won) ** 2 / samples) / samples
    return [middle - half, middle + half]


def _z(confidence: float) -> float:
    """How many standard deviations an interval reaches to each side."""
    return -NormalDist().inv_cdf((1 - confidence) / 2)
