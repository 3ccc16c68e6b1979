"""The paper's utility of runs: accuracy against cost, by the scale of the first members of an average ensemble."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from irene import metrics
from irene.evaluation.evaluate import Evaluation, same_samples

REFERENCE_MEMBERS = 3  # of the average ensemble that the paper's utility is measured against


def utility(ones: Sequence[Evaluation], kinds: Sequence[Sequence[Evaluation]]) -> float:
    """The utility of one method's runs over seeds: of their mean accuracy at their mean cost.

    It is measured against one model and the average of three: the first members of the first of these `kinds` that is
    an average ensemble of three members or more on the same samples and has all of these seeds. NaN where there is
    none, and for regression.
    """
    if ones[0].bank.task != "classification":
        return math.nan
    by_seed = ({one.seed: one for one in kind} for kind in kinds if _gives_scale(kind[0], ones[0]))
    known = next((kind for kind in by_seed if all(one.seed in kind for one in ones)), None)
    if known is None:
        return math.nan
    single, average = (
        statistics.fmean(prefix_accuracy(known[one.seed], count) for one in ones) for count in (1, REFERENCE_MEMBERS)
    )
    accuracy, cost = (statistics.fmean(one.figures[name] for one in ones) for name in ("accuracy", "cost"))
    return metrics.utility(accuracy, cost, single=single, average=average)


def prefix_accuracy(evaluation: Evaluation, count: int) -> float:
    """The accuracy of the mean of the first members."""
    bank = evaluation.bank.members(range(count))
    return metrics.accuracy(bank.replay().outputs, bank.targets)


def _gives_scale(evaluation: Evaluation, like: Evaluation) -> bool:
    whole = evaluation.run.method == "average" and evaluation.point is None
    return whole and evaluation.bank.steps >= REFERENCE_MEMBERS and same_samples(evaluation, like)
