"""Promises with a confidence: fixed-sequence testing with exact p-values (Learn then Test, arXiv 2110.01052).

Thresholds are tested from the safest toward the riskiest, and the last one that passes before the first failure is
taken. Every threshold between two neighbouring scores has the same counts, so testing one of them tests all: the
sequence is the whole line. The first threshold on that line whose true risk is too high is a fixed one, and no worse
one is taken unless it passes, which happens with a probability of at most delta. So no correction for the number of
thresholds is needed, and it does not matter that they were read off the scores. What does matter: nothing about the
policy may have been fitted on the samples that the promise is made with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def most_events(samples: int, rate: float, delta: float) -> int:
    """How many events among the samples still show, at level delta, that the true rate is at most `rate`.

    The exact binomial test: the largest k with P(Bin(samples, rate) <= k) <= delta; -1 where not even 0 shows it.
    """
    from scipy.stats import binom

    at_least = int(binom.ppf(delta, samples, rate))  # the smallest k with P(Bin <= k) >= delta
    return at_least if binom.cdf(at_least, samples, rate) <= delta else at_least - 1


def lowest_rate(samples: int, delta: float) -> float:
    """The lowest rate that samples without any event can show at level delta."""
    return float(1 - delta ** (1 / samples))


def mean_p_value(means: Tensor, samples: int, bound: float) -> Tensor:
    """p-values of "the true mean is above bound", for means of values in [0, 1] (Hoeffding-Bentkus)."""
    from scipy.special import rel_entr
    from scipy.stats import binom

    mean: NDArray[Any] = means.numpy()
    low = np.minimum(mean, bound)
    hoeffding = np.exp(-samples * (rel_entr(low, bound) + rel_entr(1 - low, 1 - bound)))
    # Rounding up what is a whole number but for its last bits would cost an event.
    bentkus = np.e * binom.cdf(np.ceil(samples * mean - 1e-9), samples, bound)
    return torch.from_numpy(np.minimum(hoeffding, bentkus))


def last_passing(passed: Tensor) -> int:
    """Index of the last test that passed before the first failure, in the order of testing; -1 if the first failed."""
    return int(passed.to(torch.int64).cumprod(0).sum()) - 1
