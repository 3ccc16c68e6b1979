"""What teaching gives is what the banks of distillations and of independent members say."""

from __future__ import annotations

import json
from statistics import fmean, stdev
from typing import Any

import collect
import pytest
from pages import tables, taught_text
from replay.packed import Packed, Study
from replay.taught import one_by_one, over_seeds, taught, teachers


@pytest.fixture(scope="module")
def known(study: Study) -> list[dict[str, Any]]:
    """As results.json has it, which keeps what runs say that are gone."""
    runs = [run for run in study.runs if collect.tells_of_members(run)]
    members: list[dict[str, Any]] = json.loads(json.dumps([one_by_one(run) for run in runs]))
    return members


def right(run: Packed, *members: int) -> float:
    bank = run.bank("test")
    answers = bank.outputs[:, list(members), 0].softmax(-1).mean(1).argmax(-1)
    return float((answers == bank.targets).double().mean())


def of(study: Study, backbone: str, method: str) -> list[Packed]:
    found = [run for run in study.runs if run.method == method and run.setting.backbone.startswith(backbone)]
    return sorted((run for run in found if run.seed < 2), key=lambda run: run.seed)


def test_those_who_were_taught_are_told_alone_and_averaged(study: Study, known: list[dict[str, Any]]) -> None:
    small, vgg8 = taught(known)
    assert (small["dataset"], small["epochs"], small["backbone"], small["count"]) == ("digits", 2, "resnet32", 2)
    assert (vgg8["backbone"], vgg8["count"], vgg8["seeds"]) == ("vgg8", 1, 2)
    runs = of(study, "resnet32", "distil")
    values = [right(run, 2) for run in runs]
    assert vgg8["alone"]["accuracy"] == pytest.approx(fmean(values))
    assert vgg8["alone"]["spread"] == pytest.approx(stdev(values))
    assert small["averaged"]["accuracy"] == pytest.approx(fmean(right(run, 0, 1) for run in runs))
    assert small["alone"]["accuracy"] == pytest.approx(fmean(right(run, t) for run in runs for t in (0, 1)))
    assert small["seeds"] == 2


def test_of_several_distillations_with_members_of_a_kind_the_one_of_most_seeds_is_told(
    known: list[dict[str, Any]],
) -> None:
    more = [{**one, "backbones": ["vgg8", "vgg8", "resnet18", "resnet18"], "alone": [0.5] * 4} for one in known[:1]]
    more[0]["averaged"] = {"vgg8": [0.5, 0.6], "resnet18": [0.5, 0.6]}
    for both in ([*known, *more], [*more, *known]):
        assert {one["backbone"]: one["seeds"] for one in taught(both)} == {"resnet32": 2, "vgg8": 2}
        assert [one["seeds"] for one in teachers(both)] == [2]
    assert [one["count"] for one in taught(more)] == [2]


def test_one_seed_has_no_spread() -> None:
    assert over_seeds([0.9]) == {"accuracy": 0.9, "spread": None}


def test_without_a_distillation_there_is_nothing_to_tell(study: Study) -> None:
    assert not any(map(collect.tells_of_members, of(study, "resnet32", "average")))
    assert taught([]) == teachers([]) == []
    assert taught_text.section([], [], []) == ""


def test_the_table_says_what_independent_networks_give(known: list[dict[str, Any]]) -> None:
    about = {"dataset": "cifar10", "backbone": "resnet32", "epochs": 2, "images": 45_000, "method": "single"}
    rows = [{**about, "seed": seed, "accuracy": right} for seed, right in enumerate((0.5, 0.7))]
    rows.append({**rows[0], "epochs": 3})
    said = taught_text.section([{**one, "dataset": "cifar10"} for one in taught(known)], [], rows)
    assert said.startswith("## What teaching gives\n")
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in said.splitlines() if line.startswith("| ")]
    assert [row[:3] for row in cells[1:]] == [
        ["CIFAR-10, 2", "ResNet-32", "2"],
        ["CIFAR-10, 2", "two ResNet-32, averaged", "2"],
        ["CIFAR-10, 2", "VGG-8", "2"],
    ]
    assert all(row[3] for row in cells)
    assert [row[4] for row in cells[1:]] == ["60.00 ± 14.14", "", ""]


def test_those_who_taught_are_told_one_by_one_and_averaged(study: Study, known: list[dict[str, Any]]) -> None:
    (large,) = teachers(known)
    runs = of(study, "resnet32", "distil")
    assert (large["backbone"], large["seeds"], large["which_seeds"]) == ("resnet18", 2, [0, 1])
    for place, alone in zip((3, 4, 5), large["alone"], strict=True):
        assert alone["accuracy"] == pytest.approx(fmean(right(run, place) for run in runs))
    assert large["averaged"]["accuracy"] == pytest.approx(fmean(right(run, 3, 4, 5) for run in runs))
    about = {"dataset": "cifar10", "backbone": "resnet18", "epochs": 2, "images": 45_000, "accuracy": 0.9}
    rows = [{**about, "method": method, "seed": seed} for method in ("single", "average") for seed in (0, 1, 2)]
    rows[-1]["accuracy"] = 0.0  # of a seed that nobody was taught with
    said = taught_text.teachers_table([{**large, "dataset": "cifar10"}], rows)
    assert said.splitlines()[-1].startswith("| CIFAR-10, 2 | small members distilled | 2 | ")
    assert said.endswith("| 90.00, 90.00 |")


def test_fewer_seeds_of_independent_networks_are_told() -> None:
    network = {"dataset": "cifar10", "backbone": "vgg8", "epochs": 60}
    rows = [{**network, "images": 45_000, "method": "single", "accuracy": 0.94}]
    about = {**network, "training": "distilled"}
    assert taught_text.independent({**about, "seeds": 3}, rows) == "94.00 (one seed)"
    assert taught_text.independent({**about, "seeds": 1}, rows) == "94.00"
    longer = {**about, "seeds": 1, "training": "distilled for 120 epochs"}
    assert taught_text.independent(longer, rows) == "", "these learned for half as long"


def test_a_distillation_has_a_row_but_not_in_the_papers_tables(study: Study) -> None:
    run = of(study, "resnet32", "distil")[0]
    (row,) = collect.rows_of(run, alone=True)
    assert (row["method"], row["members"], row["flops"]) == ("distil", 6, pytest.approx(3.55e6))
    rows = collect.add_utilities([{**row, "dataset": "cifar10"}])
    assert tables.method_tables(rows) == ""
    assert "R32, R32, vgg8, R18, R18, R18 | distil | 1 |" in tables.joint_table(rows)


def test_the_speed_of_a_distillation_is_that_of_the_member_trained_first(study: Study) -> None:
    run, large = of(study, "resnet32", "distil")[0], of(study, "resnet18", "average")[0]
    assert run.first_trained == "resnet18"
    assert run.rate() == large.rate()
    assert study.alone(run)
