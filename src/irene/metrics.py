"""How good a prediction is and what it cost: pure functions of tensors or arrays that return plain floats.

`outputs` and `probs` are (N, K), `labels` (N,) class numbers, `values` and `targets` (N,) or (N, K).
All sums run in float64 on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irene.errors import DataError, OptionError
from irene.types import Cost, Prediction

Array = Tensor | NDArray[Any]

_COST_TAU = 0.01
_UTILITY_MEMBERS = 3
_SMALLEST_PROBABILITY = torch.finfo(torch.float32).tiny
_BOOTSTRAP_ELEMENTS = 1 << 22


def accuracy(outputs: Array, labels: Array) -> float:
    """Share of samples whose largest output is at the label; the first of equal outputs counts."""
    return top_k(outputs, labels, 1)


def top_k(outputs: Array, labels: Array, k: int) -> float:
    """Share of samples whose label is among the k largest outputs; of equal ones the first come first."""
    outputs_NK, labels_N = _classes(outputs, labels)
    if not 1 <= k <= outputs_NK.shape[1]:
        raise OptionError(f"k must be between 1 and the {outputs_NK.shape[1]} classes, got {k}")
    own_N1 = outputs_NK.gather(1, labels_N[:, None])
    earlier_NK = torch.arange(outputs_NK.shape[1]) < labels_N[:, None]
    ahead_N = ((outputs_NK > own_N1) | ((outputs_NK == own_N1) & earlier_NK)).sum(1)
    return _mean(ahead_N < k)


def nll(probs: Array, labels: Array) -> float:
    """Mean negative log-likelihood of the labels in nats; a probability of 0 counts as float32's smallest."""
    probs_NK, labels_N = _classes(probs, labels, probabilities=True)
    return _mean(-probs_NK.gather(1, labels_N[:, None]).clamp(min=_SMALLEST_PROBABILITY).log())


def brier(probs: Array, labels: Array) -> float:
    """Squared distance of probabilities from the one-hot label: sum over classes, mean over samples."""
    probs_NK, labels_N = _classes(probs, labels, probabilities=True)
    onehot_NK = torch.nn.functional.one_hot(labels_N, probs_NK.shape[1])
    return _mean((probs_NK - onehot_NK).square().sum(1))


def ece(probs: Array, labels: Array, bins: int = 15) -> float:
    """Expected calibration error: mean gap of confidence and accuracy over equally wide bins (low, high]."""
    if bins < 1:
        raise OptionError(f"bins must be at least 1, got {bins}")
    confidence_N, right_N = _top_one(probs, labels)
    inner_edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64)[1:-1]
    bin_N = torch.bucketize(confidence_N, inner_edges)
    gaps = torch.zeros(bins, dtype=torch.float64).index_add_(0, bin_N, confidence_N - right_N)
    return float(gaps.abs().sum()) / len(confidence_N)


def error_auroc(probs: Array, labels: Array) -> float:
    """How well low confidence finds the errors: chance that an error is less confident than a right answer.

    NaN where there are only errors or only right answers, since then there is nothing to tell apart.
    """
    confidence_N, right_N = _top_one(probs, labels)
    rights = int(right_N.sum())
    errors = len(right_N) - rights
    if rights == 0 or errors == 0:
        return math.nan
    _, place_N, counts = np.unique(confidence_N.numpy(), return_inverse=True, return_counts=True)
    ranks = counts.cumsum() - (counts - 1) / 2  # equal confidences share the mean of their ranks
    wins = float(ranks[place_N][right_N.bool().numpy()].sum()) - rights * (rights + 1) / 2
    return wins / (rights * errors)


def share_used(members_used: Array, T: int) -> list[float]:
    """Share of samples that used 1, 2, ... T members."""
    used_N = torch.as_tensor(members_used).cpu()
    if used_N.ndim != 1 or used_N.is_floating_point() or len(used_N) == 0:
        raise DataError(f"members_used must be a non-empty (N,) of integers, got {_describe(used_N)}")
    if int(used_N.min()) < 1 or int(used_N.max()) > T:
        raise DataError(f"members_used must be between 1 and {T}, got {int(used_N.min())} to {int(used_N.max())}")
    counts: list[int] = torch.bincount(used_N.to(torch.int64), minlength=T + 1)[1:].tolist()
    return [count / len(used_N) for count in counts]


def utility(accuracy: float, cost: float, *, single: float, average: float) -> float:
    """The paper's utility (Appendix C): accuracy against cost, 1 for one member and for the 3-member average.

    `single` and `average` are the accuracies of these two, in the unit of `accuracy`; `cost` is in members.
    NaN where the average ensemble is no better than the single member: there is no scale to measure on then.
    """
    if not cost > 0 or not accuracy >= 0:
        raise OptionError(f"utility needs a positive cost and an accuracy of at least 0, got {cost} and {accuracy}")
    if not single > 0 or not average / single > 1:
        return math.nan
    accuracy_tau = _COST_TAU * math.log(_UTILITY_MEMBERS) / math.log(average / single)
    try:
        gain: float = (accuracy / single) ** accuracy_tau / cost**_COST_TAU
        return math.exp(100 * (gain - 1))
    except OverflowError:
        return math.inf


def mse(values: Array, targets: Array) -> float:
    """Mean squared error."""
    values_NK, targets_NK = _regression(values, targets)
    return _mean((values_NK - targets_NK).square())


def mae(values: Array, targets: Array) -> float:
    """Mean absolute error."""
    values_NK, targets_NK = _regression(values, targets)
    return _mean((values_NK - targets_NK).abs())


def r2(values: Array, targets: Array) -> float:
    """Coefficient of determination, mean over outputs; NaN for fewer than two samples.

    An output whose targets are all equal counts 1 when it is met exactly and 0 otherwise, as in scikit-learn.
    """
    values_NK, targets_NK = _regression(values, targets)
    if len(values_NK) < 2:
        return math.nan
    error_K = (values_NK - targets_NK).square().sum(0)
    spread_K = (targets_NK - targets_NK.mean(0)).square().sum(0)
    constant_K = (targets_NK == targets_NK[0]).all(0)
    score_K = 1 - error_K / torch.where(constant_K, torch.ones_like(spread_K), spread_K)
    return _mean(torch.where(constant_K, (error_K == 0).to(torch.float64), score_K))


def summary(prediction: Prediction, targets: Array, *, members: int) -> dict[str, Any]:
    """Every metric of the task, the mean cost in members, and the share of samples per number of members."""
    outputs = prediction.outputs
    figures: dict[str, Any]
    if prediction.task == "classification":
        figures = {"accuracy": accuracy(outputs, targets)}
        if outputs.shape[1] >= 5:
            figures["top5"] = top_k(outputs, targets, 5)
        figures |= {
            "nll": nll(outputs, targets),
            "brier": brier(outputs, targets),
            "ece": ece(outputs, targets),
            "error_auroc": error_auroc(outputs, targets),
        }
    else:
        squared = mse(outputs, targets)
        figures = {
            "mse": squared,
            "rmse": math.sqrt(squared),
            "mae": mae(outputs, targets),
            "r2": r2(outputs, targets),
        }
    figures["cost"] = _mean(prediction.cost)
    figures["used"] = share_used(prediction.members_used, members)
    return figures


def paired_bootstrap(
    a_N: Array, b_N: Array, *, samples: int = 1000, seed: int = 0, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Mean of a - b over the same samples, and its percentile bootstrap interval (mean, low, high).

    Where only a handful of samples differ the interval is too narrow, and where none does it is a point.
    """
    a, b = (torch.as_tensor(values).detach().to("cpu", torch.float64) for values in (a_N, b_N))
    if a.shape != b.shape or a.ndim != 1 or len(a) == 0:
        raise DataError(f"a paired comparison needs two (N,) of equal length, got {_describe(a)} and {_describe(b)}")
    if samples < 1 or not 0 < confidence < 1:
        raise OptionError(f"samples must be at least 1 and confidence between 0 and 1, got {samples} and {confidence}")
    difference_N = (a - b).numpy()
    # A resample is how often each distinct difference is drawn: for right-or-wrong there are three of them.
    distinct, counts = np.unique(difference_N, return_counts=True)
    generator = np.random.default_rng(seed)
    step = max(1, _BOOTSTRAP_ELEMENTS // len(distinct))
    means = [
        generator.multinomial(len(difference_N), counts / len(difference_N), size=min(step, samples - start))
        @ distinct
        / len(difference_N)
        for start in range(0, samples, step)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(difference_N.mean()), float(low), float(high)


def _mean(values: Tensor) -> float:
    return float(values.to(torch.float64).mean())


def _describe(values: Tensor) -> str:
    return f"shape {tuple(values.shape)} of {values.dtype}"


def _classes(outputs: Array, labels: Array, *, probabilities: bool = False) -> tuple[Tensor, Tensor]:
    """Outputs as float64 and labels as int64, checked."""
    outputs_NK = torch.as_tensor(outputs).detach().to("cpu", torch.float64)
    labels_N = torch.as_tensor(labels).detach().cpu()
    if outputs_NK.ndim != 2 or labels_N.shape != outputs_NK.shape[:1] or outputs_NK.numel() == 0:
        raise DataError(
            f"expected outputs (N, classes) and labels (N,), got {_describe(outputs_NK)} and {_describe(labels_N)}"
        )
    if labels_N.is_floating_point():
        raise DataError(f"labels must be class numbers, got {labels_N.dtype}: is this a regression target?")
    if int(labels_N.min()) < 0 or int(labels_N.max()) >= outputs_NK.shape[1]:
        raise DataError(
            f"labels must be between 0 and {outputs_NK.shape[1] - 1}, "
            f"got {int(labels_N.min())} to {int(labels_N.max())}"
        )
    if not bool(outputs_NK.isfinite().all()):
        raise DataError("outputs must be finite, got NaN or infinity: a member has diverged")
    if probabilities and not bool(((outputs_NK >= 0) & (outputs_NK <= 1 + 1e-3)).all()):
        raise DataError("expected probabilities between 0 and 1, got other values: apply a softmax to logits")
    return outputs_NK, labels_N.to(torch.int64)


def _top_one(probs: Array, labels: Array) -> tuple[Tensor, Tensor]:
    """(N,) largest probability, at most 1, and (N,) whether it is at the label, as 0 or 1."""
    probs_NK, labels_N = _classes(probs, labels, probabilities=True)
    confidence_N, top_N = probs_NK.max(1)
    return confidence_N.clamp(max=1), (top_N == labels_N).to(torch.float64)


def _regression(values: Array, targets: Array) -> tuple[Tensor, Tensor]:
    """Values and targets as float64 (N, K), checked; (N,) and (N, 1) mean the same."""
    pair = [torch.as_tensor(part).detach().to("cpu", torch.float64) for part in (values, targets)]
    values_NK, targets_NK = (part[:, None] if part.ndim == 1 else part for part in pair)
    if values_NK.ndim != 2 or values_NK.shape != targets_NK.shape or values_NK.numel() == 0:
        raise DataError(
            "expected values and targets of one shape, (N,) or (N, K), "
            f"got {_describe(pair[0])} and {_describe(pair[1])}"
        )
    if not bool(values_NK.isfinite().all() and targets_NK.isfinite().all()):
        raise DataError("values and targets must be finite, got NaN or infinity: a member has diverged")
    return values_NK, targets_NK


def figures_of(
    prediction: Prediction, targets: Tensor, costs: Sequence[Cost], gate: Cost | None = None
) -> dict[str, Any]:
    """Quality of answers, and what they cost in members, FLOPs and ms a sample: NaN where some member has no such cost.

    The gate of a mixture runs on every sample: it counts in FLOPs and ms, and is no member.
    """
    figures = summary(prediction, targets, members=len(costs))
    ran_NT = prediction.ran.double()
    for unit in ("flops", "ms"):
        per_member_T = torch.tensor([getattr(cost, unit) for cost in costs], dtype=torch.float64)
        per_member_T[per_member_T == 0] = math.nan  # not measured
        figures[unit] = float((ran_NT @ per_member_T).mean()) + getattr(gate, unit, 0.0)
    return figures
