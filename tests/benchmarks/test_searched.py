"""Members and orders searched for each cost: what there is to choose from, what decides, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from comparison import joined
from names import AND_MORE, DISTILLED, INDEPENDENT
from pages import searched_text
from replay import searched as search
from replay.packed import Packed, Study
from replay.searched import Pool, pools

from irene.bank import Bank
from irene.calibration.frontier import frontier
from irene.calibration.order import best_members
from irene.calibration.weights import fit_aggregation
from irene.halting.policies import Margin

DISTILLATION = ["resnet32", "resnet32", "vgg8", "resnet18", "resnet18", "resnet18"]


def searched(study: Study) -> dict[str, Any]:
    """What is found in the first pool at two costs, with no selector that learns for long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "COSTS", (0.3, 1.0))
        patch.setattr(search, "selector_fitter", lambda cost: lambda *_: Margin())
        return search.searched(next(iter(pools(study))))


@pytest.fixture(scope="module")
def found(study: Study) -> dict[str, Any]:
    return searched(study)


def test_a_pool_is_a_distillation_or_all_sizes_that_there_are_enough_independent_runs_of(study: Study) -> None:
    taught, more = pools(study)  # of the third seed there is no independent small network
    assert (taught.training, taught.members, len(taught.seeds)) == (DISTILLED, DISTILLATION, 2)
    assert (more.training, more.members) == (f"{DISTILLED} {AND_MORE}", [*DISTILLATION, *["resnet18"] * 3])
    fewer = Study([run for run in study.runs if run.seed < 2])
    alone, *_ = pools(fewer)
    assert (alone.training, alone.members) == (INDEPENDENT, ["resnet32"] * 2 + ["resnet18"] * 3)
    assert [part.run.seed for parts in alone.seeds for part in parts] == [0, 0, 1, 1]


def test_a_pool_holds_what_its_members_answered(study: Study) -> None:
    pool = next(iter(pools(Study([run for run in study.runs if run.seed < 2]))))
    for seed, bank in enumerate(pool.banks("test")):
        small, large = (run.bank("test") for run in runs_of(study, seed))
        assert torch.equal(bank.outputs, torch.cat([small.outputs[:, :2], large.outputs], 1))


def runs_of(study: Study, seed: int) -> list[Packed]:
    found = {run.setting.backbone: run for run in study.runs if run.method == "average" and run.seed == seed}
    return [found["resnet32"], found["resnet18"]]


def test_what_is_chosen_is_the_best_on_held_out_images_and_is_measured_on_others(
    study: Study, found: dict[str, Any]
) -> None:
    assert (found["dataset"], found["epochs"], found["seeds"], found["pool"]) == ("digits", 2, 2, DISTILLATION)
    runs = sorted((run for run in study.runs if run.method == "distil"), key=lambda run: run.seed)
    for cost in (0.3, 1.0):
        right = []
        for run, order in zip(runs, found["orders"][f"{cost:g}"], strict=True):
            best = best_members(run.bank("heldout"), unit="flops", cost=cost * 1e6, weights=True)
            assert order == [DISTILLATION[member] for member in best.order]
            line = frontier(run.bank("test").members(best.order), Margin(), best.aggregation, "flops")
            right.append(line.quality_at(cost * 1e6))
        for policy in ("margin", "selector"):
            accuracy = found["chosen"][policy][f"{cost:g}"]["accuracy"]
            assert accuracy == pytest.approx(float(torch.stack(right).mean()))
    assert sum(map(len, found["orders"]["0.3"])) < sum(map(len, found["orders"]["1"])), "little buys few members"


def test_beside_what_is_chosen_stand_all_members_cheapest_first(study: Study, found: dict[str, Any]) -> None:
    pool, _ = pools(study)
    right = []
    for heldout, test in zip(pool.banks("heldout"), pool.banks("test"), strict=True):
        assert [cost.flops for cost in test.costs] == sorted(cost.flops for cost in test.costs)
        mean = fit_aggregation(heldout, weights=True)
        right.append(frontier(test, Margin(), mean, "flops").quality_at(0.3e6))
    for policy in ("margin", "selector"):
        assert found["all"][policy]["0.3"]["accuracy"] == pytest.approx(float(torch.stack(right).mean()))


def test_test_images_choose_nothing(study: Study, found: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    own = Packed.bank

    def shuffled(run: Packed, split: str) -> Bank:
        bank = own(run, split)
        return bank if split == "heldout" else replace(bank, targets=bank.targets.flip(0))

    monkeypatch.setattr(Packed, "bank", shuffled)
    assert searched(study)["orders"] == found["orders"]


def test_one_member_by_itself_may_be_the_best_choice(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "COSTS", (1.0,))
    pool, _ = pools(study)
    only = Pool(
        pool.large, pool.training, [[part for part in parts if part.backbone == "vgg8"] for parts in pool.seeds]
    )
    found = search.searched(only)
    assert found["orders"]["1"] == [["vgg8"]] * 2
    right = [(run.bank("test").outputs[:, 2, 0].argmax(1) == run.bank("test").targets) for ((run, *_),) in only.seeds]
    expected = float(torch.stack(right).double().mean())
    assert found["chosen"]["selector"]["1"]["accuracy"] == pytest.approx(expected)


def test_banks_of_other_samples_are_not_joined(study: Study) -> None:
    bank = study.runs[0].bank("test")
    with pytest.raises(SystemExit, match="of other samples"):
        joined(bank, bank, bank.rows(torch.arange(10)))


def test_what_was_chosen_is_said_with_how_often() -> None:
    alike = [["resnet32", "resnet18"]] * 3
    assert searched_text.chosen(alike) == "R32, R18"
    assert searched_text.chosen([["resnet18"], *alike]) == "R32, R18 (3); R18 (1)"


def test_the_table_has_a_line_for_each_cost() -> None:
    def points(*values: float) -> dict[str, Any]:
        return {cost: {"accuracy": value} for cost, value in zip(("0.25", "0.5"), values, strict=True)}

    found = {
        "dataset": "cifar10",
        "epochs": 60,
        "training": DISTILLED,
        "pool": ["resnet18x0.25", "resnet18"],
        "seeds": 3,
        "orders": {"0.25": [["resnet18x0.25"]] * 3, "0.5": [["resnet18x0.25", "resnet18"]] * 3},
        "chosen": {"margin": points(0.93, 0.94), "selector": points(0.935, 0.945)},
        "all": {"margin": points(0.92, 0.94), "selector": points(0.937, 0.949)},
    }
    said = searched_text.section([found]).splitlines()
    assert said[0] == "## Sizes searched"
    assert said[-5:-3] == [
        "| CIFAR-10, 60, distilled R18x0.25, R18 (3 seeds) | 0.25 | R18x0.25 | 93.00 | 93.50 | 92.00 | 93.70 |",
        "|  | 0.5 | R18x0.25, R18 | 94.00 | 94.50 | 94.00 | 94.90 |",
    ]
    assert said[-2].startswith("With learned halting choosing gains -0.30 to -0.30 points on running all members")
    better = {**found, "all": {**found["all"], "selector": points(0.934, 0.944)}}
    both = searched_text.conclusion([found, better])
    assert "gains -0.30 to +0.10 points" in both
    assert both.endswith("with 1 of 2 pools.")
    assert searched_text.section([]) == ""
