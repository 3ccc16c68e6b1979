"""fit_policy: from a bank of held-out outputs and a wish to an operating point."""

from __future__ import annotations

import torch
from torch import Tensor

from irene.bank import Bank
from irene.calibration.calibrate import calibrate
from irene.calibration.selection import (
    Fitted,
    Fitter,
    Learner,
    choose_policy,
    cross_validate,
    learner_of,
    quality_at_cost,
)
from irene.calibration.targets import Target
from irene.calibration.weights import Weights, fit_aggregation
from irene.errors import CalibrationError, OptionError
from irene.halting.policy import Stopper
from irene.halting.rule import Aggregation
from irene.point import OperatingPoint
from irene.types import CostUnit

FEWEST = 10  # samples: with fewer, a single one decides what is set and what is expected
FEW = 100  # samples: with fewer, other ones may well stop elsewhere
_FIT_SHARE = 0.4  # of the samples, when a promise must be made with samples nothing was fitted on


def fit_policy(
    bank: Bank,
    policy: str | Stopper | Fitter = "auto",
    *,
    cost: float | None = None,
    unit: CostUnit = "members",
    max_drop: float | None = None,
    p99: float | None = None,
    risk: float | None = None,
    confidence: float = 0.9,
    guaranteed: bool = False,
    temperature: bool = True,
    weights: Weights = None,
    aggregation: Aggregation | None = None,
    also: Fitted | Learner | None = None,
    name: str = "calibrated",
    seed: int = 0,
) -> OperatingPoint:
    """Fit a policy on held-out outputs and set its threshold for what is asked: cost, max_drop, p99 or risk.

        point = fit_policy(bank, cost=1.3)
        point.cascade(members).predict(inputs)

    What each target means stands in `Target`. `policy="auto"` takes the best by cross-validation and says why in
    `point.why`; `also` is one more policy for it to consider. A name fits that policy, a temperature for each member
    (unless `temperature=False`) and aggregation `weights`, these by default where members differ in size; with an
    `aggregation` neither is fitted. A function fits what it likes, such as `selector_fitter` in
    `irene.training.afterwards`. A Policy that is fitted already, such as a trained selector, only gets a threshold:
    pass the `aggregation` it was fitted with unless that is the plain mean.

    Promises (p99, risk, guaranteed) are made with samples on which nothing was fitted: 40 % of the bank, drawn by
    `seed`, is for fitting and the rest for the promise. So is a drop of a policy that learns. A Policy fitted
    elsewhere gets all samples. Fewer than 10 samples are refused. A promise is void where its samples chose anything
    else: an `aggregation` or an order found on this bank, or the cheapest of several seeds.
    """
    if not isinstance(bank, Bank):
        raise OptionError(f"expected a bank of held-out outputs, got {type(bank).__name__}: make one with Bank.of")
    target = Target(
        cost=cost, max_drop=max_drop, p99=p99, risk=risk, unit=unit, confidence=confidence, guaranteed=guaranteed
    )
    target.check_task(bank.task)
    if bank.gates is not None:
        raise CalibrationError("a gate chooses among these members: there is no threshold to calibrate")
    if bank.steps == 1:
        raise CalibrationError("a single member cannot stop early: give a bank of two members or more")
    if len(bank) < FEWEST:
        raise CalibrationError(
            f"{len(bank)} samples are too few to calibrate on, expected {FEWEST} or more: hold out or bring more"
        )
    if isinstance(policy, Stopper):
        mean = aggregation or Aggregation.equal(bank.steps)
        return calibrate(bank, policy, mean, target, name=name, why=f"{policy.name}: as given, threshold set")

    def average(rows: Bank) -> Aggregation:
        return aggregation or fit_aggregation(rows, temperature=temperature, weights=weights)

    asked = None if policy == "auto" else learner_of(policy)
    apart = target.promises or (target.max_drop is not None and (asked is None or asked.learns))
    fitting, rest = split_for_promise(bank, seed) if apart else (bank, bank)
    drawn = seed if apart else None
    chosen, why = (asked, "") if asked else choose_policy(fitting, target, average, seed=seed, also=also)
    if isinstance(chosen, Fitted):
        return calibrate(rest, *chosen, target, name=name, why=why, drawn=drawn)

    def left_out(cost: float) -> Tensor:
        (judged_N,) = cross_validate(
            bank, [chosen], average, unit, lambda curves: [quality_at_cost(curves[0], cost)], seed=seed
        )
        return judged_N

    mean = average(fitting)
    fitted = chosen.fit(fitting, mean, unit)
    return calibrate(
        rest,
        fitted,
        mean,
        target,
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
