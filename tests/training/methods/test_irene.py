from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from irene.cli.options import number
from irene.data import from_arrays, load
from irene.data.samples import Augment
from irene.errors import OptionError
from irene.halting.selector import Selector
from irene.models import Member
from irene.run import Run
from irene.training import loop
from irene.training.joint import LossWeights
from irene.training.loop import Loop
from irene.training.method import Training
from irene.training.methods.irene import IreneOptions, collapse_note, folds_note
from irene.training.objective import Objective
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.train import TrainOptions, train

Trainer = Callable[..., Run]


def lines(run: Run, stage: str) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    return [record for record in records if record["stage"] == stage]


@pytest.mark.parametrize("source", ["slice", "folds"])
def test_costs_what_was_asked_and_does_not_collapse(trainer: Trainer, source: str) -> None:
    run = trainer("irene", epochs=6, options=IreneOptions(cost=1.4, selector_data=source))
    assert run.figures["heldout"]["cost"] == pytest.approx(1.4, abs=0.02)  # the threshold was set on these samples
    assert run.figures["test"]["cost"] == pytest.approx(1.4, abs=0.2)
    assert 1 - run.figures["test"]["used"][0] > 0.02
    assert run.manifest["notes"] == []
    assert isinstance(run.policy(), Selector)


def test_every_term_of_every_member_is_in_the_learning_curves(trainer: Trainer) -> None:
    run = trainer("irene", epochs=3)
    assert "rank" not in lines(run, "member-1")[0]  # at t = 1 only the base loss is optimised
    third = lines(run, "member-3")
    assert len(third) == 3
    assert {"base", "discrepancy", "rank", "ensemble", "cost", "selector_rank", "S2", "S3", "price"} <= set(third[0])
    for line in third:
        assert 1 >= line["S2"] >= line["S3"] >= 0
        assert line["expected_members"] == pytest.approx(1 + line["S2"] + line["S3"], abs=1e-5)


def test_the_papers_recipe_collapses_and_says_so(trainer: Trainer) -> None:
    weights = LossWeights(ensemble=0.01, cost=0.1, rank=0.1)
    run = trainer("irene", epochs=8, options=IreneOptions(recipe="paper", loss_weights=weights))
    policy = run.policy()
    assert isinstance(policy, Selector)
    assert policy.features == ("kl",)
    assert policy.skip is None
    assert run.figures["heldout"]["used"][0] > 0.98
    assert run.manifest["notes"] == [collapse_note(run.figures["heldout"]["used"][0], 1, "paper")]
    assert "use the recipe irene" in run.manifest["notes"][0]


def test_the_papers_recipe_for_values_sees_the_distance_of_the_heads(trainer: Trainer) -> None:
    run = trainer("irene", data="diabetes", epochs=5, lr=0.02, members=2, options=IreneOptions(recipe="paper"))
    policy = run.policy()
    assert isinstance(policy, Selector)
    assert policy.features == ("head_spread",)
    assert {"ensemble", "cost", "rank"} <= set(lines(run, "member-2")[0])


@pytest.mark.parametrize("heldout", [None, 0.0])
def test_the_papers_recipe_follows_its_weights_alone(trainer: Trainer, heldout: float | None) -> None:
    """Neither held-out samples nor a wish for a cost enter it; a collapse is told even where one member was asked."""
    about = {"recipe": "paper", "loss_weights": LossWeights(ensemble=0.01, cost=0.1, rank=0.1)}
    run = trainer("irene", epochs=6, members=2, heldout=heldout, options=IreneOptions(cost=1.0, **about))
    assert "the selector has collapsed" in run.manifest["notes"][0]
    unit = IreneOptions(cost_unit="flops", **about)
    paid = trainer("irene", epochs=6, members=2, heldout=heldout, options=unit, name="flops")
    costs = [[line["cost"] for line in lines(one, "member-2")] for one in (run, paid)]
    assert costs[0] == pytest.approx(costs[1])  # in units of the dearest member, whatever the unit
    assert all(0.1 <= cost <= 0.2 for cost in costs[0])


@pytest.mark.parametrize("part", ["ensemble", "cost", "rank", "discrepancy"])
def test_a_loss_can_be_left_out(trainer: Trainer, part: str) -> None:
    run = trainer("irene", epochs=2, members=2, options=IreneOptions(without=(part,)))
    line = lines(run, "member-2")[-1]
    assert line.get(part, 0.0) == 0.0
    assert line["base"] > 0
    last = lines(run, "selector")[-1]  # the selector in use is fitted without it too
    assert last.get(part, 0.0) == 0.0
    assert all(last[other] != 0 for other in {"ensemble", "cost"} - {part})


def test_without_joint_training_members_are_those_of_independent_two_head_training(trainer: Trainer) -> None:
    run = trainer("irene", epochs=2, members=2, options=IreneOptions(without=("joint",)))
    assert set(lines(run, "member-2")[0]) == set(lines(run, "member-1")[0])
    assert isinstance(run.policy(), Selector)


def test_without_a_selector_every_member_runs(trainer: Trainer) -> None:
    run = trainer("irene", epochs=2, members=2, options=IreneOptions(without=("selector",)))
    assert run.figures["test"]["used"] == [0.0, 1.0]
    assert "rank" in lines(run, "member-2")[0]
    assert "ensemble" not in lines(run, "member-2")[0]


@pytest.mark.parametrize(
    ("members", "options"),
    [
        (2, IreneOptions(without=("selector",))),
        (1, IreneOptions(cost=1)),
        (2, IreneOptions(without=("selector", "joint"))),
    ],
)
def test_who_has_nothing_to_stop_needs_nothing_held_out(trainer: Trainer, members: int, options: IreneOptions) -> None:
    run = trainer("irene", epochs=1, members=members, heldout=0, options=options)
    assert run.figures["test"]["cost"] == members
    assert "heldout" not in run.figures


def test_a_single_member_is_trained_whatever_the_cost(trainer: Trainer) -> None:
    run = trainer("irene", epochs=1, members=1)
    assert run.figures["test"]["cost"] == 1
    assert run.manifest["notes"] == ["the only member runs on every sample, whatever cost is asked for"]


def test_unequal_members_are_paid_in_flops_and_weighed(trainer: Trainer) -> None:
    backbones = ("mlp", "cnn")
    independent = trainer("average", members=2, epochs=1, backbones=backbones, name="costs")
    small, large = (cost.flops for cost in independent.costs)
    asked = small + 0.3 * large
    options = IreneOptions(cost=asked, cost_unit="flops")
    run = trainer("irene", members=2, epochs=6, backbones=backbones, options=options)
    assert run.figures["heldout"]["flops"] == pytest.approx(asked, rel=0.02)
    assert run.figures["test"]["flops"] == pytest.approx(asked, rel=0.3)
    assert run.aggregation.weights != (1.0, 1.0)  # fitted, as the members differ
    equal = trainer(
        "irene", members=2, epochs=1, backbones=backbones, name="equal", options=IreneOptions(weights=False)
    )
    assert equal.aggregation.weights == (1.0, 1.0)


def test_costs_are_known_from_one_member_of_a_backbone(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    new_member = Training.new_member

    def counting(training: Training, index: int, **kind: Any) -> Member:
        made.append(index)
        return new_member(training, index, **kind)

    monkeypatch.setattr(Training, "new_member", counting)
    with pytest.raises(OptionError, match="cannot be reached"):
        trainer("irene", members=50, options=IreneOptions(cost=51))
    with pytest.raises(OptionError, match=r"these cost the same: mlp, mlp, .*, \.\.\.; give"):
        trainer("distil", members=50)
    assert made == [0, 0]


@pytest.mark.parametrize(("asked", "unit"), [(3.5, "members"), (0.5, "members"), (1.3, "flops")])
def test_a_cost_that_cannot_be_reached_is_refused_before_training(
    trainer: Trainer, tmp_path: Path, asked: float, unit: Any
) -> None:
    with pytest.raises(OptionError, match=r"cannot be reached: these members cost .* another unit"):
        trainer("irene", options=IreneOptions(cost=asked, cost_unit=unit))
    assert not (tmp_path / "run").exists()


def test_the_costs_that_can_be_reached_are_written_as_one_asks_for_them(trainer: Trainer) -> None:
    with pytest.raises(OptionError, match="a mean cost of 1K flops cannot be reached") as told:
        trainer("irene", options=IreneOptions(cost=1000, cost_unit="flops"))
    found = re.search(r"cost (\S+) \(the first alone\) to (\S+) \(all of them\)", str(told.value))
    assert found is not None
    trainer("irene", options=IreneOptions(cost=number(found[2]), cost_unit="flops"))


def test_a_selector_needs_samples_that_no_member_trains_on(trainer: Trainer) -> None:
    with pytest.raises(OptionError, match=r"hold some out \(heldout above 0, --heldout\), or learn by folds"):
        trainer("irene", heldout=0.0)
    run = trainer("irene", heldout=0.0, epochs=3, members=2, options=IreneOptions(selector_data="folds"))
    assert run.figures["test"]["accuracy"] > 0.8  # members lost no sample
    assert 1 < run.figures["test"]["cost"] < 2
    assert run.manifest["notes"] == [folds_note(2)]  # they are surer than the models the threshold was set on


def test_table_of_values_stops_where_the_noise_is_low(tmp_path: Path) -> None:
    """Housing-like: eight columns, an interaction, and noise that is large in a corner of the space."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 8)).astype(np.float32)
    noise = 0.3 * rng.normal(size=2000) * (1 + 2 * (x[:, 3] > 1))
    y = (np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + noise).astype(np.float32)
    run = train(
        "irene",
        from_arrays(x, y, task="regression"),
        tmp_path / "run",
        options=TrainOptions(members=3, device="cpu"),
        loop=LoopOptions(epochs=12, batch_size=64, optimizer=OptimizerOptions(lr=0.02)),
        method_options=IreneOptions(cost=1.5),
    )
    figures = run.figures["test"]
    assert figures["r2"] > 0.5
    assert figures["cost"] == pytest.approx(1.5, abs=0.2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"recipe": "new"}, "recipe must be irene or paper"),
        ({"selector_data": "train"}, "selector data is slice or folds"),
        ({"folds": 1}, "at least 2"),
        ({"folds": 5}, "got 5 of them with selector data slice: use folds"),
        ({"without": ("base",)}, "parts to leave out"),
        ({"cost": 0.0}, "must be a number above 0, got 0.0"),
        ({"cost": "1.3"}, "must be a number above 0, got '1.3'"),
        ({"cost_unit": "euro"}, "cost unit must be one of"),
        ({"selector_lr": 0.0}, "learning rate and its decay must be above 0, got 0 and 0.5"),
        ({"selector_decay": -1.0}, "learning rate and its decay must be above 0, got 0.01 and -1$"),
        ({"recipe": "paper", "selector_data": "folds"}, "the selector learns with the members"),
        ({"recipe": "paper", "without": ("joint",)}, "use the recipe irene for folds or for a selector fitted after"),
        ({"later": "again"}, "later must be anew or go-on, got 'again'"),
        ({"later": "go-on", "recipe": "paper"}, "use the recipe irene and selector data slice"),
        ({"later": "go-on", "selector_data": "folds"}, "use the recipe irene and selector data slice"),
    ],
)
def test_options_that_cannot_work_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        IreneOptions(**given)


@pytest.mark.parametrize("name", ["ensemble", "cost", "rank", "discrepancy"])
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_a_loss_has_a_weight_of_zero_or_more(name: str, value: float) -> None:
    with pytest.raises(OptionError, match=f"weight of the {name} loss must be at least 0 and finite, got {value}"):
        LossWeights(**{name: value})


def test_the_selector_is_a_vanishing_share_of_a_member(trainer: Trainer) -> None:
    run = trainer("irene", epochs=1, members=2)
    policy = run.policy()
    assert isinstance(policy, Selector)
    count = sum(parameter.numel() for parameter in policy.parameters())
    assert count < 1000
    assert sum(value.numel() for value in run.members()[0].state_dict().values()) > 20 * count
    told = run.manifest["selector"]
    assert told["parameters"] == count
    assert told["parameter_share"] == pytest.approx(count / run.costs[0].parameters)
    assert told["ms"] > 0
    assert torch.isfinite(run.bank("test").trajectory(policy, run.aggregation).scores_NT).all()


class Watched:
    """Every stage as it begins: the model, its objective and how it is optimised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.members: list[nn.Module] = []
        self.objectives: list[Objective] = []
        self.made: list[tuple[str, OptimizerOptions]] = []  # optimisers, by the stage they were made in
        self.frozen: list[bool] = []  # before each further member: are all earlier ones?
        stage = ""
        fit, optimizer = Loop.fit, loop._optimizer

        def watch_fit(self_: Loop, name: str, model: nn.Module, objective: Objective, *rest: Any) -> None:
            nonlocal stage
            stage = name
            if name.startswith("member"):
                parts = [part for member in self.members for part in member.modules()]
                learns = [value.requires_grad for member in self.members for value in member.parameters()]
                self.frozen.append(not any(learns) and not any(part.training for part in parts))
                self.members.append(model)
                self.objectives.append(objective)
            fit(self_, name, model, objective, *rest)

        def watch_optimizer(
            module: nn.Module, options: OptimizerOptions, device: torch.device
        ) -> torch.optim.Optimizer:
            self.made.append((stage, options))
            return optimizer(module, options, device)

        monkeypatch.setattr(Loop, "fit", watch_fit)
        monkeypatch.setattr(loop, "_optimizer", watch_optimizer)


@pytest.mark.parametrize("recipe", ["irene", "paper"])
def test_each_member_begins_anew_beside_frozen_ones(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, recipe: Any
) -> None:
    watched = Watched(monkeypatch)
    options = IreneOptions(recipe=recipe, selector_lr=0.02, selector_decay=0.7)
    run = trainer("irene", epochs=2, options=options)
    assert watched.frozen == [True, True, True]
    for trained, saved in zip(
        watched.members, run.members(), strict=True
    ):  # no later stage has moved an earlier member
        assert all(torch.equal(trained.state_dict()[key], value) for key, value in saved.state_dict().items())
    assert [objective.companion is not None for objective in watched.objectives] == [False, True, True]
    assert watched.objectives[1].companion is watched.objectives[2].companion  # one selector for all steps
    for stage in ("member-2", "member-3"):
        member, selector = (options for name, options in watched.made if name == stage)
        assert member.schedule.kind == "onecycle"
        assert (selector.kind, selector.lr) == ("adam", 0.02)
        factors = [selector.schedule.factor(progress) for progress in (0.0, 0.29, 0.3, 0.6, 0.8)]
        assert factors == pytest.approx([1, 1, 0.7, 0.7**2, 0.7**3])  # a decay of its own, where the backbone has steps
    assert [name for name, _ in watched.made].count("member-1") == 1


def test_members_that_go_on_begin_where_the_one_before_ended_and_run_last_first(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch)
    run = trainer("irene", options=IreneOptions(cost=1.4, later="go-on"))
    assert watched.frozen == [True, True, True]
    for trained, saved in zip(watched.members, reversed(run.members()), strict=True):
        assert all(torch.equal(trained.state_dict()[key], value) for key, value in saved.state_dict().items())
    cycles = [options for name, options in watched.made if name in ("member-2", "member-3") and options.kind == "sgd"]
    assert [(options.lr, options.schedule.kind) for options in cycles] == [(0.025, "triangle")] * 2
    assert lines(run, "member-2")[0]["base"] < 0.5 * lines(run, "member-1")[0]["base"]
    assert run.figures["heldout"]["cost"] == pytest.approx(1.4, abs=0.02), "the selector knows the order they run in"


def test_members_that_go_on_stay_where_they_began_if_nothing_moves_them(trainer: Trainer) -> None:
    run = trainer("irene", epochs=1, lr=1e-9, options=IreneOptions(later="go-on"))
    outputs = run.bank("test").outputs
    torch.testing.assert_close(outputs[:, :1].expand_as(outputs), outputs, rtol=1e-3, atol=1e-3)


def test_members_that_go_on_are_alike(trainer: Trainer, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"irene with members that go on .* one backbone: got mlp, cnn; give one"):
        trainer("irene", members=2, backbones=("mlp", "cnn"), options=IreneOptions(later="go-on"))
    assert not (tmp_path / "run").exists()


def test_members_that_go_on_may_be_interrupted(trainer: Trainer, interrupted: Trainer) -> None:
    settings = {"epochs": 2, "options": IreneOptions(later="go-on")}
    whole = trainer("irene", name="whole", **settings)
    broken = interrupted("irene", name="broken", at=4, **settings)
    assert torch.equal(whole.bank("test").outputs, broken.bank("test").outputs)


@pytest.mark.parametrize("varied", [False, True])
def test_members_answer_samples_that_stay_the_same_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, varied: bool
) -> None:
    again: list[int] = []
    frozen = Training.frozen

    def counting(self: Training, member: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        call = frozen(self, member)

        def counted(inputs: torch.Tensor) -> torch.Tensor:
            again.append(len(inputs))
            return call(inputs)

        return counted

    monkeypatch.setattr(Training, "frozen", counting)
    data = dataclasses.replace(load("digits"), augment=Augment(crop=1) if varied else Augment())
    run = train(
        "irene",
        data,
        tmp_path / "run",
        options=TrainOptions(members=2, backbones=("mlp",), device="cpu"),
        loop=LoopOptions(epochs=2, batch_size=64),
    )
    assert bool(again) == varied
    assert lines(run, "member-2")[0]["rank"] > 0
