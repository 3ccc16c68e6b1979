"""The numbers that the pages' text names, and the short tables, are what the JSON files say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from documents import filled
from jobs import Job
from names import DISTILLED, INDEPENDENT, IRENE, WARM
from pages import facts, short_tables
from pages.latency_text import load_files
from pages.tables import against_tables

from irene.training.options import LoopOptions

ROOT = Path(__file__).parents[2]
SLUG = "cifar10-resnet18-e30"
SAME, OTHER = (f"margin + temperature, {kind} members" for kind in ("the same", "independent"))
AHEAD, UNCLEAR, BEHIND = [0.4, 0.1, 0.7], [0.02, -0.01, 0.05], [-0.3, -0.5, -0.1]


def cascade(training: str, dataset: str = "cifar10", gain: list[float] = AHEAD) -> dict[str, Any]:
    points = {cost: {"accuracy": accuracy, "gain": gain} for cost, accuracy in (("0.25", 0.905), ("0.5", 0.92))}
    about = {"dataset": dataset, "epochs": 60, "training": training, "whole_run": True}
    members = ["resnet32"] * 2 + ["resnet18"] * 3
    return {**about, "members": members, "seeds": 1, "which_seeds": [0], "policies": {"selector": points}}


def row(epochs: int, method: str, accuracy: float, cost: float, **other: Any) -> dict[str, Any]:
    about = {"dataset": "cifar10", "backbone": "resnet18", "epochs": epochs, "images": 45_000, "seed": 0}
    return {**about, "method": method, "accuracy": accuracy, "cost": cost, "members": 3, **other}


ROWS = [
    *[row(epochs, "single", 0.91, 1) for epochs in (30, 60)],
    *[row(epochs, "average", 0.93, 3) for epochs in (30, 60)],
    row(30, IRENE, 0.925, 1.3),
]


def with_three(accuracy: float) -> list[dict[str, Any]]:
    """The rows with another accuracy of three averaged."""
    return [{**one, "accuracy": accuracy} if one["method"] == "average" else one for one in ROWS]


def test_a_cascade_stands_beside_one_network_and_three_of_as_many_epochs() -> None:
    found = facts.cascades([[cascade(DISTILLED)], [cascade(INDEPENDENT)]], with_three(0.915))
    assert found["best-cifar10-0.25"] == found["plain-cifar10-0.25"] == "90.50"
    assert (found["best-seeds"], found["best-epochs"]) == ("one seed", "60")
    assert (found["single-cifar10"], found["three-cifar10"]) == ("91.00", "91.50")
    assert found["as-three-cifar10"] == "0.5"


def test_the_cheapest_cost_as_accurate_is_named() -> None:
    assert facts.cheapest(cascade(DISTILLED), 0.905) == "0.25"
    assert facts.cheapest(cascade(DISTILLED), 0.91) == "0.5"


def test_the_longest_training_is_told_of_networks_with_a_slice_held_out() -> None:
    longer = [row(200, "single", 0.95, 1), row(200, "average", 0.96, 3)]
    whole = [{**one, "images": 50_000, "epochs": 300} for one in longer]
    found = facts.trained_longest([*ROWS, *longer, *whole], [cascade(DISTILLED)])
    assert found == {"long-epochs": "200", "long-single-cifar10": "95.00", "long-three-cifar10": "96.00"}


def test_the_widest_small_member_is_told_untaught_taught_as_long_and_taught_longest() -> None:
    longest = cascade("distilled for 120 epochs")
    cascades = [longest, cascade(DISTILLED)]
    small = [
        {**one, "members": [name, "resnet18"], "small_flops": work, "backbone": name}
        | {"alone": {"accuracy": work + 0.1 * place, "spread": None}}
        for place, one in enumerate(cascades)
        for name, work in THIN.items()
    ]
    untaught = {**ROWS[0], "backbone": "resnet18x0.5", "epochs": 60, "method": "single", "accuracy": 0.2}
    found = facts.taught_by_themselves({"small_first": small, "taught": small, "rows": [untaught]}, [longest])
    assert found == {"alone-cifar10": "25.00", "taught-cifar10": "35.00", "untaught-cifar10": "20.00"}


def test_gains_are_counted_where_they_are_clear() -> None:
    found = facts.told("some", [AHEAD, UNCLEAR, BEHIND])
    assert found == {"some-span": "-0.30 to +0.40", "some-ahead": "1", "some-cases": "3"}


def test_stopping_is_told_of_unequal_equal_and_warm_started_members_apart() -> None:
    part = {"seeds": 1, "gain": {"all": AHEAD}}
    study = {
        "small_first": [cascade(DISTILLED), cascade(INDEPENDENT, gain=BEHIND)],
        "against": {SLUG: {"gains": {SAME: {"all": UNCLEAR}, OTHER: {"all": AHEAD}}}},
        "warm_started": {SLUG: {"same": part, "independent": part}, "other": {"same": part}},
    }
    found = facts.learned_stopping(study)
    cases = {name: f"{found[f'{name}-ahead']} of {found[f'{name}-cases']}" for name in ("unequal", "equal", "joint")}
    assert cases == {"unequal": "2 of 4", "equal": "0 of 1", "joint": "1 of 1"}
    assert (found["warm-cases"], found["unequal-behind"], found["unequal-most"]) == ("1", "2", "0.40")


def test_simpler_stopping_is_the_mean_over_cascades_and_over_pools() -> None:
    points = {"0.5": {"accuracy": 0.9, "gain": AHEAD}, "1": {"accuracy": 0.9, "gain": BEHIND}}
    study = {
        "small_first": [{"policies": {"selector": points, "cost-to-go": points, "change": {"0.5": points["0.5"]}}}],
        "searched": [
            {"all": {"selector": at(0.9), "margin": at(0.88)}, "chosen": {"margin": at(0.895)}},
            {"all": {"selector": at(0.92), "margin": at(0.92)}, "chosen": {"margin": at(0.915)}},
        ],
    }
    found = facts.simpler_stopping(study)
    assert [found[f"mean-{policy}"] for policy in ("selector", "cost-to-go", "change")] == ["0.05", "0.05", "0.40"]
    assert (found["pools"], found["on-all"], found["on-chosen"]) == ("2", "1.00", "0.50")


def at(accuracy: float) -> dict[str, Any]:
    return {"0.5": {"accuracy": accuracy}}


@pytest.mark.parametrize(("accuracy", "cost", "count"), [(0.925, 1.3, "0"), (0.934, 1.01, "1")])
def test_a_utility_is_reached_where_it_is_no_less_than_the_papers(accuracy: float, cost: float, count: str) -> None:
    assert facts.reached([SLUG], [*ROWS, row(30, WARM, accuracy, cost)], WARM) == count


def test_networks_trained_like_the_papers_stand_beside_them() -> None:
    full = [row(200, name, right, 1, images=50_000) for name, right in (("single", 0.952), ("average", 0.959))]
    found = facts.trained_like_the_paper([*ROWS, *full, row(200, "single", 0.5, 1)])
    assert found == {"full-single": "95.20", "paper-single": "94.94", "full-three": "95.90", "paper-three": "95.62"}


def test_a_recipe_collapses_where_nearly_all_images_have_as_many_members() -> None:
    runs = [row(30, "irene paper's recipe", 0.91, cost) for cost in (1.0, 1.5, 2.99)]
    assert facts.papers_recipe([*ROWS, *runs]) == {"recipe-runs": "3", "recipe-collapsed": "2"}


def test_a_template_cannot_ask_for_what_there_is_not(tmp_path: Path) -> None:
    template = tmp_path / "page.md.in"
    template.write_text("{{one}} and {{other-2}}")
    assert filled(template, {"one": "1", "other-2": "2"}) == "1 and 2"
    with pytest.raises(SystemExit, match=r"page\.md\.in asks for \{\{other-2\}\}"):
        filled(template, {"one": "1"})


def test_the_ladder_has_one_network_three_and_what_the_selector_gains_at_each_cost() -> None:
    lines = short_tables.ladder([cascade(INDEPENDENT, gain=UNCLEAR), cascade(DISTILLED)], ROWS).splitlines()
    assert lines[0] == "| CIFAR-10, 60 epochs | 0.25 | 0.5 | 3 |"
    assert lines[3] == "| three ResNet-18, averaged |  |  | 93.00 |"
    assert lines[4].endswith("small members distilled, one seed | 90.50 (**+0.40**) | 92.00 (**+0.40**) |  |")
    assert lines[5].endswith("independent members, one seed | 90.50 (+0.02) | 92.00 (+0.02) |  |")


def test_the_headline_has_a_taught_network_alone_and_marks_what_is_clearly_above_one_large_one() -> None:
    best = cascade(DISTILLED)
    best["policies"]["selector"]["0.25"]["low"], best["policies"]["selector"]["0.5"]["low"] = 0.905, 0.915
    small = [{**best, "members": [name, "resnet18"], "small_flops": work} for name, work in THIN.items()]
    alone = [
        {**best, "backbone": name, "alone": {"accuracy": work, "spread": None}} for name, work in reversed(THIN.items())
    ]
    lines = short_tables.headline([[best]], {"rows": ROWS, "taught": alone, "small_first": small}).splitlines()
    assert lines[2:] == [
        "| one ResNet-18 | 1.00 | 91.00 |",
        "| three ResNet-18, averaged | 3.00 | 93.00 |",
        "| one ResNet-18 x 0.5, distilled, alone | 0.25 | 25.00 |",
        "| cascade, small members distilled | 0.25 | 90.50 |",
        "|  | 0.50 | **92.00** |",
    ]


THIN = {"resnet18x0.25": 0.06, "resnet18x0.5": 0.25}  # FLOPs of one large one


def test_the_papers_numbers_stand_beside_ours_of_the_short_training() -> None:
    lines = short_tables.paper_tables(ROWS).splitlines()
    assert "| irene at 1.3 | 92.50 (one seed) | 1.30 | 1.76 | 95.81, 1.32, 3.10 |  |  |  |  |" in lines
    assert not any("snapshot" in line for line in lines)


def test_equal_members_are_told_cold_and_warm() -> None:
    study = {
        "rows": [*ROWS, row(30, facts.PLAIN, 0.92, 1.3), row(30, WARM, 0.934, 1.1)],
        "against": {SLUG: {"seeds": 2, "gains": {SAME: {"all": UNCLEAR}, OTHER: {"all": AHEAD}}}},
        "warm_started": {SLUG: {"same": {"seeds": 1, "gain": {"all": BEHIND}}}},
    }
    cold, warm = short_tables.equal_members(study).splitlines()[2:]
    assert cold.startswith("| CIFAR-10, ResNet-18, 30 epochs (2 seeds) | 92.50 (one seed) | 1.30 | 1.76 | 3.10 (1.32)")
    assert cold.endswith("| +0.02 [-0.01, +0.05] | **+0.40 [+0.10, +0.70]** |")
    assert warm.startswith("| CIFAR-10, ResNet-18, 30 epochs, warm (one seed) | 93.40 (one seed) | 1.10 |")
    assert warm.endswith("| **-0.30 [-0.50, -0.10]** |  |")
    study["warm_started"][SLUG]["independent"] = {"seeds": 2, "gain": {"all": AHEAD}}
    assert short_tables.equal_members(study).endswith("| **+0.40 [+0.10, +0.70]** (2 seeds) |")


def test_the_fastest_setting_as_accurate_as_one_and_as_three_is_told(tmp_path: Path) -> None:
    hardware = {"gpu": None, "cpu": "Some CPU", "threads": 2, "torch": "2.11"}
    about = {"run": "cifar10-resnet18-distil-s0-e60", "dataset": "cifar10", "training": DISTILLED, "backend": "eager"}
    about |= {"backbones": ["resnet32", "resnet18"], "seed": 0}
    rows = [
        {**about, "policy": "selector", "unit": "flops", "asked": asked, "accuracy": right, "flops": asked}
        | {"time": {"median": time, "low": time, "high": time}}
        for asked, right, time in ((0.2, 0.90, 0.3), (0.3, 0.93, 0.4), (0.5, 0.94, 0.6))
    ]
    networks = [{**about, "single": 0.92, "ensemble": 0.95, "hardware": hardware}]
    (tmp_path / "latency-cpu.json").write_text(json.dumps({"networks": networks, "rows": rows}))
    line = short_tables.fastest(load_files(tmp_path)).splitlines()[-1]
    told = "CIFAR-10, R32, R18, small members distilled, 60 epochs"
    assert line == f"| Some CPU, 2 threads, eager | {told} | 0.40 (0.30) | never |"


def test_full_tables_tell_what_irene_gains_at_each_cost_cold_and_warm() -> None:
    gains = {"1.3": AHEAD, "all": UNCLEAR}
    settled = {"seeds": 3, "accuracy": {"1.3": 0.925}, "gains": {SAME: gains}, "fitted": gains}
    settled["folds"] = {"seeds": 2, "gain": {"1.3": AHEAD, "all": BEHIND}}
    part = {"seeds": 2, "accuracy": {"1.3": 0.934}, "gain": gains}
    both = against_tables({SLUG: settled}, {SLUG: {"same": part, "independent": part | {"seeds": 1}}})
    one, other = both.split("###")[1:]
    assert one.splitlines()[0] == " CIFAR-10, ResNet-18, 30 epochs, 3 seeds"
    assert "| *accuracy of IRENE* | 92.50% |  |" in one
    assert "| IRENE out-of-fold (2 seeds) | **-0.40 [-0.70, -0.10]** | **+0.30 [+0.10, +0.50]** |" in one
    assert other.splitlines()[0] == " CIFAR-10, ResNet-18, 30 epochs, warm-started"
    assert "| *accuracy of IRENE* | 93.40% |  |" in other
    told = "**+0.40 [+0.10, +0.70]** | +0.02 [-0.01, +0.05] |"
    assert f"| {SAME} (2 seeds) | {told}" in other
    assert f"| {OTHER} (one seed) | {told}" in other


def test_training_as_long_as_the_paper_is_told_by_the_median_rate() -> None:
    alone = [{"backbone": "resnet18", "epoch_s": seconds} for seconds in (0.5, 0.6, 9.0)]
    together = [{"backbone": "resnet18", "at_once": 3, "epoch_s": 0.4}]
    assert facts.speed([*alone, {"backbone": "resnet32", "epoch_s": 0.1}], together) == {"three-of-200": "4.0 to 6.0"}


def test_what_is_still_to_be_trained_is_counted_once_by_its_first_group() -> None:
    one, other, third = (
        Job(dataset="cifar10", backbones=("resnet18",), method="single", seed=seed, loop=LoopOptions())
        for seed in range(3)
    )
    groups = {"members": [one, other], "cifar10": [one, other], "more": [other, third]}
    found = facts.to_be_trained(groups, [one.name])
    assert found == {"planned": "3", "missing": "2", "missing-by-group": "`members` 1, `more` 1"}
