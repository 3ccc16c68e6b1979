"""Where a selector for frozen members should start, from what and how fast it should learn.

    python benchmarks/selector_start.py
    python benchmarks/selector_start.py --rates --small RUN... --large RUN... [--members 2 3]

The first compares a start as a threshold on the margin with one as a change predictor, on the committed banks of
independent members. The second compares learning rates on the first members of each --small run followed by those of
the --large run beside it, with a selector for each cost. Both have a selector that learns whether an answer changes.

Cross-validation on held-out samples alone: each third of them is answered by selectors fitted on the other two, read at
exactly the same mean cost (`Frontier.quality_at`). Gains over margin + temperature are in points of accuracy, with 95 %
intervals.

Writes benchmarks/results/selector_{start,rate}.{json,md} and prints the latter.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from comparison import gain, points
from documents import write_results
from ensembles import Setting, committed, unequal_setting
from torch import Tensor

from irene.bank import Bank
from irene.calibration.frontier import frontier
from irene.calibration.weights import fit_aggregation
from irene.halting.features import already_final
from irene.halting.policy import Policy
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.training import losses, selecting
from irene.training.afterwards import selector_fitter
from irene.types import Task

PARTS = 3
RATES = (0.01, selecting.FIT_RATE)
BASELINE = "margin + temperature"
AtCost = Callable[[float], Policy]  # the policy for a mean cost, which may be the same for all
Fit = Callable[[Setting, Bank, Aggregation], AtCost]


def for_all_costs(policy: str, setting: Setting, bank: Bank, mean: Aggregation) -> AtCost:
    fitted = setting.fit(policy, bank, mean)
    return lambda _: fitted


def from_margin(setting: Setting, bank: Bank, mean: Aggregation) -> AtCost:
    with patch.object(Selector, "start_as_change_predictor", lambda *_: None):
        return for_all_costs("selector", setting, bank, mean)


def changes(answers_BTK: Tensor, task: Task, scale_K: Tensor | None = None) -> Tensor:
    """Another regret: one where the label is not the whole ensemble's, plus the KL divergence."""
    whole_B1K, tiny = answers_BTK[:, -1:], 1e-8
    ratio_BTK = (whole_B1K.clamp_min(tiny) / answers_BTK.clamp_min(tiny)).log()
    return (~already_final(answers_BTK)).to(answers_BTK) + (whole_B1K * ratio_BTK).sum(2)


def of_changes(fit: Fit, setting: Setting, bank: Bank, mean: Aggregation) -> AtCost:
    """A selector that is fitted at once, or for each cost, by that other regret."""
    with patch.object(losses, "regret", changes):
        policy_at = fit(setting, bank, mean)

    def learned(cost: float) -> Policy:
        with patch.object(losses, "regret", changes):
            return policy_at(cost)

    return learned


def at_rate(rate: float, setting: Setting, bank: Bank, mean: Aggregation) -> AtCost:
    def fit(cost: float) -> Policy:
        with patch.object(selecting, "FIT_RATE", rate):
            return selector_fitter(cost=cost * setting.unit_size)(bank, mean, setting.unit)

    return fit


THRESHOLDS: dict[str, Fit] = {
    BASELINE: partial(for_all_costs, "margin"),
    "change predictor": partial(for_all_costs, "change"),
}
CHANGES = "selector that learns changes"
STARTS: dict[str, Fit] = {
    "selector that starts from the margin": from_margin,
    CHANGES: partial(of_changes, partial(for_all_costs, "selector")),
    "selector that starts as a change predictor": partial(for_all_costs, "selector"),
}
BY_RATE: dict[str, Fit] = {
    CHANGES: partial(of_changes, partial(at_rate, selecting.FIT_RATE)),
    **{f"selector, learning rate {rate:g}": partial(at_rate, rate) for rate in RATES},
}


def in_parts(bank: Bank) -> Iterator[tuple[Bank, Bank]]:
    """Two thirds to fit on and the third to look at, three times over."""
    parts = torch.randperm(len(bank), generator=torch.Generator().manual_seed(0)).tensor_split(PARTS)
    for number, part in enumerate(parts):
        others = torch.cat([other for place, other in enumerate(parts) if place != number])
        yield bank.rows(others), bank.rows(part)


def compare(setting: Setting, kinds: dict[str, Fit]) -> dict[str, Any]:
    right: dict[str, list[list[Tensor]]] = {kind: [[] for _ in setting.costs] for kind in kinds}
    for pair in setting.pairs:
        for known, fresh in in_parts(pair.heldout):
            mean = fit_aggregation(known, weights=setting.weights)
            for kind, fit in kinds.items():
                policy_at = fit(setting, known, mean)
                for parts, cost in zip(right[kind], setting.costs, strict=True):
                    curve = frontier(fresh, policy_at(cost), mean, setting.unit)
                    parts.append(curve.quality_at(cost * setting.unit_size))
    table = {kind: torch.stack([torch.cat(parts) for parts in by_cost]) for kind, by_cost in right.items()}
    base = table.pop(BASELINE)
    gains = {
        kind: [points(*both) for both in zip([*rows, rows.mean(0)], [*base, base.mean(0)], strict=True)]
        for kind, rows in table.items()
    }
    return {"about": setting.said, "costs": setting.costs, "accuracy": (100 * base.mean(1)).tolist(), "gains": gains}


def markdown(name: str, found: dict[str, Any]) -> str:
    costs = found["costs"]
    text = [f"#### {name}", "", f"| | {' | '.join(f'{cost:g}' for cost in costs)} | together |"]
    text += ["|---" * (len(costs) + 2) + "|"]
    text += [f"| {BASELINE} | {' | '.join(f'{value:.2f}' for value in found['accuracy'])} | |"]
    text += [f"| {kind} | {' | '.join(gain(one) for one in values)} |" for kind, values in found["gains"].items()]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", action="store_true", help="compare learning rates, on --small and --large")
    parser.add_argument("--small", type=Path, nargs="*", default=[])
    parser.add_argument("--large", type=Path, nargs="*", default=[])
    parser.add_argument("--members", type=int, nargs=2, default=[2, 3], help="how many of each small and large run")
    arguments = parser.parse_args()
    if bool(arguments.small) != arguments.rates or len(arguments.small) != len(arguments.large):
        parser.error("give --rates with --small RUN... and as many --large RUN..., or none of them")
    torch.set_num_threads(1)
    if arguments.rates:
        setting = unequal_setting(arguments.small, arguments.large, tuple(arguments.members))
        settings, kinds, name = {setting.said: setting}, BY_RATE, "selector_rate"
    else:
        settings, kinds, name = committed(), STARTS, "selector_start"
    results = {said: compare(setting, THRESHOLDS | kinds) for said, setting in settings.items()}
    write_results(name, results, [markdown(said, found) for said, found in results.items()])


if __name__ == "__main__":
    main()
