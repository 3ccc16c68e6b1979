"""How many held-out samples do policies and thresholds need?

    python benchmarks/heldout_size.py [--draws 5]

On the committed banks of independent members. Of the 5,000 held-out images so many are drawn at random, temperatures
(and weights of unequal members), policies and thresholds are fitted on these alone, and test images are looked at:
accuracy at exactly the asked mean cost (see comparison.py), and what a threshold set for that cost really costs.
Averages are over runs and draws; the largest draw is all images, once.

Writes benchmarks/results/heldout_size.json and heldout_size.md, and prints the latter.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from statistics import fmean
from typing import Any

import torch
from documents import table, write_results
from ensembles import Setting, committed

from irene.bank import Bank
from irene.calibration.frontier import frontier
from irene.calibration.weights import fit_aggregation

SHOWN = ("three ResNet-18", "two ResNet-32, two ResNet-18")
SIZES = (100, 250, 500, 1000, 2500, 5000)
POLICIES = {"margin": "margin + temperature", "change": "change predictor", "selector": "selector"}


def draws(bank: Bank, size: int, count: int) -> Iterator[Bank]:
    if size == len(bank):
        yield bank
        return
    for seed in range(count):
        yield bank.rows(torch.randperm(len(bank), generator=torch.Generator().manual_seed(seed))[:size])


def look(setting: Setting, count: int) -> dict[str, Any]:
    """By size and policy: accuracy at the asked cost, and how far the realised cost is from it."""
    asked = setting.usual_cost * setting.unit_size
    found: dict[str, dict[str, Any]] = {}
    for size in SIZES:
        seen: dict[str, list[tuple[float, float]]] = {name: [] for name in POLICIES}
        for pair in setting.pairs:
            for known in draws(pair.heldout, size, count):
                mean = fit_aggregation(known, weights=setting.weights)
                for name, rows in seen.items():
                    policy = setting.fit(name, known, mean)
                    before, after = (frontier(bank, policy, mean, setting.unit) for bank in (known, pair.test))
                    realised = float(after.at(before.threshold_for(asked), after.costs_NT).mean())
                    rows.append((float(after.quality_at(asked).mean()), abs(realised - asked) / setting.unit_size))
        found[str(size)] = {name: summary(rows) for name, rows in seen.items()}
    return {"about": setting.said, "asked": setting.usual_cost, "sizes": found}


def summary(rows: list[tuple[float, float]]) -> dict[str, Any]:
    accuracies, misses = zip(*rows, strict=True)
    return {
        "fits": len(rows),
        "accuracy": fmean(accuracies),
        "worst": min(accuracies),
        "miss": fmean(misses),
        "miss_9_of_10": float(torch.tensor(misses, dtype=torch.float64).quantile(0.9)),
    }


def markdown(name: str, found: dict[str, Any]) -> str:
    heads = ["held-out samples", *(f"{said}: accuracy % (worst)" for said in POLICIES.values())]
    heads += [f"{said}: cost missed by (9 of 10 less than)" for said in POLICIES.values()]
    lines = []
    for size, by_policy in found["sizes"].items():
        cells = [f"{100 * row['accuracy']:.2f} ({100 * row['worst']:.2f})" for row in by_policy.values()]
        cells += [f"{row['miss']:.3f} ({row['miss_9_of_10']:.3f})" for row in by_policy.values()]
        lines.append([f"{int(size):,}", *cells])
    return f"#### {name}, asked for {found['asked']:g}\n\n{table(heads, lines)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5, help="of each size but the largest")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    settings = committed()
    results = {name: look(settings[name], arguments.draws) for name in SHOWN}
    write_results("heldout_size", results, [markdown(name, found) for name, found in results.items()])


if __name__ == "__main__":
    main()
