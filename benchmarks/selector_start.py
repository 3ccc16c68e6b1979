"""Where a selector for frozen members should start: as a threshold on the margin, or as a change predictor.

    python benchmarks/selector_start.py

Cross-validation on held-out samples alone: each third of them is answered by selectors fitted on the other two, read at
exactly the same mean cost (see comparison.py). On the committed banks of independent members. Gains over margin +
temperature are in points of accuracy, with 95 % intervals.

Writes benchmarks/results/selector_start.json and selector_start.md, and prints the latter.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import torch
from comparison import at_cost, gain, points
from documents import write_results
from ensembles import Setting, committed
from torch import Tensor

from irene.bank import Bank
from irene.calibration.frontier import frontier
from irene.calibration.weights import fit_aggregation
from irene.halting.policy import Policy
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector

PARTS = 3
KINDS = {
    "margin": "margin + temperature",
    "change": "change predictor",
    "from margin": "selector that starts from the margin",
    "from change": "selector that starts as a change predictor",
}


def in_parts(bank: Bank) -> Iterator[tuple[Bank, Bank]]:
    """Two thirds to fit on and the third to look at, three times over."""
    parts = torch.randperm(len(bank), generator=torch.Generator().manual_seed(0)).tensor_split(PARTS)
    for number, part in enumerate(parts):
        others = torch.cat([other for place, other in enumerate(parts) if place != number])
        yield bank.rows(others), bank.rows(part)


def fitted(kind: str, bank: Bank, mean: Aggregation, setting: Setting) -> Policy:
    if kind in ("margin", "change"):
        return setting.fit(kind, bank, mean)
    from_margin = patch.object(Selector, "start_as_change_predictor", lambda *_: None)
    with from_margin if kind == "from margin" else nullcontext():
        return setting.fit("selector", bank, mean)


def compare(setting: Setting) -> dict[str, Any]:
    right: dict[str, list[list[Tensor]]] = {kind: [[] for _ in setting.costs] for kind in KINDS}
    for pair in setting.pairs:
        for known, fresh in in_parts(pair.heldout):
            mean = fit_aggregation(known, weights=setting.weights)
            for kind, by_cost in right.items():
                curve = frontier(fresh, fitted(kind, known, mean, setting), mean, setting.unit)
                for parts, cost in zip(by_cost, setting.costs, strict=True):
                    parts.append(at_cost(curve, cost * setting.unit_size))
    table = {kind: torch.stack([torch.cat(parts) for parts in by_cost]) for kind, by_cost in right.items()}
    base = table["margin"]
    gains = {
        kind: [points(*both) for both in zip([*rows, rows.mean(0)], [*base, base.mean(0)], strict=True)]
        for kind, rows in table.items()
        if kind != "margin"
    }
    return {"about": setting.said, "costs": setting.costs, "accuracy": (100 * base.mean(1)).tolist(), "gains": gains}


def markdown(name: str, found: dict[str, Any]) -> str:
    costs = found["costs"]
    text = [f"#### {name}", "", f"| | {' | '.join(f'{cost:g}' for cost in costs)} | together |"]
    text += ["|---" * (len(costs) + 2) + "|"]
    text += [f"| {KINDS['margin']} | {' | '.join(f'{value:.2f}' for value in found['accuracy'])} | |"]
    text += [
        f"| {KINDS[kind]} | {' | '.join(gain(one) for one in values)} |" for kind, values in found["gains"].items()
    ]
    return "\n".join(text)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(1)
    results = {name: compare(setting) for name, setting in committed().items()}
    write_results("selector_start", results, [markdown(name, found) for name, found in results.items()])


if __name__ == "__main__":
    main()
