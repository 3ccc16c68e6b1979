"""fit_policy: when to stop, from a bank of held-out outputs and what is asked for."""

from __future__ import annotations

import torch

from irene.bank import Bank
from irene.calibration.fit import fit
from irene.calibration.selection import Fitted, Fitter, Learner, learner_of
from irene.calibration.weights import Weights, fit_aggregation
from irene.calibration.wishes import Wish
from irene.errors import OptionError
from irene.halting.policy import Stopper
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.point import OperatingPoint
from irene.training.afterwards import selector_fitter
from irene.types import CostUnit, differ_in_size


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

    `Wish` says what each of these means. `policy="auto"` takes the best by cross-validation and says why in
    `point.why`. `also` is one more policy for it to consider; where members differ in size that is a selector, unless
    another is given. A name fits that policy, a temperature for each member (unless `temperature=False`) and
    aggregation `weights`, these by default where members differ in size; with an `aggregation` neither is fitted. A
    function fits what it likes. A Policy that is fitted already, such as a trained selector, only gets a threshold:
    pass the `aggregation` it was fitted with unless that is the plain mean.

    Promises (p99, risk, guaranteed) are made with samples on which nothing was fitted: 40 % of the bank, drawn by
    `seed`, is for fitting and the rest for the promise. So is a drop of a policy that learns. A Policy fitted
    elsewhere gets all samples. Fewer than 10 samples are refused. A promise is void where its samples chose anything
    else: an `aggregation` or an order found on this bank, or the cheapest of several seeds.
    """
    if not isinstance(bank, Bank):
        raise OptionError(f"expected a bank of held-out outputs, got {type(bank).__name__}: make one with Bank.of")
    selector = Learner(Selector.name, selector_fitter(cost=cost, seed=seed))
    chosen: Learner | Stopper | None
    if policy == "auto":
        chosen = None
    elif policy == Selector.name:
        chosen = selector
    elif isinstance(policy, Stopper):
        chosen, temperature, weights = policy, False, False  # it was fitted with the mean that it is given
    else:
        chosen = learner_of(policy)
    wish = Wish(
        cost=cost, max_drop=max_drop, p99=p99, risk=risk, unit=unit, confidence=confidence, guaranteed=guaranteed
    )

    def average(rows: Bank) -> Aggregation:
        return aggregation or fit_aggregation(rows, temperature=temperature, weights=weights)

    if also is None and differ_in_size(bank.costs):
        also = selector
    with torch.inference_mode(False), torch.enable_grad():  # fitting takes gradients wherever it is called
        return fit(bank, chosen, wish, average=average, also=also, name=name, seed=seed)
