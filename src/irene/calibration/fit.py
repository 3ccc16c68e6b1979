"""From a bank of held-out outputs, a policy and a wish to an operating point."""

from __future__ import annotations

import torch
from torch import Tensor

from irene.bank import Bank
from irene.calibration.calibrate import calibrate
from irene.calibration.selection import (
    Averaging,
    Fitted,
    Learner,
    choose_policy,
    cross_validate,
    quality_at_cost,
)
from irene.calibration.wishes import Wish
from irene.errors import CalibrationError
from irene.halting.policy import Stopper
from irene.point import OperatingPoint

FEWEST = 10  # samples: with fewer, a single one decides what is set and what is expected
FEW = 100  # samples: with fewer, other ones may well stop elsewhere
_FIT_SHARE = 0.4  # of the samples, when a promise must be made with samples nothing was fitted on


def fit(
    bank: Bank,
    policy: Learner | Stopper | None,
    wish: Wish,
    *,
    average: Averaging,
    also: Fitted | Learner | None = None,
    name: str,
    seed: int,
) -> OperatingPoint:
    """Fit a policy, or with None the best of the usual ones and `also`, and set its threshold for the wish.

    `average` fits the mean of the members; a policy that is fitted already takes it on the whole bank.
    """
    wish.check_task(bank.task)
    if bank.gates is not None:
        raise CalibrationError("a gate chooses among these members: there is no threshold to calibrate")
    if bank.steps == 1:
        raise CalibrationError("a single member cannot stop early: give a bank of two members or more")
    if len(bank) < FEWEST:
        raise CalibrationError(
            f"{len(bank)} samples are too few to calibrate on, expected {FEWEST} or more: hold out or add more"
        )
    if isinstance(policy, Stopper):
        return calibrate(bank, policy, average(bank), wish, name=name, why=f"{policy.name}: as given, threshold set")

    apart = wish.promises or (wish.max_drop is not None and (policy is None or policy.learns))
    fitting, rest = split_for_promise(bank, seed) if apart else (bank, bank)
    drawn = seed if apart else None
    chosen, why = (policy, "") if policy else choose_policy(fitting, wish, average, seed=seed, also=also)
    if isinstance(chosen, Fitted):
        return calibrate(rest, *chosen, wish, name=name, why=why, drawn=drawn)

    def left_out(cost: float) -> Tensor:
        (judged_N,) = cross_validate(
            bank, [chosen], average, wish.unit, lambda curves: [quality_at_cost(curves[0], cost)], seed=seed
        )
        return judged_N

    mean = average(fitting)
    fitted = chosen.fit(fitting, mean, wish.unit)
    return calibrate(
        rest,
        fitted,
        mean,
        wish,
        name=name,
        why=why or f"{fitted.name}: as asked",
        left_out=left_out if chosen.learns and not apart else None,
        drawn=drawn,
    )


def split_for_promise(bank: Bank, seed: int) -> tuple[Bank, Bank]:
    """Samples for fitting and samples for the promise, drawn by a seed."""
    shuffled = torch.randperm(len(bank), generator=torch.Generator().manual_seed(seed))
    cut = int(_FIT_SHARE * len(bank))
    return bank.rows(shuffled[:cut].sort().values), bank.rows(shuffled[cut:].sort().values)
