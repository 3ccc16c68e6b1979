"""A selector fitted after the fact: on saved outputs of members that were trained without one."""

from __future__ import annotations

import torch

from irene.bank import Bank
from irene.calibration.selection import Fitter
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.training import losses
from irene.training.checkpoint import Checkpoints
from irene.training.evidence import Evidence
from irene.training.loop import Loop, derive_seed
from irene.training.recorder import Recorder
from irene.training.selecting import Price, fit_selector
from irene.types import CostUnit, cost_vector

_SHARE = 0.15  # of the way from the first member to all of them: the mean cost to learn for where none is asked for
_PRICE = 0.1  # where dual ascent starts


def selector_fitter(*, cost: float | None = None, hidden: int = 8, epochs: int = 100, seed: int = 0) -> Fitter:
    """What fits IRENE's selector on a bank of held-out outputs, around a mean cost: pass it to `fit_policy`.

    point = fit_policy(bank, selector_fitter(cost=1.3), cost=1.3)
    """

    def fit(bank: Bank, aggregation: Aggregation, unit: CostUnit) -> Selector:
        device = torch.device("cpu")
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(seed, "selector"))
            selector = Selector(hidden=hidden, task=bank.task)
            scale_K = None if bank.task == "classification" else losses.error_unit(bank.targets)
            evidence = Evidence(
                bank.outputs,
                bank.targets,
                names=selector.features,
                task=bank.task,
                device=device,
                aggregation=aggregation,
                scale_K=scale_K,
            )
            costs_T = cost_vector(bank.costs, unit)
            asked = float(costs_T[0] + _SHARE * costs_T[1:].sum()) if cost is None else cost
            price = Price(costs_T, asked=asked, start=_PRICE, device=device)
            loop = Loop(device=device, seed=seed, recorder=Recorder(), checkpoints=Checkpoints(None))
            fit_selector(loop, selector, evidence, price, epochs=epochs)
        return selector.eval()

    return fit
