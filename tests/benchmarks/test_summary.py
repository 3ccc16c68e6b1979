"""The paragraphs that sum up the study say what the numbers say, whichever way they turn out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from names import DISTILLED, GOING_ON, INDEPENDENT, IRENE
from pages.conclusions import FGE, at_costs, going_on_sentence, irene_sentence, recipe_sentence
from pages.latency_text import load_files
from pages.summary import pays, summary
from pages.tables import against_tables

ROOT = Path(__file__).parents[2]
SLUG = "cifar10-resnet18-e30"
SAME, INDEPENDENTLY = (f"margin + temperature, {kind} members" for kind in ("the same", "independent"))
AHEAD, UNCLEAR, BEHIND = [0.4, 0.1, 0.7], [0.02, -0.01, 0.05], [-0.3, -0.5, -0.1]


def cascade(training: str, dataset: str = "cifar10", **gains: list[float]) -> dict[str, Any]:
    by_cost = {"0.25": gains.get("quarter", AHEAD), "0.5": gains.get("half", [0.9, -0.1, 1.9])}
    points = {cost: {"accuracy": 0.9 + float(cost) / 100, "gain": gain} for cost, gain in by_cost.items()}
    about = {"dataset": dataset, "epochs": 60, "training": training, "whole_run": True}
    members = ["resnet32"] * 2 + ["resnet18"] * 3
    return {**about, "members": members, "seeds": 1, "which_seeds": [0], "policies": {"selector": points}}


def row(epochs: int, method: str, accuracy: float, cost: float, dataset: str = "cifar10") -> dict[str, Any]:
    about = {"dataset": dataset, "backbone": "resnet18", "epochs": epochs, "images": 45_000, "seed": 0}
    return {**about, "method": method, "accuracy": accuracy, "cost": cost, "members": 3}


def about(same: list[float] = UNCLEAR, other: list[float] = AHEAD) -> dict[str, Any]:
    return {"seeds": 1, "gains": {SAME: {"all": same}, INDEPENDENTLY: {"all": other}}, "fitted": {"all": UNCLEAR}}


def study(**changes: Any) -> dict[str, Any]:
    return {
        "rows": [
            *[row(epochs, "single", 0.91, 1) for epochs in (30, 60)],
            *[row(epochs, "average", 0.93, 3) for epochs in (30, 60)],
            row(30, IRENE, 0.925, 1.3),
        ],
        "small_first": [cascade(DISTILLED)],
        "against": {SLUG: about()},
        "going_on": {},
        **changes,
    }


def latency(gpu_accuracy: float = 0.93) -> dict[str, Any]:
    network = {"dataset": "cifar10", "kind": "one", "training": DISTILLED, "single": 0.93, "backbones": ["resnet18"]}
    rows = [
        {"kind": "one", "policy": "margin", "unit": "ms", "asked": 0.5, "accuracy": accuracy, "flops": 0.4}
        | {"time_median": time, "backend": "onnx:int8"}
        for accuracy, time in ((0.94, 0.55), (gpu_accuracy, 0.75))
    ]
    networks = [{**network, "backend": "onnx:int8"}]
    slower = [{**one, "kind": "other"} for one in (*networks, {**rows[1], "time_median": 1.5})]
    return {
        "cpu": {"networks": networks, "rows": rows[:1]},
        "h200": {"networks": [*networks, slower[0]], "rows": [rows[1], slower[1]]},
    }


def said(beyond: dict[str, Any] | None = None, gpu_accuracy: float = 0.93, **changes: Any) -> str:
    return " ".join(summary(study(**changes), beyond or {}, latency(gpu_accuracy), ["cifar10"]).split())


def with_single(accuracy: float) -> list[dict[str, Any]]:
    return [one | {"accuracy": accuracy} if one["method"] == "single" else one for one in study()["rows"]]


def test_it_sets_cascades_beside_one_network_and_three() -> None:
    reached = (
        "reach 90.25 % on CIFAR-10, at half 90.50 (one seed); one ResNet-18 has 91.00, three averaged 93.00 "
        "at three times its cost, after 60 epochs."
    )
    assert reached in said()


def test_networks_that_were_trained_for_longer_stand_beside_them() -> None:
    longer = [row(200, "single", 0.95, 1), row(200, "average", 0.96, 3)]
    told = "at three times its cost, after 60 epochs (200, CIFAR-10, one seed: 95.00 and 96.00)."
    assert told in said(rows=[*study()["rows"], *longer])
    assert told not in said(rows=[*study()["rows"], *[one | {"images": 50_000} for one in longer]])


def test_starting_small_pays_where_it_beats_one_network() -> None:
    assert "**Starting small does not pay**: " in said()
    assert "**Starting small pays**: " in said(rows=with_single(0.9))
    other = [row(60, "single", 0.95, 1, "cifar100"), row(60, "average", 0.97, 3, "cifar100")]
    both = study(rows=[*with_single(0.9), *other], small_first=[cascade(DISTILLED), cascade(DISTILLED, "cifar100")])
    found = summary(both, {}, latency(), ["cifar10", "cifar100"])
    assert "**Starting small pays on CIFAR-10 alone**: " in found


def test_it_says_whether_the_small_ones_were_taught() -> None:
    assert "small networks in front of three ResNet-18, which taught them, reach" in said()
    assert "small networks in front of three ResNet-18 reach" in said(small_first=[cascade(INDEPENDENT)])


def test_measured_time_stands_beside_flops() -> None:
    assert "takes 0.55 of one ResNet-18's on two CPU cores (94.00 against 93.00 %, CIFAR-10)" in said()
    assert "on an H200, no less accurate, 0.75 to 1.50." in said()
    assert "on an H200, none is as accurate." in said(gpu_accuracy=0.92)


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ([AHEAD, AHEAD], "pays"),
        ([AHEAD, UNCLEAR], "mostly pays"),
        ([AHEAD, UNCLEAR, BEHIND], "seldom pays"),
        ([UNCLEAR, BEHIND], "is not seen to pay"),
    ],
)
def test_what_pays_is_what_is_clearly_ahead(gains: list[list[float]], words: str) -> None:
    assert pays(gains) == words
    settings = {f"cifar10-resnet18-e{epochs}": about(gain, gain) for epochs, gain in enumerate(gains, 30)}
    found = said(against=settings)
    assert f"**On equal members it {words}**: " in found
    assert f"training members and selector together (IRENE) {words}: " in found
    clear, behind = gains.count(AHEAD), gains.count(BEHIND)
    told = f"clearly ahead in {clear}{' and behind in 1' if behind else ''} of {len(gains)} settings."
    assert found.count(told) == 2


def test_a_gain_that_may_be_chance_is_not_the_largest() -> None:
    assert "mostly pays where members differ in size**: up to +0.40 points over a margin threshold" in said()
    assert "clearly ahead in 1 of 2 cases of 1 cascades." in said()


def test_without_a_clear_gain_no_largest_is_named() -> None:
    found = said(small_first=[cascade(DISTILLED, quarter=UNCLEAR, half=BEHIND)])
    assert "is not seen to pay where members differ in size**: no clear gain over a margin threshold" in found
    assert "clearly ahead in 0 and behind in 1 of 2 cases" in found


def test_utility_is_counted_against_the_papers() -> None:
    assert "reaches the paper's: 0 of 1 after 30 epochs (CIFAR-10, ResNet-18, one seed: " in said()
    assert ", paper 3.10)." in said()
    better = [row(30, IRENE, 0.934, 1.01) if one["method"] == IRENE else one for one in study()["rows"]]
    assert "reaches the paper's: 1 of 1 after 30 epochs. " in f"{said(rows=better)} "


def test_utility_is_told_for_each_length_of_training_and_misses_of_the_longest() -> None:
    against = {slug: about() for slug in ("cifar10-resnet18-e60", SLUG)}
    found = said(rows=[*study()["rows"], row(60, IRENE, 0.934, 1.01)], against=against)
    assert "paper's: 0 of 1 after 30 epochs, 1 of 1 after 60 epochs." in found
    missed = said(rows=[*study()["rows"], row(60, IRENE, 0.92, 2.0)], against=against)
    assert ", 0 of 1 after 60 epochs (CIFAR-10, ResNet-18, one seed: " in missed
    assert missed.count("paper 3.10") == 1


def test_members_that_go_on_have_their_own_words() -> None:
    assert "go on" not in said()
    assert "going on" not in said()
    rows = [*study()["rows"], row(30, GOING_ON, 0.934, 1.1)]
    part = {"seeds": 1, "gain": {"all": AHEAD}}
    found = said(rows=rows, going_on={SLUG: {"same": part, "independent": part}})
    assert "settings; where later ones go on from the one before +0.40, clearly ahead in 1 of 1. " in found
    assert "paper 3.10); going on 1 of 1 after 30 epochs." in found
    alone = said(rows=rows, going_on={SLUG: {"same": part}})
    assert "where later ones go on" not in alone
    assert "; going on 1 of 1" in alone


def test_what_going_on_gains_is_told_beside_beginning_anew() -> None:
    rows = [*study()["rows"], row(30, GOING_ON, 0.934, 1.1)]
    same, other = ({"seeds": 1, "gain": {"all": gain}} for gain in (UNCLEAR, AHEAD))
    found = going_on_sentence(SLUG, {"same": same, "independent": other}, rows)
    assert "members that go on** (one seed): 93.40 % at 1.10 members" in found
    assert "Three independent ones averaged have 93.00 %." in found
    assert "begin anew, at 1.3 seed by seed: +0.90 points. Its stopping: +0.02 [-0.01, +0.05]." in found
    assert found.endswith("what its stopping adds cannot be told from nothing.")
    assert "All of it" not in going_on_sentence(SLUG, {"same": same}, rows)
    assert "FGE" not in found
    beside = going_on_sentence(SLUG, {"same": same}, [*rows, row(30, FGE, 0.931, 1.3)])
    assert "those of FGE, which go on too, last first with margin + temperature: +0.30 points. Its stopping" in beside


def test_tables_tell_what_irene_gains_at_each_cost_and_where_members_go_on() -> None:
    gains = {"1.3": AHEAD, "all": UNCLEAR}
    settled = {"seeds": 3, "accuracy": {"1.3": 0.925}, "gains": {SAME: gains}, "fitted": gains}
    settled["folds"] = {"seeds": 2, "gain": {"1.3": AHEAD, "all": BEHIND}}
    part = {"seeds": 2, "accuracy": {"1.3": 0.934}, "gain": gains}
    one, other = against_tables({SLUG: settled}, {SLUG: {"same": part, "independent": part | {"seeds": 1}}}).split(
        "###"
    )[1:]
    assert one.splitlines()[0] == " CIFAR-10, ResNet-18, 30 epochs, 3 seeds"
    assert "| *accuracy of IRENE* | 92.50% | |" in one
    assert "| IRENE out-of-fold (2 seeds) | **-0.40 [-0.70, -0.10]** | **+0.30 [+0.10, +0.50]** |" in one
    assert other.splitlines()[0] == " CIFAR-10, ResNet-18, 30 epochs, members that go on"
    assert "| *accuracy of IRENE* | 93.40% | |" in other
    row = "**+0.40 [+0.10, +0.70]** | +0.02 [-0.01, +0.05] |"
    assert f"| {SAME} (2 seeds) | {row}" in other
    assert f"| {INDEPENDENTLY} (one seed) | {row}" in other


def test_corrupted_images_are_spoken_of_where_they_were_looked_at() -> None:
    beyond = json.loads((ROOT / "benchmarks/results/beyond.json").read_text())
    assert "On corrupted images" in said(beyond)
    assert "orrupted" not in said()


def test_a_recipe_that_nobody_ran_is_not_spoken_of() -> None:
    assert recipe_sentence(study()["rows"]) == ""
    collapsed, fine = (row(30, "irene paper's recipe", 0.91, cost) for cost in (1.0, 1.5))
    found = recipe_sentence([*study()["rows"], collapsed, fine])
    assert "in our 30 epochs and not its 200, with loss weights of 0.01, 0.01 and 0.1 where it searches" in found
    assert "collapsed in 1 of 2 runs" in found


def test_networks_trained_like_the_papers_stand_beside_them() -> None:
    assert "With the paper's images" not in said()
    full = [row(200, "single", 0.952, 1) | {"images": 50_000}, row(200, "average", 0.959, 3) | {"images": 50_000}]
    long = [row(200, "single", 0.5, 1)]  # with a slice held out
    told = "one ResNet-18 and three averaged have 95.20 and 95.90 % on CIFAR-10 (paper: 94.94 and 95.62; one seed)."
    assert f"With the paper's images and epochs {told}" in said(rows=study()["rows"] + full + long)


def test_the_page_is_short_where_it_says_so() -> None:
    results = json.loads((ROOT / "benchmarks/paper/results.json").read_text())
    beyond = json.loads((ROOT / "benchmarks/results/beyond.json").read_text())
    assert len(summary(results, beyond, load_files(), ["cifar10", "cifar100"]).split()) < 280


def test_a_setting_says_of_how_many_seeds_its_gains_are() -> None:
    rows = [*study()["rows"], row(30, "average, margin + temperature at 1.3", 0.92, 1.3)]
    alike = irene_sentence(SLUG, about(), rows)
    assert "(one seed): 92.50 % at 1.30 members" in alike
    assert " (margin + temperature on independent members: 1.34; paper: 3.10 at 1.32). Its stopping: +0.02" in alike
    assert "All of it: **+0.40 [+0.10, +0.70]**, at 1.3 seed by seed +0.50." in alike
    assert "(one seed; gains of 2): " in irene_sentence(SLUG, {**about(), "seeds": 2}, rows)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ((False, False, False), "at no cost"),
        ((True, True, True), "at every cost"),
        ((False, True, True), "from 0.3 on"),
        ((False, False, True), "at 0.5"),
        ((True, False, True), "at 0.2, 0.5"),
        ((True, True, False), "at 0.2, 0.3"),
    ],
)
def test_costs_are_named_from_which_on_something_is_so(found: tuple[bool, ...], words: str) -> None:
    assert at_costs(dict(zip(("0.2", "0.3", "0.5"), found, strict=True))) == words
