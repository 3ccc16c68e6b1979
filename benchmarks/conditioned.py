"""A selector that is told the price of cost, against thresholds on one selector and against one fitted for each cost.

    python benchmarks/conditioned.py

On the committed banks of independent members. The conditioned selector has the logarithm of the price as one more
input; prices are drawn at random for every sample and step of its training, so that one selector holds the whole
frontier. For each cost the price is set on held-out samples. On test samples all are read at exactly the same mean cost
(see comparison.py). Gains are in points of accuracy with 95 % intervals.

Writes benchmarks/results/conditioned.json and conditioned.md, and prints the latter.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import torch
from comparison import gain, points
from documents import write_results
from ensembles import Pair, Setting, committed
from torch import Tensor, nn

from irene.bank import Bank
from irene.calibration.frontier import Frontier, frontier
from irene.calibration.weights import fit_aggregation
from irene.halting import maths
from irene.halting.features import FEATURES, already_final, feature_table
from irene.halting.linear import logistic
from irene.halting.quality import quality
from irene.halting.rule import Aggregation
from irene.halting.trajectory import Trajectory, nearest
from irene.training import losses
from irene.training.afterwards import selector_fitter
from irene.training.selecting import FIT_RATE
from irene.types import CostUnit, cost_vector

NAMES = FEATURES["classification"]
HIDDEN, EPOCHS, BATCH = 8, 100, 512  # those of the selector
LEAST, MOST = math.log(0.003), math.log(1.0)  # of the price, from all members to hardly more than one
PRICES = torch.linspace(LEAST, MOST, 40).tolist()
KINDS = {
    "one": "one selector, thresholds",
    "each": "a selector fitted for each cost",
    "conditioned": "one selector with the price as an input",
}


class Conditioned(nn.Module):
    """IRENE's selector with one more input; like it, it begins as a change predictor."""

    def __init__(self, features_NTF: Tensor, answers_NTK: Tensor) -> None:
        super().__init__()
        rows_MF = features_NTF.flatten(0, 1)
        self.mean_F = torch.cat([rows_MF.mean(0), torch.tensor([(LEAST + MOST) / 2])])
        self.std_F = torch.cat([rows_MF.std(0).clamp_min(1e-6), torch.tensor([(MOST - LEAST) / 12**0.5])])
        self.cell = nn.LSTMCell(len(self.mean_F), HIDDEN)
        self.out = nn.Linear(HIDDEN, 1)
        self.skip = nn.Linear(len(self.mean_F), 1, bias=False)
        with torch.no_grad():
            for parameter in (self.out.weight, self.skip.weight):
                parameter.zero_()
            stays_NT = already_final(answers_NTK)
            scaled_NTF = (features_NTF - self.mean_F[:-1]) / self.std_F[:-1]
            weight_F, bias = logistic(scaled_NTF[:, :-1].flatten(0, 1), stays_NT[:, :-1].flatten())
            self.skip.weight[0, :-1] = weight_F
            self.out.bias.fill_(bias)

    def forward(self, features_BTF: Tensor, price_B: Tensor) -> Tensor:
        """(B, T) halting logits at a logarithm of the price for each sample."""
        state, logits = None, []
        for features_BF in features_BTF.unbind(1):
            scaled_BF = (torch.cat([features_BF, price_B[:, None]], 1) - self.mean_F) / self.std_F
            state = self.cell(scaled_BF, state)
            logits.append((self.out(state[0]) + self.skip(scaled_BF))[:, 0])
        return torch.stack(logits, 1)


def fit(bank: Bank, mean: Aggregation, unit: CostUnit, seed: int) -> Conditioned:
    """E[regret] + price * E[cost] at prices drawn anew for every sample, with the selector's own schedule."""
    torch.manual_seed(seed)
    features_NTF, answers_NTK = feature_table(NAMES, bank.outputs, mean, bank.task)
    regret_NT = losses.regret(answers_NTK, bank.task)
    costs_T = cost_vector(bank.costs, unit)
    costs_T = costs_T / costs_T.max()
    model = Conditioned(features_NTF, answers_NTK)
    optimizer = torch.optim.AdamW(model.parameters(), lr=FIT_RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * (len(bank) // BATCH))
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(bank)).split(BATCH)[: len(bank) // BATCH]:
            price_B = torch.empty(len(rows)).uniform_(LEAST, MOST)
            p_BT = maths.halting_distribution(maths.force_last(model(features_NTF[rows], price_B).sigmoid()))
            cost = (price_B.exp() * maths.expected_cost(p_BT, costs_T)).mean()
            optimizer.zero_grad()
            (losses.expected_loss(p_BT, regret_NT[rows]) + cost).backward()
            optimizer.step()
            schedule.step()
    return model


@torch.no_grad()
def line(model: Conditioned, bank: Bank, mean: Aggregation, unit: CostUnit, price: float) -> Frontier:
    features_NTF, answers_NTK = feature_table(NAMES, bank.outputs, mean, bank.task)
    path = Trajectory(bank.task, model(features_NTF, torch.full((len(bank),), price)), answers_NTK)
    quality_NT = quality(answers_NTK, bank.targets, bank.task)
    return Frontier(path, path.costs(cost_vector(bank.costs, unit)), quality_NT, quality_NT[:, -1])


def answers(setting: Setting, pair: Pair, trained_for: float, seed: int) -> dict[str, dict[float, Tensor]]:
    """(N,) for each kind and cost: whether each test sample is right."""
    unit = setting.unit
    mean = fit_aggregation(pair.heldout, weights=setting.weights)
    one = frontier(
        pair.test, selector_fitter(cost=trained_for * setting.unit_size)(pair.heldout, mean, unit), mean, unit
    )
    model = fit(pair.heldout, mean, unit, seed)
    lines = [line(model, pair.heldout, mean, unit, price) for price in PRICES]
    spent = torch.tensor([float(curve.at(0.0, curve.costs_NT).mean()) for curve in lines])
    right: dict[str, dict[float, Tensor]] = {kind: {} for kind in KINDS}
    for cost in setting.costs:
        asked = cost * setting.unit_size
        each = selector_fitter(cost=asked)(pair.heldout, mean, unit)
        price = PRICES[nearest(spent, asked)]
        right["one"][cost] = one.quality_at(asked)
        right["each"][cost] = frontier(pair.test, each, mean, unit).quality_at(asked)
        right["conditioned"][cost] = line(model, pair.test, mean, unit, price).quality_at(asked)
    return right


def compare(setting: Setting, trained_for: float) -> dict[str, Any]:
    found = [answers(setting, pair, trained_for, seed) for seed, pair in enumerate(setting.pairs)]
    mean = {
        kind: torch.stack([torch.stack([run[kind][cost] for run in found]).mean(0) for cost in setting.costs])
        for kind in KINDS
    }
    gains = {}
    for kind, other in (("each", "one"), ("conditioned", "one"), ("conditioned", "each")):
        by_cost = [points(mean[kind][place], mean[other][place]) for place in range(len(setting.costs))]
        gains[f"{kind} - {other}"] = {"by cost": by_cost, "together": points(mean[kind].mean(0), mean[other].mean(0))}
    accuracy = {kind: (100 * rows.mean(1)).tolist() for kind, rows in mean.items()}
    return {"about": setting.said, "costs": setting.costs, "trained for": trained_for, **accuracy, "gains": gains}


def markdown(name: str, found: dict[str, Any]) -> str:
    costs = found["costs"]
    text = [f"#### {name}: {found['about']}; the one selector was fitted for {found['trained for']:g}", ""]
    text += [f"| | {' | '.join(f'{cost:g}' for cost in costs)} | together |", "|---" * (len(costs) + 2) + "|"]
    text += [f"| {said} | {' | '.join(f'{value:.2f}' for value in found[kind])} | |" for kind, said in KINDS.items()]
    for pair, values in found["gains"].items():
        kind, other = pair.split(" - ")
        cells = [gain(one) for one in (*values["by cost"], values["together"])]
        text.append(f"| {KINDS[kind]}, minus {KINDS[other]} | {' | '.join(cells)} |")
    return "\n".join(text)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(1)
    results = {name: compare(setting, setting.usual_cost) for name, setting in committed().items()}
    write_results("conditioned", results, [markdown(name, found) for name, found in results.items()])


if __name__ == "__main__":
    main()
