"""Set the threshold of a policy for what is asked, and write down what to expect of it."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from irene.bank import Bank
from irene.calibration import wishes
from irene.calibration.figures import expected_figures
from irene.calibration.frontier import Frontier, frontier
from irene.calibration.wishes import Wish
from irene.data.evenly import evenly
from irene.data.fingerprint import tensor_digest
from irene.errors import CalibrationError, OptionError
from irene.halting.policy import Policy, Stopper
from irene.halting.rule import Aggregation
from irene.halting.trajectory import first_scores
from irene.numbers import share
from irene.point import OperatingPoint
from irene.types import cost_vector

_SCORES_KEPT = 4096


def calibrate(
    bank: Bank,
    policy: Stopper,
    aggregation: Aggregation,
    wish: Wish,
    *,
    name: str = "calibrated",
    why: str = "",
    left_out: Callable[[float], Tensor] | None = None,
    drawn: int | None = None,
) -> OperatingPoint:
    """Set the threshold of a fitted policy for what is asked, on the samples of a bank: an operating point.

    Where the policy was fitted on these samples, `left_out` gives the quality of each sample's answer at a mean cost,
    had it been left out of the fit, so that what is expected is no better than what will be seen. Where they are a part
    of a bank, `drawn` is the seed that drew them: it is written down so that the same ones can be found again.
    """
    if wish.p99 is not None:
        curve, index = _within_latency(bank, policy, aggregation, wish, wish.p99)
    else:
        curve = frontier(bank, policy, aggregation, wish.unit)
        index = _index(curve, wish)
    threshold = float(curve.thresholds_M[index])
    quality_N = None if left_out is None else left_out(float(curve.cost_M[index]))
    expected = expected_figures(curve, threshold, confidence=wish.confidence, quality_N=quality_N)
    expected["unit"] = wish.unit
    depth = curve.trajectory.steps
    scores_N = first_scores(curve.trajectory.scores_NT).sort().values
    if wish.p99 is not None:
        ms_T = cost_vector(bank.costs, "ms")[:depth]
        ms_N = curve.at(threshold, curve.trajectory.costs(ms_T))
        expected["p99"] = wishes.p99_of(ms_N)
        expected["member_ms"] = ms_T.tolist()
    if wish.risk is not None:
        harmed_N = curve.full_N > curve.at(threshold, curve.quality_NT)
        expected["risk"] = {"value": float(harmed_N.double().mean()), "bound": wish.risk}
    return OperatingPoint(
        name=name,
        task=bank.task,
        policy=policy.at(threshold),
        aggregation=aggregation.members(range(depth)),
        members=tuple(range(depth)),
        asked=wish.to_dict(),
        expected=expected,
        data={
            "fingerprint": bank.about.get("fingerprint") or tensor_digest(bank.outputs, bank.targets),
            "split": bank.about.get("split"),
            "samples": len(bank),
            "members": bank.about.get("members", bank.steps),
            "outputs": bank.outputs.shape[3],
            **({} if drawn is None else {"seed": drawn}),
        },
        why=why,
        scores=scores_N[evenly(len(scores_N), _SCORES_KEPT)].cpu(),
    )


def _index(curve: Frontier, wish: Wish) -> int:
    if wish.cost is not None and wish.guaranteed:
        return wishes.threshold_for_guaranteed_cost(curve, wish.cost, wish.confidence, wish.unit)
    if wish.cost is not None:
        return wishes.threshold_for_cost(curve, wish.cost, wish.unit)
    if wish.max_drop is not None:
        return wishes.threshold_for_drop(curve, wish.max_drop)
    assert wish.risk is not None  # one thing is asked for, and it is not p99
    return wishes.threshold_for_risk(curve, wish.risk, wish.confidence)


def _within_latency(
    bank: Bank, policy: Stopper, aggregation: Aggregation, wish: Wish, asked: float
) -> tuple[Frontier, int]:
    """The most accurate, then cheapest, threshold within the latency, with all members or with as many as fit.

    All members: few samples may go on to those that come too late. As many as fit: none can, so any threshold will do.
    """
    ms_T = cost_vector(bank.costs, "ms")
    together = max(cost.ms_batch for cost in bank.costs)
    if together > 1:
        raise OptionError(
            f"a latency is that of one sample, and the members' ms are shares of a batch of {together}: give the bank "
            "`costs=irene.measure_latency(cascade, inputs[:1])`"
        )
    depths = [bank.steps]
    if isinstance(policy, Policy):  # members in order: the last ones may be left out
        fitting = int((ms_T.cumsum(0) <= asked).sum())
        depths += [fitting] if 0 < fitting < bank.steps else []
    found: list[tuple[float, float, int, Frontier]] = []
    for depth in depths:
        curve = frontier(bank, policy, aggregation, wish.unit, depth=depth)
        ms_NT = curve.trajectory.costs(ms_T[:depth])
        within_M = wishes.thresholds_for_latency(curve, ms_NT, asked, wish.confidence)
        if bool(within_M.any()):
            quality_M = curve.quality_M.masked_fill(~within_M, -math.inf)
            index = int((quality_M == quality_M.max()).nonzero()[0])  # cost rises with the threshold
            found.append((float(quality_M[index]), -float(curve.cost_M[index]), index, curve))
    if not found:
        raise CalibrationError(
            f"a 99th percentile of {asked:g} ms cannot be promised with {share(wish.confidence)} confidence: "
            f"the nearest possible is {wishes.rounded_up(_lowest_latency(curve, ms_NT, wish.confidence)):g} ms"
        )
    *_, index, curve = max(found, key=lambda entry: entry[:2])
    return curve, index


def _lowest_latency(curve: Frontier, ms_NT: Tensor, confidence: float) -> float:
    if curve.trajectory.order_NT is None:  # the first member alone can always be had
        return float(ms_NT[0, 0])
    latencies: list[float] = ms_NT.unique().tolist()
    return next(ms for ms in latencies if bool(wishes.thresholds_for_latency(curve, ms_NT, ms, confidence).any()))
