"""Drift: does unlabelled data still look like the data an operating point was calibrated on?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from irene.errors import OptionError
from irene.halting.skipping import Router
from irene.halting.trajectory import first_scores
from irene.point import OperatingPoint
from irene.types import Prediction

FEWEST = 100  # with fewer samples nothing can be said
_LEVEL = 0.01  # of each of the two tests
_EXIT_SHIFT = 0.02  # share of samples that stop elsewhere, from which on it matters
_SCORE_SHIFT = 0.1  # population stability index, from which on it matters
_BINS = 10
_FEWEST_EXPECTED = 5  # in every step, for chi-square's own distribution: the rule of thumb
_DRAWS = 9999  # of permutations


@dataclass(frozen=True)
class Drift:
    """What has changed since calibration, and whether to calibrate again.

    A change counts when it is both beyond chance (a p-value below 1 %) and large enough to matter: 2 % of the samples
    stop at another step, or a population stability index of 0.1. With many samples, small shifts are never chance.
    """

    samples: int
    used: tuple[float, ...]  # share of samples per number of members, now
    used_before: tuple[float, ...]
    exit_shift: float  # share of samples that would have to stop elsewhere to be as before
    exit_p: float  # chi-square, of permutations where few samples are expected at some step
    score_shift: float  # population stability index of the first scores; NaN where a policy has none
    score_distance: float  # Kolmogorov-Smirnov
    score_p: float
    recalibrate: bool
    verdict: str


def check_drift(point: OperatingPoint, prediction: Prediction) -> Drift:
    """Compare a prediction with the time of calibration: where samples stop, and their first halting scores."""
    if prediction.trace.shape[1] != len(point.members):
        raise OptionError(
            f"the point {point.name} uses {len(point.members)} members and the prediction is of "
            f"{prediction.trace.shape[1]}: check predictions made at this point"
        )
    samples = len(prediction)
    now_T = torch.bincount(prediction.members_used.cpu() - 1, minlength=len(point.members)).double()
    before_T = torch.tensor(point.expected["used"], dtype=torch.float64) * point.data["samples"]
    exit_shift = float((now_T / samples - before_T / before_T.sum()).abs().sum()) / 2
    exit_p = _chi_square(before_T.round(), now_T)
    index, distance, score_p = _compare_scores(point.scores, _scores(point, prediction.trace[~prediction.failed].cpu()))
    reasons = []
    if exit_p < _LEVEL and exit_shift > _EXIT_SHIFT:
        reasons.append(f"{exit_shift:.1%} of the samples stop at another step")
    if score_p < _LEVEL and index > _SCORE_SHIFT:
        reasons.append(f"the scores have shifted (stability index {index:.2f})")
    if samples < FEWEST:
        verdict = f"too few samples to tell: {samples}, and {FEWEST} are needed"
    elif reasons:
        verdict = f"recalibrate: {' and '.join(reasons)}"
    else:
        verdict = "no drift that matters: keep this operating point"
    return Drift(
        samples=samples,
        used=tuple((now_T / samples).tolist()),
        used_before=tuple(point.expected["used"]),
        exit_shift=exit_shift,
        exit_p=exit_p,
        score_shift=index,
        score_distance=distance,
        score_p=score_p,
        recalibrate=bool(reasons) and samples >= FEWEST,
        verdict=verdict,
    )


def _scores(point: OperatingPoint, trace_BT: Tensor) -> Tensor:
    """(B,) the first scores of a prediction, as they were kept at calibration; a trace has them by member."""
    if isinstance(point.policy, Router):
        return trace_BT[:, point.policy.first].contiguous()
    return first_scores(trace_BT).contiguous()


def _chi_square(before_T: Tensor, now_T: Tensor) -> float:
    """p-value of "both come from the same shares"; where few samples are expected somewhere, that of permutations.

    Rare steps stay apart: with its neighbour, a step that was common and is gone now would not be missed.
    """
    from scipy.stats import chi2_contingency

    table_TD = torch.stack([before_T, now_T], 1).to(torch.int64).numpy()
    table_TD = table_TD[table_TD.sum(1) > 0]
    if not table_TD.sum(0).all():
        return 1.0
    result = chi2_contingency(table_TD, correction=False)
    if result.expected_freq.min() >= _FEWEST_EXPECTED:
        return float(result.pvalue)
    # The distribution with these sums of rows and columns is known exactly, and drawn from, by a seed.
    steps_T, (before, now) = table_TD.sum(1), table_TD.sum(0)
    drawn_RT = np.random.default_rng(0).multivariate_hypergeometric(steps_T, min(before, now), _DRAWS)
    expected_T = steps_T * (min(before, now) / (before + now))
    weight_T = 1 / expected_T + 1 / (steps_T - expected_T)  # one side has what the other one lacks
    statistic_R = ((drawn_RT - expected_T) ** 2 * weight_T).sum(1)
    as_far = int((statistic_R >= result.statistic * (1 - 1e-9)).sum())  # rounding must not tell equal ones apart
    return (1 + as_far) / (1 + _DRAWS)


def _compare_scores(before: Tensor, now: Tensor) -> tuple[float, float, float]:
    """Stability index, Kolmogorov-Smirnov distance and its p-value; NaN where there are no scores."""
    if len(before) == 0 or len(now) == 0:
        return math.nan, math.nan, math.nan
    from scipy.stats import ks_2samp

    inner, repeats = before.quantile(torch.linspace(0, 1, _BINS + 1)[1:-1]).unique(return_counts=True)
    # A score that many share gets a bin of its own: with what lies below it, a fall from it would not be seen.
    shared = inner[repeats > 1]
    inner = torch.cat([inner, shared.nextafter(torch.full_like(shared, -math.inf))]).unique()
    counts = [torch.bincount(torch.bucketize(part, inner), minlength=len(inner) + 1) + 0.5 for part in (before, now)]
    old, new = (count.double() / count.sum() for count in counts)
    index = float(((new - old) * (new / old).log()).sum())
    test = ks_2samp(before.numpy(), now.numpy(), method="asymp")
    return index, float(test.statistic), float(test.pvalue)
