from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from irene.data import Augment, Data, load
from irene.errors import OptionError, RunError
from irene.evaluation.facts import learning
from irene.run import Run
from irene.training.method import Training
from irene.training.methods.distil import DistilOptions, mix
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.together import Together
from irene.training.train import TrainOptions, train

Trainer = Callable[..., Run]


def apart(run: Run) -> float:
    """How far the logits of two members are from each other on test samples, each less its mean."""
    logits_NTK = run.bank("test").outputs[:, :, 0]
    logits_NTK = logits_NTK - logits_NTK.mean(2, keepdim=True)
    return float((logits_NTK[:, 0] - logits_NTK[:, 1]).square().mean())


def test_the_costliest_are_trained_first_and_run_where_they_were_asked_for(trainer: Trainer) -> None:
    run = trainer("distil", backbones=("mlp", "cnn", "cnnx0.5", "cnn"), members=4)
    small, large, medium, other = (cost.flops for cost in run.costs)
    assert small < medium < large == other, "the premise"
    assert list(run.epochs()) == ["member-2", "member-4", "taught"]
    assert [member.spec.backbone for member in run.members()] == ["mlp", "cnn", "cnnx0.5", "cnn"]
    taught = {stage: "teaching" in epochs[0] for stage, epochs in run.epochs().items()}
    assert taught == {"member-2": False, "member-4": False, "taught": True}


def test_teachers_are_those_of_an_average_ensemble_and_who_is_taught_is_not(trainer: Trainer) -> None:
    settings = {"backbones": ("mlp", "cnn", "cnn"), "epochs": 2}
    alone, taught = (trainer(method, name=method, **settings).bank("test").outputs for method in ("average", "distil"))
    assert torch.equal(alone[:, 1:], taught[:, 1:])
    assert not torch.equal(alone[:, 0], taught[:, 0])


def test_who_is_taught_does_not_see_others_who_are(trainer: Trainer) -> None:
    one = trainer("distil", name="one", backbones=("mlp", "cnn"), members=2, epochs=2)
    two = trainer("distil", name="two", backbones=("mlp", "cnn", "cnnx0.5"), epochs=2)
    assert torch.equal(one.bank("test").outputs, two.bank("test").outputs[:, :2])


def test_members_side_by_side_have_the_sum_of_their_losses(trainer: Trainer) -> None:
    """Of members that stay as they were made."""
    settings = {"epochs": 1, "lr": 1e-9}

    def losses(*small: str) -> tuple[float, float]:
        run = trainer("distil", name="-".join(small), backbones=(*small, "cnn"), members=len(small) + 1, **settings)
        (epoch,) = run.epochs()["taught"]
        return epoch["labels"], epoch["teaching"]

    one, two = losses("mlp"), losses("mlp", "cnnx0.5")
    assert two[0] == pytest.approx(2 * one[0], rel=0.1), "members that know nothing are about equally wrong"
    assert two[1] > one[1]


def test_all_of_the_costliest_teach(trainer: Trainer) -> None:
    one = trainer("distil", name="one", backbones=("mlp", "cnn"), members=2, epochs=2)
    two = trainer("distil", name="two", backbones=("mlp", "cnn", "cnn"), epochs=2)
    alone, other = (run.bank("test").outputs for run in (one, two))
    assert torch.equal(alone[:, 1], other[:, 1]), "the premise: the first teacher is the same"
    assert not torch.equal(alone[:, 0], other[:, 0])


def test_options_weigh_labels_and_teachers_and_soften_these(trainer: Trainer) -> None:
    """Of members that stay as they were made."""
    settings = {"backbones": ("mlp", "cnn"), "members": 2, "epochs": 1, "lr": 1e-9}
    label_loss = trainer("average", name="alone", **settings).epochs()["member-1"][0]["base"]
    taught = {}
    for weight, temperature in ((0.25, 4.0), (0.75, 4.0), (0.75, 0.1)):
        options = DistilOptions(weight=weight, temperature=temperature)
        (epoch,) = trainer("distil", name=f"{weight}-{temperature}", options=options, **settings).epochs()["taught"]
        assert epoch["labels"] == pytest.approx((1 - weight) * label_loss, rel=0.01), "another last batch is left out"
        taught[weight, temperature] = epoch["teaching"] / weight
    assert taught[0.25, 4.0] == pytest.approx(taught[0.75, 4.0])
    assert taught[0.75, 0.1] != pytest.approx(taught[0.75, 4.0], rel=0.01)


def test_teachers_that_are_there_already_teach_as_those_trained_here(trainer: Trainer) -> None:
    settings = {"backbones": ("mlp", "cnn", "cnn"), "epochs": 2}
    there = trainer("average", name="there", **settings)
    options = DistilOptions(teachers=str(there.path))
    trained, taken = (
        trainer("distil", name=f"{given is None}", options=given, **settings) for given in (None, options)
    )
    assert list(taken.epochs()) == ["taught"]
    assert torch.equal(taken.bank("test").outputs, trained.bank("test").outputs)
    assert torch.equal(taken.bank("heldout").outputs[:, 1:], there.bank("heldout").outputs[:, 1:])


def test_teachers_may_stand_anywhere_in_their_run(trainer: Trainer) -> None:
    there = trainer("average", name="there", backbones=("cnn", "mlpx2", "cnn"), epochs=1)
    options = DistilOptions(teachers=str(there.path))
    run = trainer("distil", backbones=("mlp", "cnn", "cnn"), epochs=1, options=options)
    assert torch.equal(run.bank("test").outputs[:, 1:], there.bank("test").outputs[:, [0, 2]])


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"seed": 1}, r"other samples \(of digits, seed 0, \d+ held out\).*give the data, seed and held-out samples"),
        (
            {"backbones": ("mlp", "cnn", "cnn")},
            r"2 members like cnn of 1 heads were expected, and it has mlp .*, cnn of",
        ),
        ({"backbones": ("mlp", "cnnx2")}, "1 members like cnnx2 of 1 heads"),
    ],
)
def test_teachers_that_do_not_fit_are_refused_and_nothing_is_left(
    trainer: Trainer, tmp_path: Path, settings: dict[str, Any], wrong: str
) -> None:
    there = trainer("average", name="there", backbones=("mlp", "cnn"), members=2, epochs=1)
    asked = {"backbones": ("mlp", "cnn"), **settings}
    options = DistilOptions(teachers=str(there.path))
    with pytest.raises(RunError, match=wrong):
        trainer("distil", members=len(asked["backbones"]), options=options, epochs=1, **asked)
    assert [folder.name for folder in tmp_path.iterdir() if folder.is_dir()] == ["there"]


def test_teaching_may_take_longer_than_learning_from_labels(trainer: Trainer) -> None:
    settings = {"backbones": ("mlp", "cnn"), "members": 2, "epochs": 1}
    short = trainer("distil", name="short", **settings)
    long = trainer("distil", name="long", options=DistilOptions(taught_epochs=3), **settings)
    assert {stage: len(epochs) for stage, epochs in long.epochs().items()} == {"member-2": 1, "taught": 3}
    assert torch.equal(long.bank("test").outputs[:, 1], short.bank("test").outputs[:, 1])


def test_teachers_that_go_on_are_trained_last_first(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    began: dict[str, dict[str, torch.Tensor]] = {}
    schedules: dict[str, str] = {}
    fit = Training.fit

    def watching(self: Training, stage: str, member: nn.Module, *rest: Any, **more: Any) -> None:
        began[stage] = {key: value.clone() for key, value in member.state_dict().items()}
        schedules[stage] = (more.get("options") or self.loop_options).optimizer.schedule.kind
        fit(self, stage, member, *rest, **more)

    monkeypatch.setattr(Training, "fit", watching)
    options = DistilOptions(later="go-on")
    run = trainer("distil", backbones=("mlp", "cnn", "cnn", "cnn"), members=4, epochs=2, options=options)
    assert list(run.epochs()) == ["member-4", "member-3", "member-2", "taught"]
    assert list(schedules.values()) == ["onecycle", "triangle", "triangle", "onecycle"]
    ended = {f"member-{place}": member.state_dict() for place, member in enumerate(run.members(), 1)}
    for stage, behind in (("member-3", "member-4"), ("member-2", "member-3")):
        assert all(torch.equal(began[stage][key], value) for key, value in ended[behind].items())
        assert any(not torch.equal(ended[stage][key], value) for key, value in ended[behind].items())


def test_those_who_have_gone_on_teach(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not those who were listed before they were trained."""
    asked: list[nn.Module] = []
    frozen = Training.frozen

    def watching(self: Training, member: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        asked.append(member)
        return frozen(self, member)

    monkeypatch.setattr(Training, "frozen", watching)
    options = DistilOptions(later="go-on", mixed=True)
    run = trainer("distil", backbones=("mlp", "cnn", "cnn"), epochs=1, options=options)
    for teacher, saved in zip(asked, run.members()[1:], strict=True):
        assert all(torch.equal(teacher.state_dict()[key].cpu(), value) for key, value in saved.state_dict().items())


@pytest.mark.parametrize(
    ("own", "wrong"),
    [
        ({"later": "again"}, "later must be anew or go-on, got 'again'"),
        ({"later": "go-on", "teachers": "there"}, "leave out later or teachers, got there"),
    ],
)
def test_going_on_that_means_nothing_is_refused(own: dict[str, Any], wrong: str) -> None:
    with pytest.raises(OptionError, match=wrong):
        DistilOptions(**own)


def test_teachers_that_go_on_are_alike(trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cost = Training.cost
    monkeypatch.setattr(
        Training, "cost", lambda self, member: dataclasses.replace(cost(self, member), flops=len(member.spec.backbone))
    )
    with pytest.raises(OptionError, match=r"teachers that go on .* one backbone: got cnnx2, mlpx2; give one"):
        trainer("distil", backbones=("mlp", "cnnx2", "mlpx2"), options=DistilOptions(later="go-on"))
    assert not (tmp_path / "run").exists()


def test_teachers_that_go_on_may_be_interrupted(trainer: Trainer, interrupted: Trainer) -> None:
    settings = {"backbones": ("mlp", "cnn", "cnn"), "epochs": 2, "options": DistilOptions(later="go-on")}
    whole = trainer("distil", name="whole", **settings)
    broken = interrupted("distil", name="broken", at=4, **settings)
    assert torch.equal(whole.bank("test").outputs, broken.bank("test").outputs)


def test_members_that_cost_the_same_cannot_teach_each_other(trainer: Trainer, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"these cost the same: mlp, mlp, mlp; give --backbones that differ"):
        trainer("distil")
    assert not (tmp_path / "run").exists()


def test_who_is_taught_answers_more_like_the_teacher(trainer: Trainer) -> None:
    settings = {"backbones": ("mlp", "cnn"), "members": 2, "epochs": 8}
    alone = trainer("average", name="a", **settings)
    taught = trainer("distil", name="d", **settings)
    assert apart(taught) < 0.5 * apart(alone)


def test_what_is_shown_of_its_learning_is_the_whole_loss(trainer: Trainer) -> None:
    run = trainer("distil", backbones=("mlp", "cnn"), members=2, epochs=2)
    taught = run.epochs()["taught"]
    assert learning(run)["taught"] == [epoch["labels"] + epoch["teaching"] for epoch in taught]


def test_mixtures_are_of_neighbours_in_shares_of_their_own() -> None:
    torch.manual_seed(0)
    images = torch.randint(0, 256, (64, 3, 4, 4), dtype=torch.uint8)
    mixed = mix(images)
    assert mixed.dtype == torch.uint8
    own, other = images.double(), images.roll(1, 0).double()
    apart = (own - other).flatten(1)
    share = ((mixed.double() - other).flatten(1) * apart).sum(1) / apart.square().sum(1)
    again = share[:, None, None, None] * own + (1 - share[:, None, None, None]) * other
    assert (again - mixed).abs().max() < 1
    assert share.min() < 0.1 < 0.9 < share.max()
    assert share.mean() == pytest.approx(0.5, abs=0.15)
    assert torch.equal(mix(torch.ones(4, 1, 2, 2)), torch.ones(4, 1, 2, 2))


def test_of_mixtures_only_the_teachers_know_the_answer(tmp_path: Path) -> None:
    """The teacher learns wrong labels, and so does who is taught, though the labels would have a weight."""
    run = learned_wrong_labels(tmp_path / "run", DistilOptions(weight=0.1, mixed=True))
    assert all("labels" not in epoch for epoch in run.epochs()["taught"])


def test_who_is_taught_sees_the_mixture_that_the_teachers_answer(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []
    frozen, forward = Training.frozen, Together.forward

    def watching(self: Training, member: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        call = frozen(self, member)
        return lambda inputs: (seen.append(inputs.clone()), call(inputs))[1]

    def together(self: Together, x: torch.Tensor) -> torch.Tensor:
        seen.append(x.clone())
        return forward(self, x)

    monkeypatch.setattr(Training, "frozen", watching)
    monkeypatch.setattr(Together, "forward", together)
    trainer("distil", backbones=("mlp", "cnn"), members=2, epochs=1, options=DistilOptions(mixed=True))
    learned = seen[: len(seen) // 2 * 2]
    assert learned
    assert all(torch.equal(one, other) for one, other in zip(learned[::2], learned[1::2], strict=True))
    assert not torch.isin(learned[0].flatten(1).sum(1), load("digits").train.inputs.flatten(1).sum(1)).all()


def test_only_images_are_mixed(trainer: Trainer, tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"mixed is for images \(C, H, W\), got inputs of shape \(10,\): leave it out"
    ):
        trainer("distil", data="diabetes", backbones=("mlpx0.5", "mlp"), members=2, options=DistilOptions(mixed=True))
    assert not (tmp_path / "run").exists()


def with_wrong_labels(data: Data, augment: Augment | None) -> Data:
    moved = dataclasses.replace(data.train, targets=(data.train.targets + 1) % 10)
    return dataclasses.replace(data, train=moved, augment=augment)


def learned_wrong_labels(out: Path, options: DistilOptions, augment: Augment | None = None) -> Run:
    """A distillation whose labels are wrong, after which all members have learned these."""
    run = train(
        "distil",
        with_wrong_labels(load("digits"), augment),
        out,
        options=TrainOptions(members=2, backbones=("mlp", "cnn"), device="cpu"),
        loop=LoopOptions(epochs=8, batch_size=64, optimizer=OptimizerOptions(lr=0.05)),
        method_options=options,
    )
    test = run.bank("test")
    wrong = (test.outputs[:, :, 0].argmax(2) == (test.targets[:, None] + 1) % 10).double().mean(0)
    assert (wrong > 0.5).all(), "chance is 0.1"
    return run


@pytest.mark.parametrize("augment", [None, Augment(crop=1)])
def test_what_is_taught_comes_from_the_teachers(augment: Augment | None, tmp_path: Path) -> None:
    """The teacher learns wrong labels, and so does who sees no label at all."""
    run = learned_wrong_labels(tmp_path / "run", DistilOptions(weight=1.0), augment)
    assert all(epoch["labels"] == 0 for epoch in run.epochs()["taught"])


@pytest.mark.parametrize(
    "options",
    [
        {"weight": 0.0},
        {"weight": 1.1},
        {"temperature": 0.0},
        {"temperature": math.inf},
        {"temperature": math.nan},
        {"taught_epochs": 0},
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="must be above 0"):
        DistilOptions(**options)
