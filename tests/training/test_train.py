"""From data and a method to a run directory, or to a clear word and nothing on the disk."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from irene import __version__
from irene.data.samples import Data
from irene.errors import IreneError, OptionError, RunError, TrainingError
from irene.run import Run
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.train import TrainOptions, default_backbone, train

LOOP = LoopOptions(epochs=4, batch_size=32, optimizer=OptimizerOptions(lr=0.05))
ON_CPU = TrainOptions(members=2, device="cpu")


def test_average_leaves_a_whole_run(tmp_path: Path, blobs: Data) -> None:
    train("average", blobs, tmp_path / "run", options=TrainOptions(members=3, seed=4, device="cpu"), loop=LOOP)
    run = Run.open(tmp_path / "run")
    manifest = run.manifest
    assert (run.method, run.task, manifest["seed"]) == ("average", "classification", 4)
    assert manifest["backbones"] == ["mlp"] * 3
    assert manifest["environment"]["irene"] == __version__
    assert manifest["environment"]["torch"] == torch.__version__
    assert manifest["options"]["loop"]["optimizer"]["lr"] == 0.05
    assert manifest["data"]["fingerprint"] == blobs.fingerprint
    assert manifest["data"]["classes"] == list(blobs.classes)
    sizes = manifest["data"]["sizes"]
    assert sizes["train"] + sizes["heldout"] == len(blobs.train)
    assert all(cost.parameters > 0 and cost.flops > 0 and cost.ms > 0 for cost in run.costs)
    figures = run.figures["test"]
    assert figures["accuracy"] > 0.7
    assert figures["cost"] == 3
    assert {"nll", "ece", "used", "flops", "ms"} <= set(figures)
    assert not (tmp_path / "run" / "stages").exists()


def test_the_banks_hold_what_the_members_answer(tmp_path: Path, blobs: Data) -> None:
    run = train("average", blobs, tmp_path / "run", options=ON_CPU, loop=LOOP)
    bank = run.bank("test")
    assert blobs.test.inputs is not None
    assert torch.equal(bank.targets, blobs.test.targets)
    assert torch.equal(bank.ids, blobs.test.ids)
    assert bank.about == {"split": "test", "fingerprint": blobs.fingerprint}
    for t, member in enumerate(run.members()):
        torch.testing.assert_close(member(blobs.test.inputs).detach(), bank.outputs[:, t], rtol=1e-4, atol=1e-5)
    prediction = run.cascade().predict(blobs.test.inputs)
    torch.testing.assert_close(prediction.probs, bank.replay(run.policy(), run.aggregation).probs)
    assert not torch.equal(bank.outputs[:, 0], bank.outputs[:, 1])  # members differ by their seed
    assert set(run.bank("heldout").ids.tolist()).isdisjoint(bank.ids.tolist())


def test_single_is_one_model_whatever_was_asked(tmp_path: Path, blobs: Data) -> None:
    run = train("single", blobs, tmp_path / "run", options=TrainOptions(members=3, device="cpu"), loop=LOOP)
    assert len(run.members()) == 1
    assert run.figures["test"]["cost"] == 1


def test_members_may_have_different_backbones(tmp_path: Path, blobs: Data) -> None:
    data = Data(**{**vars(blobs), "name": "again"})
    options = TrainOptions(members=2, backbones=("mlp", "mlp"), device="cpu")
    assert train("average", data, tmp_path / "run", options=options, loop=LOOP).manifest["backbones"] == ["mlp", "mlp"]


def test_members_alike_cost_the_same(tmp_path: Path, blobs: Data) -> None:
    options = TrainOptions(members=2, backbones=("mlp",), device="cpu")
    first, second = train("average", blobs, tmp_path / "run", options=options, loop=LOOP).costs
    assert first == second  # and not by chance, as times measured twice are never equal


def test_regression_is_trained_and_judged_in_its_own_units(tmp_path: Path, curve: Data) -> None:
    loop = LoopOptions(epochs=15, batch_size=32, optimizer=OptimizerOptions(kind="adam", lr=0.01))
    run = train("average", curve, tmp_path / "run", options=ON_CPU, loop=loop)
    assert run.task == "regression"
    assert curve.test.inputs is not None
    values = run.cascade().predict(curve.test.inputs).values
    spread = curve.test.targets.std(0)
    assert (((values - curve.test.targets) / spread).square().mean(0) < 0.7).all()


def test_without_a_held_out_slice_there_is_no_bank_of_it(tmp_path: Path, blobs: Data) -> None:
    options = TrainOptions(members=1, heldout=0, device="cpu")
    run = train("average", blobs, tmp_path / "run", options=options, loop=LOOP)
    assert set(run.manifest["banks"]) == set(run.figures) == {"test"}
    assert run.manifest["data"]["sizes"]["train"] == len(blobs.train)


def test_progress_and_tensorboard_are_written_if_asked(tmp_path: Path, blobs: Data) -> None:
    text = StringIO()
    train(
        "single",
        blobs,
        tmp_path / "run",
        options=ON_CPU,
        loop=LOOP,
        console=Console(file=text, force_terminal=True, width=120),
        tensorboard=True,
    )
    assert "member-1" in text.getvalue()
    assert "4/4" in text.getvalue()
    assert list((tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))


def test_a_loss_that_explodes_leaves_an_unfinished_run(tmp_path: Path, blobs: Data) -> None:
    loop = LoopOptions(epochs=50, batch_size=32, optimizer=OptimizerOptions(lr=1e25))
    with pytest.raises(TrainingError, match="lower learning rate"):
        train("single", blobs, tmp_path / "run", options=ON_CPU, loop=loop, tensorboard=True)
    assert not Run.open(tmp_path / "run", unfinished=True).finished


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "avrage"}, r"'avrage'.* average"),
        ({"method": "zzz"}, r"'zzz'.* \(there are:? single, average"),
        ({"data": "digitz"}, "digits"),
        ({"options": TrainOptions(backbones=("resnet99",), device="cpu")}, "no backbone is called 'resnet99'"),
        ({"options": TrainOptions(backbones=("cnn",), device="cpu")}, r"takes images .* use 'mlp'"),
        (
            {"options": TrainOptions(members=2, backbones=("mlp", "resnet99"), device="cpu")},
            "no backbone is called 'resnet99'",  # before the first member is trained
        ),
        ({"method": "irene", "options": TrainOptions(heldout=0, device="cpu")}, "needs samples no member trains on"),
        ({"options": TrainOptions(device="abacus")}, "auto, cpu, cuda or cuda:N, got 'abacus'"),
        ({"options": TrainOptions(heldout=10**6, device="cpu")}, "heldout|held"),
    ],
)
def test_a_mistake_is_named_and_leaves_nothing(
    tmp_path: Path, blobs: Data, change: dict[str, Any], message: str
) -> None:
    settings: dict[str, Any] = {"method": "average", "data": blobs, "options": ON_CPU, **change}
    with pytest.raises(IreneError, match=message) as caught:
        train(settings["method"], settings["data"], tmp_path / "run", options=settings["options"], loop=LOOP)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_run_begun_by_a_version_with_fewer_options_is_told_apart(tmp_path: Path, blobs: Data) -> None:
    """Also where what is new is None unless somebody asks for it."""
    run = train("single", blobs, tmp_path / "run", options=ON_CPU, loop=LOOP)
    del run.manifest["options"]["loop"]["clip"]
    run.write()
    with pytest.raises(RunError, match=r"was started with options\.loop\.clip not set, and None was asked for"):
        train("single", blobs, tmp_path / "run", options=ON_CPU, loop=LOOP, resume=True)


def test_readers_without_anything_to_read_are_refused_before_anything_is_written(tmp_path: Path, blobs: Data) -> None:
    with pytest.raises(OptionError, match="readers read what does not fit in memory, and blobs is in memory"):
        train("single", blobs, tmp_path / "run", options=TrainOptions(readers=2, device="cpu"), loop=LOOP)
    assert not list(tmp_path.iterdir())


def test_options_that_cannot_work_are_refused() -> None:
    with pytest.raises(OptionError, match="at least one member, got 0"):
        TrainOptions(members=0)
    with pytest.raises(OptionError, match="one for each of 3 members, got 2"):
        TrainOptions(members=3, backbones=("mlp", "cnn"))
    with pytest.raises(OptionError, match=r"members must be a whole number, got 2\.0"):
        TrainOptions(members=2.0)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"backbones must be a tuple of names, got 'cnn': give \('cnn',\)"):
        TrainOptions(backbones="cnn")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"options": LoopOptions()}, "options must be TrainOptions, got LoopOptions"),
        ({"loop": {"epochs": 2}}, "loop must be LoopOptions, got dict"),
        ({"method_options": TrainOptions()}, "method_options of single must be None, got TrainOptions"),
    ],
)
def test_options_of_another_kind_are_refused(tmp_path: Path, blobs: Data, given: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        train("single", blobs, tmp_path / "run", **given)


def test_data_may_be_arrays(tmp_path: Path, blobs: Data) -> None:
    arrays = (blobs.train.inputs, blobs.train.targets, blobs.test.inputs, blobs.test.targets)
    one, other = (
        train("single", data, tmp_path / name, options=ON_CPU, loop=LOOP)
        for data, name in ((blobs, "data"), (arrays, "arrays"))
    )
    assert torch.equal(one.bank("test").outputs, other.bank("test").outputs)


def test_a_backbone_is_chosen_by_the_shape() -> None:
    assert default_backbone((7,)) == "mlp"
    assert default_backbone((1, 8, 8)) == "cnn"
    assert default_backbone((3, 32, 32)) == "resnet32"
