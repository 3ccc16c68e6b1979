"""A finished run with a point for every policy, for what exports it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from irene.bank import Bank
from irene.cascade import Cascade
from irene.data import Data, split
from irene.halting.change import ChangePredictor
from irene.halting.cost_to_go import CostToGo
from irene.halting.policies import (
    Agreement,
    Confidence,
    Entropy,
    Margin,
    Never,
    Patience,
    Spread,
    Window,
)
from irene.halting.policy import Stopper
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.halting.skipping import Router
from irene.models import Member, MemberSpec, build
from irene.run import Run
from irene.runtime.recalibrate import as_trained
from irene.types import Cost

AGGREGATION = Aggregation((1.0, 0.5, 2.0), (1.5, 0.8, 1.0))
COSTS = (Cost(flops=1.0), Cost(flops=2.0), Cost(flops=4.0))


def every_policy(bank: Bank) -> dict[str, Stopper]:
    """One of each registered policy that the task allows, fitted if it learns, with a threshold of the middle."""
    classes = bank.task == "classification"
    costs_T = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    selector = Selector(task=bank.task)
    for parameter in selector.parameters():
        torch.nn.init.uniform_(parameter, -1, 1)
    found: list[Stopper] = [Never(), selector]
    found.append(CostToGo.fit(bank.outputs, bank.targets, AGGREGATION, costs_T, task=bank.task))
    if classes:
        found += [Confidence(), Margin(), Entropy(), Agreement(), Patience(), Window(width=2)]
        found.append(ChangePredictor.fit(bank.outputs, AGGREGATION))
        found.append(Router.fit(bank.outputs, bank.targets, AGGREGATION, costs_T))
    else:
        found.append(Spread())
    at = {}
    for policy in found:
        scores = bank.trajectory(policy, AGGREGATION).scores_NT[:, 0]
        middle = float(scores[scores.isfinite()].median()) if bool(scores.isfinite().any()) else 0.5
        at[policy.name] = policy.at(middle + 1e-4)
    return at


def make_members(data: Data, heads: int = 2) -> list[Member]:
    spec = MemberSpec(backbone="mlp", shape=data.shape, outputs=data.outputs, heads=heads)
    return [build(spec, seed=seed).eval() for seed in range(3)]


def write_run(path: Path, data: Data, policy: Stopper, members: list[Member]) -> Run:
    """A finished run on some data, with a point for every policy."""
    splits = split(data, seed=0)
    about = {**splits.record, "classes": list(data.classes), "shape": list(data.shape)}
    run = Run.create(path, {"method": "average", "task": data.task, "seed": 0, "data": about})
    for member, cost in zip(members, COSTS, strict=True):
        run.save_member(member, cost)
    run.save_policy(policy)
    heldout = splits.heldout
    cascade = Cascade(members, policy, aggregation=AGGREGATION, costs=COSTS, task=data.task)
    assert heldout.inputs is not None
    run.save_bank("heldout", replace(Bank.of(cascade, heldout.inputs, heldout.targets), ids=heldout.ids))
    run.write(status="finished", aggregation=AGGREGATION.to_dict(), figures={})
    for name, one in every_policy(run.bank("heldout")).items():
        run.save_point(replace(as_trained(one, AGGREGATION, data.task), name=name))
    return run
