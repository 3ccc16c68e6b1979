"""What pages written by hand say of the study is what results.json says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).parents[2]
STUDY = json.loads((ROOT / "benchmarks/paper/results.json").read_text())
DATASETS = ("cifar10", "cifar100")
SHORT = ("resnet18", 30)  # backbone and epochs


def text(name: str) -> str:
    return " ".join((ROOT / name).read_text().split())


def one_small(cascade: dict[str, Any]) -> bool:
    return sum(name != "resnet18" for name in cascade["members"]) == 1


def two_resnet32(cascade: dict[str, Any]) -> bool:
    return bool(cascade["members"] == ["resnet32"] * 2 + ["resnet18"] * 3)


def three_thin(cascade: dict[str, Any]) -> bool:
    return bool(cascade["whole_run"])


def cascades(dataset: str, *kinds: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """Those of 60 epochs and three seeds."""
    alike = [one for one in STUDY["small_first"] if (one["dataset"], one["epochs"], one["seeds"]) == (dataset, 60, 3)]
    return [one for one in alike if any(kind(one) for kind in kinds)]


def gains(dataset: str, *kinds: Callable[[dict[str, Any]], bool]) -> str:
    """From the least to the most that a selector gains on a margin at 0.2 to 0.5 of one ResNet-18."""
    points = [one["policies"]["selector"] for one in cascades(dataset, *kinds)]
    found = [about["gain"][0] for by_cost in points for cost, about in by_cost.items() if 0.2 <= float(cost) <= 0.5]
    return f"{min(found):.1f} to {max(found):.1f}"


def test_the_readme_tells_what_learned_halting_gains() -> None:
    ten, hundred = ([gains(name, two_resnet32, three_thin), gains(name, one_small)] for name in DATASETS)
    said = text("README.md")
    assert f"it gains {ten[0]} on CIFAR-10 and {hundred[0]} on CIFAR-100 with two ResNet-32" in said
    assert f"and {ten[1]} and {hundred[1]} with one small network." in said


def test_small_first_tells_what_learned_halting_gains_and_a_linear_policy_loses() -> None:
    (two, also), (three, too) = ([gains(name, kind) for name in DATASETS] for kind in (two_resnet32, three_thin))
    said = text("docs/small-first.md")
    assert f"by {two} points on CIFAR-10 and by {also} on CIFAR-100 with two ResNet-32" in said
    assert f"by {three} and {too} with three thin ones" in said
    lost = [
        100 * fmean(one["accuracy"] - other["accuracy"] for one, other in zip(*both, strict=True))
        for cascade in cascades("cifar100", two_resnet32, three_thin)
        for both in [[cascade["policies"][name].values() for name in ("selector", "cost-to-go")]]
    ]
    assert f"is as good on CIFAR-10 and {min(lost):.2f} to {max(lost):.2f} points behind on CIFAR-100" in said


def test_the_page_on_the_paper_tells_what_going_on_is_worth() -> None:
    def mean(dataset: str, method: str) -> float:
        alike = [row for row in STUDY["rows"] if (row["dataset"], row["backbone"], row["epochs"]) == (dataset, *SHORT)]
        found = [100 * row["accuracy"] for row in alike if row["method"] == method]
        assert len(found) == 3
        return fmean(found)

    ten, hundred = (mean(name, "irene at 1.3 going on") - mean(name, "irene at 1.3") for name in DATASETS)
    said = text("docs/paper.md")
    assert f"worth {ten:.2f} points on CIFAR-10 (" in said
    assert f") and {hundred:.2f} on CIFAR-100 (" in said
