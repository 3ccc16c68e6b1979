"""The threshold of an operating point set again, as it was set before, on what its members answer in int8."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from irene.bank import Bank
from irene.calibration.calibrate import calibrate
from irene.calibration.figures import expected_figures
from irene.calibration.fit import split_for_promise
from irene.calibration.frontier import frontier
from irene.calibration.wishes import Wish
from irene.errors import CalibrationError
from irene.halting.policies import Never
from irene.halting.policy import Stopper
from irene.halting.rule import Aggregation
from irene.point import TRAINED, OperatingPoint
from irene.types import Prediction, Task


def as_trained(policy: Stopper, aggregation: Aggregation, task: Task) -> OperatingPoint:
    """A cascade's policy as it is, as an operating point that was asked for nothing."""
    return OperatingPoint(
        name=TRAINED,
        task=task,
        policy=policy,
        aggregation=aggregation,
        members=tuple(range(len(aggregation.weights))),
        asked={},
        expected={},
        data={},
        why=f"{policy.name}: as the run was trained",
        scores=torch.empty(0),
    )


def replay(point: OperatingPoint, bank: Bank) -> Prediction:
    """What the cascade at a point would have answered, from a bank of all members."""
    return bank.members(point.members).replay(point.policy, point.aggregation)


def recalibrate(point: OperatingPoint, before: Bank, after: Bank) -> OperatingPoint:
    """Set the threshold of a point again, so that quantised members give what was asked of it.

    Both banks are of the samples that the point was calibrated on, with all members and the same costs. Nothing but
    the threshold changes: it is read off the very samples that it was read off before, and what the policy has
    learned stays. So outputs that have not changed give the same point. Where nothing was asked, the mean number of
    members stays.
    """
    if isinstance(point.policy, Never) or len(point.members) == 1:
        return point
    try:
        old, new = (_calibrated_on(point, bank) for bank in (before, after))
        found = calibrate(new, point.policy, point.aggregation, _wish(point, old))
    except CalibrationError as error:
        raise CalibrationError(f"operating point {point.name} with int8 members: {error}") from error
    return replace(
        point,
        policy=found.policy,
        aggregation=found.aggregation,
        members=point.members[: len(found.members)],  # for a latency, a shorter cascade may now be better
        expected=_moved(point, old, found.expected) if point.expected else {},
        why=f"{point.why}; threshold set again on int8 outputs",
        scores=found.scores,
        date=found.date,
    )


def _calibrated_on(point: OperatingPoint, bank: Bank) -> Bank:
    """The bank of the samples that the point's threshold was read off, with the members it uses."""
    known = point.data
    if not known:
        return _timed(point, bank.members(point.members))
    named = {key: bank.about[key] for key in ("fingerprint", "split") if key in bank.about}
    if any(known[key] != value for key, value in named.items()):
        raise CalibrationError(
            "it was calibrated on other samples than the held-out ones of the run, and these would undo that: "
            "export it without int8, or another one by its name"
        )
    if "seed" in known:
        bank = split_for_promise(bank, known["seed"])[1]
    if len(bank) != known["samples"]:
        raise CalibrationError(
            f"it was calibrated on {known['samples']} samples, and nothing says which of the {len(bank)} here they "
            "were: calibrate it again"
        )
    return _timed(point, bank.members(point.members))


def _timed(point: OperatingPoint, bank: Bank) -> Bank:
    """The bank with the times of members that a latency was promised by."""
    times = point.expected.get("member_ms")
    if times is None:
        return bank
    return replace(bank, costs=tuple(replace(cost, ms=ms) for cost, ms in zip(bank.costs, times, strict=True)))


def _wish(point: OperatingPoint, bank: Bank) -> Wish:
    """What was asked of the point, with the unit and the confidence of what is expected of it."""
    if not point.asked:
        ran = bank.replay(point.policy, point.aggregation)
        return Wish(cost=float(ran.cost_in(bank.costs, "members").mean()))
    measure = {key: point.expected[key] for key in ("unit", "confidence") if key in point.expected}
    wish = Wish(**(point.asked | measure))
    if wish.promises and not point.data and point.policy.state_dict():
        raise CalibrationError(
            f"its {point.policy.name} policy may have learned from the very samples that a promise needs: "
            "calibrate an operating point, or ask for a cost"
        )
    return wish


def _moved(point: OperatingPoint, bank: Bank, now: dict[str, Any]) -> dict[str, Any]:
    """What is expected of the point after the change: what was expected before, moved by as much as samples show.

    A policy that learned from these very samples looks too good on them, before as after. What was expected of it is
    free of that, and so is the difference.
    """
    was = point.expected
    curve = frontier(bank, point.policy, point.aggregation, was["unit"])
    then = expected_figures(curve, point.policy.threshold, confidence=was["confidence"])
    figures = [key for key in ("accuracy", "mse", "drop") if key in was]
    intervals = {
        key: [a + (b - c) for a, b, c in zip(*(one["intervals"][key] for one in (was, now, then)), strict=True)]
        for key in figures
    }
    return {
        **now,
        **{key: was[key] + (now[key] - then[key]) for key in figures},
        "intervals": {**now["intervals"], **intervals},
    }
