"""Eleven halting policies, 200 thresholds each, on a bank of 10,000 samples and 3 members, on one core.

    python benchmarks/policy_speed.py

Prints JSON: the median over passes of the seconds to replay every policy at every threshold (mean cost and accuracy of
each), the seconds to fit those that learn, and the machine. The goal is under 2 seconds.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable

import torch

from irene.bank import Bank
from irene.calibration.weights import fit_aggregation
from irene.halting.change import ChangePredictor
from irene.halting.cost_to_go import CostToGo
from irene.halting.policies import Agreement, Confidence, Entropy, Margin, Never, Patience, Random, Window
from irene.halting.policy import Policy
from irene.halting.quality import quality
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.types import Cost

SAMPLES, MEMBERS, HEADS, CLASSES = 10_000, 3, 2, 10
THRESHOLDS = 200
PASSES = 5
GOAL = 2.0


def make_bank() -> Bank:
    """Members that are right most of the time, and surer when they are."""
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(CLASSES, (SAMPLES,), generator=generator)
    truth = 4 * torch.nn.functional.one_hot(targets, CLASSES) * torch.rand(SAMPLES, 1, generator=generator)
    noise = torch.randn(SAMPLES, MEMBERS, HEADS, CLASSES, generator=generator)
    return Bank(
        task="classification",
        outputs=truth[:, None, None] + noise,
        targets=targets,
        ids=torch.arange(SAMPLES),
        costs=(Cost(),) * MEMBERS,
    )


def sweep(bank: Bank, policy: Policy, aggregation: Aggregation) -> None:
    """Mean cost and accuracy at each threshold."""
    path = bank.trajectory(policy, aggregation)
    scores = path.scores_NT[:, :-1]
    scores = scores[scores.isfinite()]
    low, high = (float(scores.min()), float(scores.max())) if len(scores) else (0.0, 1.0)
    thresholds = torch.linspace(low, high, THRESHOLDS)
    path.sweep(thresholds, path.costs(torch.ones(MEMBERS, dtype=torch.float64)))
    path.sweep(thresholds, quality(path.means_NTK, bank.targets, bank.task))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(1)
    bank = make_bank()
    aggregation = fit_aggregation(bank)
    costs = torch.ones(MEMBERS, dtype=torch.float64)
    policies: list[Policy] = [
        *(Never(), Confidence(), Margin(), Entropy(), Agreement(), Patience(), Window(), Random(), Selector().eval()),
        ChangePredictor.fit(bank.outputs, aggregation),
        CostToGo.fit(bank.outputs, bank.targets, aggregation, costs),
    ]
    fit_seconds = {
        "temperatures": seconds(lambda: fit_aggregation(bank)),
        "change": seconds(lambda: ChangePredictor.fit(bank.outputs, aggregation)),
        "cost-to-go": seconds(lambda: CostToGo.fit(bank.outputs, bank.targets, aggregation, costs)),
    }
    passes = [
        {policy.name: seconds(lambda policy=policy: sweep(bank, policy, aggregation)) for policy in policies}
        for _ in range(PASSES + 1)
    ][1:]  # the first warms up
    total = statistics.median(sum(one.values()) for one in passes)
    each = {policy.name: statistics.median(one[policy.name] for one in passes) for policy in policies}
    report = {
        "benchmark": "policies",
        "samples": SAMPLES,
        "members": MEMBERS,
        "classes": CLASSES,
        "policies": len(policies),
        "thresholds": THRESHOLDS,
        "seconds": round(total, 4),
        "goal_seconds": GOAL,
        "reached": total < GOAL,
        "seconds_each": {name: round(value, 4) for name, value in each.items()},
        "fit_seconds": {name: round(value, 4) for name, value in fit_seconds.items()},
        "machine": {"processor": platform.processor() or platform.machine(), "threads": 1, "torch": torch.__version__},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
