"""Every halting policy at a ladder of costs, on equal and on unequal members, against margin + temperature.

    python benchmarks/policy_table.py --equal RUN... --small RUN... --large RUN... [--members 2]

Each RUN is a folder with banks/heldout.safetensors and banks/test.safetensors. The equal members are those of each
--equal run. The unequal ones are the first two of a --small run followed by the first two of the --large run beside it,
which must have the same samples; their costs are counted in FLOPs of one large member.

Everything is fitted on held-out samples: temperatures (and weights of unequal members), policies, orders. On test, each
policy is read at exactly the same mean cost, for which its scores are looked at and no label is, so that a policy does
not win by spending more. Gains are in points of accuracy; runs are averaged for each test sample before samples are
drawn for the 95 % interval. What the thresholds set on held-out samples cost on test stands in the JSON file.

Writes benchmarks/results/policies.json and policies.md, and prints the latter.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean as mean_of
from typing import Any

import torch
from comparison import gain, points
from documents import table, write_results
from ensembles import Pair, Setting, equal_setting, unequal_setting
from torch import Tensor

from irene.calibration.frontier import Frontier, frontier
from irene.calibration.order import best_order
from irene.calibration.selection import fit_named
from irene.calibration.weights import fit_aggregation
from irene.halting.policies import Oracle
from irene.halting.rule import Aggregation
from irene.training.afterwards import selector_fitter

BASELINE = "margin"
PLAIN = ("confidence", "entropy", "agreement", "patience", "window", "change", "cost-to-go", "random")
SKIPPING = "skipping"
ORDERS = ("best fixed order, margin", "best fixed order, selector")  # members and order searched for at each cost


@dataclass(frozen=True)
class Curve:
    """A policy on held-out and on test samples."""

    heldout: Frontier
    test: Frontier


def main() -> None:
    arguments = parse()
    torch.set_num_threads(1)
    settings = [equal_setting(arguments.equal)] if arguments.equal else []
    if arguments.small:
        settings.append(unequal_setting(arguments.small, arguments.large, (arguments.members,) * 2))
    results = {setting.name: compare(setting) for setting in settings}
    write_results("policies", results, [markdown(setting, results[setting.name]) for setting in settings])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--equal", type=Path, nargs="*", default=[])
    parser.add_argument("--small", type=Path, nargs="*", default=[])
    parser.add_argument("--large", type=Path, nargs="*", default=[])
    parser.add_argument("--members", type=int, default=2, help="how many of each small and each large run")
    arguments = parser.parse_args()
    if len(arguments.small) != len(arguments.large):
        parser.error("give as many --large runs as --small ones")
    return arguments


def compare(setting: Setting) -> dict[str, Any]:
    """Accuracy of every policy at every cost, and its gain over the baseline."""
    names = [BASELINE, f"{BASELINE} without temperature", *PLAIN, "selector"]
    if setting.weights:
        names += [SKIPPING, *ORDERS]
    right: dict[str, dict[float, list[Tensor]]] = {name: {cost: [] for cost in setting.costs} for name in names}
    realised: dict[str, dict[float, list[float]]] = {name: {cost: [] for cost in setting.costs} for name in names}
    for pair in setting.pairs:
        for name, cost, curve in curves(setting, pair, names):
            asked = cost * setting.unit_size
            right[name][cost].append(curve.test.quality_at(asked))
            spent = float(curve.test.at(curve.heldout.threshold_for(asked), curve.test.costs_NT).mean())
            realised[name][cost].append(spent / setting.unit_size)
    mean = {name: {cost: torch.stack(parts).mean(0) for cost, parts in by.items()} for name, by in right.items()}
    rows = {name: row(setting, mean[name], mean[BASELINE], realised[name]) for name in names}
    found: dict[str, Any] = {"about": setting.said, "policies": rows, **bounds(setting)}
    if SKIPPING in names:
        found["skipping against"] = {
            name: row(setting, mean[SKIPPING], mean[name], realised[SKIPPING]) for name in ORDERS
        }
    return found


def curves(setting: Setting, pair: Pair, names: Sequence[str]) -> Iterator[tuple[str, float, Curve]]:
    """(policy, cost, what it does on held-out and test samples); only some policies are fitted for each cost anew."""
    mean = fit_aggregation(pair.heldout, weights=setting.weights)
    cold = fit_aggregation(pair.heldout, temperature=False, weights=setting.weights)

    def curve(policy: Any, aggregation: Aggregation, order: Sequence[int] | None = None) -> Curve:
        banks = [bank if order is None else bank.members(order) for bank in (pair.heldout, pair.test)]
        return Curve(*(frontier(bank, policy, aggregation, setting.unit) for bank in banks))

    for name in names:
        fixed = None
        if name == f"{BASELINE} without temperature":
            fixed = curve(fit_named(BASELINE, pair.heldout, cold, setting.unit), cold)
        elif name != "selector" and name not in ORDERS:
            fixed = curve(fit_named(name, pair.heldout, mean, setting.unit), mean)
        for cost in setting.costs:
            asked = cost * setting.unit_size
            learn = selector_fitter(cost=asked)
            if fixed is not None:
                yield name, cost, fixed
            elif name == "selector":
                yield name, cost, curve(learn(pair.heldout, mean, setting.unit), mean)
            else:
                best = best_order(pair.heldout, unit=setting.unit, cost=asked, weights=setting.weights)
                used = pair.heldout.members(best.order)
                fit = learn if name.endswith("selector") and len(best.order) > 1 else partial(fit_named, BASELINE)
                yield name, cost, curve(fit(used, best.aggregation, setting.unit), best.aggregation, best.order)


def row(
    setting: Setting, right: dict[float, Tensor], against: dict[float, Tensor], realised: dict[float, list[float]]
) -> dict[str, Any]:
    """Accuracy, gain with its interval, and realised cost at each cost, and the gain over the cheap ones together."""
    found: dict[str, Any] = {}
    for cost in setting.costs:
        found[f"{cost:g}"] = {
            "accuracy": float(right[cost].mean()),
            "gain": points(right[cost], against[cost]),
            "cost with the held-out threshold": realised[cost],
        }
    cheap = [cost for cost in setting.costs if cost <= (1.3 if setting.unit == "members" else 0.5)]
    together = [torch.stack([one[cost] for cost in cheap]).mean(0) for one in (right, against)]
    found["cheap"] = {"costs": cheap, "gain": points(*together)}
    return found


def bounds(setting: Setting) -> dict[str, Any]:
    """What one member, all members and an oracle give."""
    single, whole, oracle, oracle_cost = [], [], [], []
    for pair in setting.pairs:
        mean = fit_aggregation(pair.heldout, weights=setting.weights)
        path = frontier(pair.test, fit_named(BASELINE, pair.heldout, mean, setting.unit), mean, setting.unit)
        single.append(float(path.quality_NT[:, 0].mean()))
        whole.append(float(path.full_N.mean()))
        knowing = pair.test.replay(Oracle(pair.test.targets), mean)
        oracle.append(float((knowing.labels == pair.test.targets).double().mean()))
        oracle_cost.append(float(knowing.cost_in(pair.test.costs, setting.unit).mean()) / setting.unit_size)
    return {
        "first member": mean_of(single),
        "all members": mean_of(whole),
        "oracle": {"accuracy": mean_of(oracle), "cost": mean_of(oracle_cost)},
    }


def markdown(setting: Setting, found: dict[str, Any]) -> str:
    """Accuracy of the baseline and gains of the others, a gain in bold where its interval leaves out zero."""
    heads = [f"{cost:g}" for cost in setting.costs]
    oracle = found["oracle"]
    about = (
        f"First member {found['first member']:.2%}, all members {found['all members']:.2%}, oracle "
        f"{oracle['accuracy']:.2%} at cost {oracle['cost']:.2f}. Accuracy of {BASELINE} + temperature, then gains over "
        "it in points with 95 % intervals."
    )
    lines = []
    for name, cells in found["policies"].items():
        if name == BASELINE:
            shown = [f"{cells[head]['accuracy']:.2%}" for head in heads] + [""]
        else:
            shown = [gain(cells[head]["gain"]) for head in (*heads, "cheap")]
        lines.append([name, *shown])
    for name, against in found.get("skipping against", {}).items():
        shown = [gain(against[head]["gain"]) for head in (*heads, "cheap")]
        lines.append([f"*skipping minus {name}*", *shown])
    costs = found["policies"][BASELINE]["cheap"]["costs"]
    all_heads = ["policy", *heads, f"{costs[0]:g} to {costs[-1]:g} together"]
    return f"### {setting.said}\n\n{about}\n\n{table(all_heads, lines)}"


if __name__ == "__main__":
    main()
