"""How a selector learns: the soft expected objective, and dual ascent toward the mean cost that was asked for."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from irene.data.loader import Batch
from irene.data.samples import Samples
from irene.devices import one_thread
from irene.halting import maths
from irene.halting.selector import Selector
from irene.training import losses
from irene.training.distributed import World
from irene.training.evidence import Evidence
from irene.training.loop import Loop
from irene.training.objective import Objective
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.schedules import Schedule

PRICE_STEP = 0.01  # of dual ascent: how fast the price moves with the cost's distance from the asked one
PRICE_DAMPING = 2.0  # how strongly that distance acts at once; without it the price swings for ever
PRICE_MOST = 10.0  # fifty times the mean regret: no member is worth more
FIT_RATE = 0.03  # learning rate on frozen members: at a third of it, unequal members of CIFAR-100 need more epochs
REACH = 0.01  # how far inside the reachable costs the asked one is kept, as a share of their range


class Price:
    """The price of one unit of cost, moved by dual ascent until the expected cost is the one asked for.

    The price may be negative: members are then run for the sake of the asked cost, where they gain the most.
    Costs are in units of the dearest member, so that one step size serves members, FLOPs and ms. Against
    windup, the asked cost is kept just inside what these members can reach, and the price within PRICE_MOST.
    """

    def __init__(
        self,
        costs_T: Tensor,
        *,
        asked: float | None,
        start: float,
        device: torch.device,
        world: World | None = None,
    ) -> None:
        self._world = world or World()
        unit = float(costs_T.max())
        self.costs_T = (costs_T / unit).to(device, torch.float32)
        self.asked = None
        if asked is not None:
            least, most = float(self.costs_T[0]), float(self.costs_T.sum())
            room = REACH * (most - least)
            self.asked = min(max(asked / unit, least + room), most - room)
        self.value = torch.tensor(start, device=device)

    def charge(self, p_BT: Tensor) -> Tensor:
        """The cost term of a batch (Eq. 11, times the price), after which the price has moved."""
        cost = losses.cost_loss(p_BT, self.costs_T[: p_BT.shape[1]])
        if self.asked is None:
            return self.value * cost
        excess = self._world.average(cost.detach().clone()) - self.asked  # one price for all processes
        self.value.add_(PRICE_STEP * excess).clamp_(-PRICE_MOST, PRICE_MOST)
        return (self.value + PRICE_DAMPING * excess) * cost


def expected_terms(
    logits_BT: Tensor, regret_BT: Tensor, price: Price, *, ensemble: float = 1.0, cost: float = 1.0
) -> dict[str, Tensor]:
    """E_p[regret at the halting step] + price * E_p[cost], each with its weight: no sampling, no collapse."""
    p_BT = maths.halting_distribution(maths.force_last(logits_BT.sigmoid()))
    return {
        "ensemble": ensemble * losses.expected_loss(p_BT, regret_BT),
        "cost": cost * price.charge(p_BT),
    }


class _Logits(nn.Module):
    """A selector as a model of the training loop: features of all steps in, halting logits out."""

    def __init__(self, selector: Selector) -> None:
        super().__init__()
        self.selector = selector

    def forward(self, features_BTF: Tensor) -> Tensor:
        return self.selector.halting_logits(features_BTF)


class _FitSelector(Objective):
    def __init__(self, evidence: Evidence, price: Price, ensemble: float, cost: float) -> None:
        self.evidence = evidence
        self.price = price
        self.ensemble = ensemble
        self.cost = cost

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        regret_BT = self.evidence.regret[batch.index]
        return expected_terms(output, regret_BT, self.price, ensemble=self.ensemble, cost=self.cost)

    def figures(self) -> dict[str, float]:
        return {"price": float(self.price.value)}

    def state(self) -> dict[str, Tensor]:
        return {"price": self.price.value}


def fit_selector(
    loop: Loop,
    selector: Selector,
    evidence: Evidence,
    price: Price,
    *,
    epochs: int = 100,
    ensemble: float = 1.0,
    cost: float = 1.0,
) -> None:
    """Train a new selector in place on evidence of members that stay as they are; a weight of 0 leaves a term out."""
    selector.to(loop.device).standardise(evidence.features)
    if evidence.task == "classification":
        selector.start_as_change_predictor(evidence.features, evidence.stays())
        with torch.no_grad():  # to the last digit the same in all processes
            for parameter in selector.parameters():
                loop.world.average(parameter)
    samples = Samples(
        inputs=evidence.features.cpu(),
        targets=torch.zeros(len(evidence), dtype=torch.int64),
        ids=torch.arange(len(evidence)),
    )
    batch_size = min(512, max(loop.world.size, len(evidence) // 4))
    optimizer = OptimizerOptions(kind="adam", lr=FIT_RATE, weight_decay=1e-4, schedule=Schedule(kind="cosine"))
    options = LoopOptions(epochs=epochs, batch_size=batch_size, optimizer=optimizer, precision="fp32")
    objective = _FitSelector(evidence, price, ensemble, cost)
    with one_thread():
        loop.fit("selector", _Logits(selector), objective, samples, options)
