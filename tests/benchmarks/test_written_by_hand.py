"""What pages written by hand say of the study is what results.json says."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from names import IRENE, PAPER_EPOCHS, PLAIN, SHORT_EPOCHS, WARM
from pages.facts import facts
from pages.latency_text import load_files
from pages.rows import best_cascades, mean_of, select, taught_alone

ROOT = Path(__file__).parents[2]
STUDY = json.loads((ROOT / "benchmarks/paper/results.json").read_text())
BEYOND = json.loads((ROOT / "benchmarks/results/beyond.json").read_text())
DATASETS = ("cifar10", "cifar100")


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


def short(dataset: str, backbone: str, method: str, seeds: int = 3) -> float:
    """Mean accuracy in % of a method after the short schedule."""
    found = select(STUDY["rows"], dataset, backbone, SHORT_EPOCHS, method)
    assert len(found) == seeds
    return 100 * mean_of(found, "accuracy")


def test_pages_tell_what_a_warm_start_is_worth() -> None:
    warm = {where: short(*where, WARM) for where in itertools.product(DATASETS, ("resnet18", "resnet32"))}
    ten, hundred = (warm[name, "resnet18"] - short(name, "resnet18", IRENE) for name in DATASETS)
    said = text("docs/paper.md")
    assert f"worth {ten:.2f} points on CIFAR-10 (" in said
    assert f") and {hundred:.2f} on CIFAR-100 (" in said
    known = [where for where in warm if where != ("cifar10", "resnet18")]
    fge = "fge last first, margin + temperature at 1.3"
    thin, wide, thick = (warm[where] - short(*where, fge, seeds=2) for where in known)
    assert f"{-thin:.2f} points ahead with ResNet-32 on CIFAR-10, and {wide:.2f} and {thick:.2f} behind with" in said
    design = text("docs/design.md")
    assert (
        f"it gains {thin:.2f} points with ResNet-32 on CIFAR-10, {wide:+.2f} and {thick:+.2f} with ResNet-18" in design
    )
    for backbone in ("resnet18", "resnet32"):
        two = [f"{warm[name, backbone]:.2f}" for name in DATASETS]
        averaged = [f"{short(name, backbone, 'average'):.2f}" for name in DATASETS]
        assert two[0] in design
        assert two[1] in design
        assert f"averaged {averaged[0]} and {averaged[1]}" in design
    longest = [select(STUDY["rows"], "cifar10", "resnet18", PAPER_EPOCHS, method) for method in (WARM, PLAIN)]
    ours, plain = (f"{100 * row['accuracy']:.2f}" for (row,) in longest)
    assert f"{ours} % at 1.3 members, independent ones with a threshold {plain})" in design


@pytest.fixture(scope="module")
def fact() -> Callable[[str], float]:
    """A number of the results page by its name there: of a span its lower end, of a count its part of the whole."""
    found = facts(STUDY, BEYOND, load_files())

    def number(name: str) -> float:
        first, *more = map(float, re.findall(r"[-+]?[\d.]+", found[name].replace(",", "")))
        return first / more[0] if " of " in found[name] else first

    return number


Fact = Callable[[str], float]


def test_the_readme_says_at_which_cost_one_network_is_beaten(fact: Fact) -> None:
    said = text("README.md")
    assert "On CIFAR that holds at a fifth of one ResNet-18's FLOPs when the large members teach the small ones" in said
    assert "and on CIFAR-10 at 0.3 when all members are trained independently" in said
    best, *_, (plain, _) = best_cascades(STUDY["small_first"], DATASETS)
    assert all(lowest(one, "0.2") > fact(f"single-{one['dataset']}") for one in best)
    assert lowest(plain, "0.25") < fact("single-cifar10") < lowest(plain, "0.3")


def lowest(cascade: dict[str, Any], cost: str) -> float:
    """The lower end of the interval of what a cascade reaches with a selector, in %."""
    return 100 * float(cascade["policies"]["selector"][cost]["low"])


def test_a_thin_network_that_was_taught_is_by_itself_as_accurate_as_one_large_one(fact: Fact) -> None:
    assert "the widest of the three, alone, is as accurate as one ResNet-18 of 60 epochs" in text("README.md")
    for cascade in best_cascades(STUDY["small_first"], DATASETS)[0]:
        widest = taught_alone(STUDY, cascade)[-1]
        assert (widest["backbone"], f"{widest['flops']:.2f}") == ("resnet18x0.5", "0.25")
        assert f"{100 * widest['accuracy']:.2f}" == facts(STUDY, BEYOND, load_files())[f"alone-{cascade['dataset']}"]
        assert 0 <= 100 * widest["accuracy"] - fact(f"single-{cascade['dataset']}") < 0.25


def test_small_first_tells_what_the_cascade_and_its_widest_small_member_have(fact: Fact) -> None:
    ten, hundred = (
        [f"{fact(name):.2f}" for name in (f"best-{one}-0.25", f"single-{one}", f"alone-{one}", f"plain-{one}-0.25")]
        for one in DATASETS
    )
    said = text("docs/small-first.md")
    assert f"this has {hundred[0]} % accuracy on CIFAR-100, where one ResNet-18 has {hundred[1]}, its own" in said
    assert f"`resnet18x0.5` alone {hundred[2]}, and a cascade" in said
    assert f"two independent ResNet-32 in front {hundred[3]}." in said
    assert f"it has {ten[0]} % there (one ResNet-18: {ten[1]}, its `resnet18x0.5` alone: {ten[2]})" in said
    assert f"from 0.4 on as much as three independent ResNet-18 averaged ({fact('three-cifar10'):.2f})" in said
    assert fact("as-three-cifar10") == 0.4
    averaged = [f"{100 * one['averaged']['accuracy']:.2f}" for one in STUDY["teachers"]]
    assert f"({averaged[0]} %, independent ones {fact('three-cifar10'):.2f})" in said
    assert f"({averaged[1]} and {fact('three-cifar100'):.2f}, three seeds)" in said


def test_starting_small_pays_and_matches_three_where_the_results_say_so(fact: Fact) -> None:
    for dataset in DATASETS:
        assert fact(f"best-{dataset}-0.25") > fact(f"single-{dataset}")
        assert fact(f"plain-{dataset}-0.5") > fact(f"single-{dataset}")
    assert fact("as-three-cifar10") < 0.5 < fact("as-three-cifar100") < 1


def test_one_network_that_trained_longer_is_between_the_cascade_at_a_quarter_and_at_half(fact: Fact) -> None:
    for name in DATASETS:
        assert fact(f"best-{name}-0.25") < fact(f"long-single-{name}") < fact(f"best-{name}-0.5")


def test_the_widest_small_one_gains_by_teaching_and_by_time(fact: Fact) -> None:
    for name in DATASETS:
        assert fact(f"untaught-{name}") < fact(f"taught-{name}") < fact(f"alone-{name}")


def test_time_follows_on_a_cpu_and_less_on_a_gpu(fact: Fact) -> None:
    assert fact("cpu-time") < 0.6
    assert fact("cpu-accuracy") > fact("cpu-single")
    assert fact("gpu-least") > 0.5
    assert fact("gpu-most") > 1


def test_a_threshold_of_held_out_images_mostly_costs_more_than_asked(fact: Fact) -> None:
    assert fact("dearer") < 0
    assert fact("dearer-in") > 0.9


def test_learned_stopping_pays_on_unequal_members_and_hardly_on_equal_ones(fact: Fact) -> None:
    assert fact("unequal-ahead") > 0.8 * fact("unequal-cases")
    assert fact("equal-ahead") <= 0.2 * fact("equal-cases")
    assert 0 < fact("joint-ahead") < 0.5 * fact("joint-cases")
    assert fact("warm-ahead") == fact("warm-cases")


def test_simpler_policies_do_most_of_what_the_selector_does(fact: Fact) -> None:
    assert 0.6 * fact("mean-selector") < fact("mean-change") < fact("mean-cost-to-go") < fact("mean-selector")
    assert 0.5 * fact("on-all") < fact("on-chosen") < 0.7 * fact("on-all")
    assert "On the mean of all cascades a logistic regression (`change`) gains two thirds as much" in text("README.md")
    assert round(3 * fact("mean-change") / fact("mean-selector")) == 2
    chosen = f"a margin gains {fact('on-all') - fact('on-chosen'):.1f} points by the choice, on the mean of"
    assert f"{chosen} [{fact('pools'):.0f} pools]" in text("docs/small-first.md")


def test_most_of_a_warm_start_is_not_its_stopping(fact: Fact) -> None:
    compared = [about for about in STUDY["warm_started"].values() if "independent" in about]
    assert len(compared) == fact("settings")
    for about in compared:
        assert about["same"]["gain"]["all"][0] < 0.15 * about["independent"]["gain"]["all"][0]


def test_the_papers_utility_is_reached_in_all_settings_with_a_warm_start_alone(fact: Fact) -> None:
    assert fact("settings") == fact("reached-warm") == 4
    assert fact("reached-irene") == fact("reached-margin") == 3
    assert fact("long-utility") < fact("long-warm") < fact("long-margin") < fact("paper-utility")
    assert fact("full-single") > fact("paper-single")


def test_under_corruption_the_selector_is_ahead_with_wrong_labels_alone() -> None:
    shown = {slug: about["sets"]["all corruptions"]["asked"]["1.3"] for slug, about in BEYOND.items()}
    gained = {slug: (asked.get("own selector") or asked["selector"]) for slug, asked in shown.items()}
    assert {slug for slug, point in gained.items() if point["gain at the same cost"][1] > 0} == {
        slug for slug in BEYOND if "noise20" in slug
    }


def test_risks_are_kept_on_fresh_splits_and_less_on_other_images(fact: Fact) -> None:
    assert fact("kept-fresh") >= 0.9
    assert fact("kept-corrupted") < fact("kept-wrong") < fact("kept-clean") < 0.9


def test_folds_gain_nothing_and_no_slice_misses_the_cost(fact: Fact) -> None:
    folds = STUDY["against"]["cifar10-resnet18-e30"]["folds"]["gain"]["all"]
    assert folds[1] < 0 < folds[2]
    assert fact("unheld-cost") < 1.25
