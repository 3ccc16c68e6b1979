"""`irene train`: the flags reach the run, and flags a method does not have are refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from irene.run import Run

Irene = Callable[..., Any]
FAST = ("--epochs", "2", "--batch-size", "32")


@pytest.fixture
def points(files: Path) -> tuple[str, str]:
    return "--data", f"npz:{files / 'points.npz'}"


def options_of(folder: Path) -> dict[str, Any]:
    options: dict[str, Any] = json.loads((folder / "run.json").read_text())["options"]
    return options


def test_one_object_with_the_figures(irene: Irene, workplace: Path) -> None:
    flags = ("--data", "digits", "--members", "3", "--out", "run", "--epochs", "1", "--json")
    done = irene("train", "average", *flags)
    assert done.code == 0
    said = done.json
    assert (said["run"], said["method"], said["members"]) == ("run", "average", 3)
    assert said["test"]["used"] == [0, 0, 1]
    assert said["test"]["cost"] == 3
    assert all(math.isfinite(said["test"][name]) for name in ("accuracy", "nll", "ece"))
    assert "member-3" in done.err  # progress is for stderr
    run = Run.open(workplace / "run")
    assert said["test"] == run.figures["test"]
    assert run.manifest["command"] == f"irene train average {' '.join(flags)}"


def test_people_get_a_table_and_the_path(irene: Irene, workplace: Path, points: tuple[str, str]) -> None:
    done = irene("train", "single", *points, *FAST)
    assert "accuracy" in done.out
    assert "runs/single-points-seed0" in done.out


def test_a_taken_name_gets_a_number(irene: Irene, workplace: Path, points: tuple[str, str]) -> None:
    for _ in range(3):
        assert irene("train", "single", *points, *FAST, "--seed", "7").code == 0
    names = sorted(path.name for path in (workplace / "runs").iterdir())
    assert names == ["single-points-seed7", "single-points-seed7-2", "single-points-seed7-3"]


def test_resume_goes_on_or_is_done_at_once(irene: Irene, workplace: Path, points: tuple[str, str]) -> None:
    first = irene("train", "single", *points, *FAST, "--out", "run", "--json").json
    again = irene("train", "single", *points, *FAST, "--out", "run", "--resume", "--json").json
    assert again == first
    changed = irene("train", "single", *points, "--epochs", "5", "--out", "run", "--resume")
    assert "was started with options.loop.epochs " in changed.mistake


def test_every_flag_of_the_loop_reaches_the_run(irene: Irene, workplace: Path, points: tuple[str, str]) -> None:
    flags = "--epochs 2 --batch-size 16 --optimizer adam --lr 0.002 --weight-decay 0.01 --schedule cosine --clip 1.5"
    more = "--precision fp32 --no-compile --checkpoint-seconds 60 --heldout 30 --seed 3 --device cpu --out run"
    done = irene("train", "average", *points, *flags.split(), *more.split(), "--backbones", "mlp,mlp")
    assert done.code == 0, done.err
    loop = options_of(workplace / "run")["loop"]
    assert (loop["epochs"], loop["batch_size"], loop["clip"], loop["precision"]) == (2, 16, 1.5, "fp32")
    optimizer = loop["optimizer"]
    assert (optimizer["kind"], optimizer["lr"], optimizer["weight_decay"]) == ("adam", 0.002, 0.01)
    assert optimizer["schedule"]["kind"] == "cosine"
    manifest = Run.open(workplace / "run").manifest
    assert manifest["backbones"] == ["mlp", "mlp"]
    assert manifest["data"]["sizes"]["heldout"] == 30
    assert manifest["seed"] == 3


def test_adam_has_a_learning_rate_of_its_own(irene: Irene, workplace: Path, points: tuple[str, str]) -> None:
    assert irene("train", "single", *points, *FAST, "--optimizer", "adam", "--out", "run").code == 0
    assert options_of(workplace / "run")["loop"]["optimizer"]["lr"] == 1e-3


def test_every_flag_of_irene_reaches_the_run(irene: Irene, workplace: Path, points: tuple[str, str]) -> None:
    flags = "--cost 40K --cost-unit flops --selector-data folds --folds 3 --features margin,kl --weights"
    losses = "--ensemble-weight 0.5 --cost-weight 2 --rank-weight 0.2 --discrepancy-weight 0.03"
    rest = "--without rank --without ensemble --set hidden=4 --members 2 --out run"
    done = irene("train", "irene", *points, *FAST, *flags.split(), *losses.split(), *rest.split())
    assert done.code == 0, done.err
    own = options_of(workplace / "run")["method"]
    assert (own["cost"], own["cost_unit"], own["selector_data"], own["folds"]) == (40e3, "flops", "folds", 3)
    assert (own["features"], own["weights"], own["hidden"]) == (["margin", "kl"], True, 4)
    assert own["without"] == ["rank", "ensemble"]
    assert own["loss_weights"] == {"ensemble": 0.5, "cost": 2.0, "rank": 0.2, "discrepancy": 0.03}


def test_a_cost_may_bring_its_unit(irene: Irene, points: tuple[str, str]) -> None:
    far = "a mean cost of 9000 ms cannot be reached: these members cost"  # so it was read, and nothing is trained
    assert irene("train", "irene", *points, "--cost", "9s").mistake.startswith(far)
    assert irene("train", "irene", *points, "--cost", "9000", "--cost-unit", "ms").mistake.startswith(far)


def test_the_papers_recipe_brings_its_schedule(irene: Irene, workplace: Path, points: tuple[str, str]) -> None:
    assert irene("train", "irene", *points, "--recipe", "paper", "--epochs", "2", "--out", "run").code == 0
    loop = options_of(workplace / "run")["loop"]
    assert (loop["epochs"], loop["batch_size"]) == (2, 128)  # what is given counts
    assert loop["optimizer"]["schedule"]["kind"] == "multistep"


def test_options_of_another_method_by_set(irene: Irene, workplace: Path, points: tuple[str, str]) -> None:
    assert irene("train", "woc", *points, *FAST, "--set", "tolerance=0.1", "--out", "run").code == 0
    assert options_of(workplace / "run")["method"] == {"tolerance": 0.1}


@pytest.mark.parametrize(
    ("method", "flags", "words"),
    [
        ("average", "--cost 1.2", "--cost is no option of average: it has no options of its own"),
        ("woc", "--recipe paper", "--recipe is no option of woc: its options are tolerance"),
        ("woc", "--set tolerence=1", "--set tolerence is no option of woc: its options are tolerance"),
        ("woc", "--set tolerance", "--set takes NAME=VALUE, got 'tolerance'"),
        ("woc", "--set tolerance=much", "--set tolerance takes a number, got 'much'"),
        ("woc", "--set tolerance=0 --set tolerance=1", "--set tolerance is given twice: leave one of the two out"),
        ("irene", "--cost 1.2 --set cost=1.5", "--cost and --set cost are the same option: leave one of the two out"),
        ("irene", "--cost-weight 1 --set loss_weights.cost=2", "--cost-weight and --set loss_weights.cost are the"),
        ("average", "--checkpoint-seconds -1", "seconds between checkpoints must be 0 or more, got -1"),
        ("irene", "--cost much", "--cost takes a number or none, got 'much'"),
        ("irene", "--cost-unit hours", "--cost-unit takes one of members, flops, ms, got 'hours'"),
        ("irene", "--features kl,,margin", "--features takes a comma-separated list: text or none, got 'kl,,margin'"),
        ("average", "--backbones mlp,,mlp", "got 'mlp,,mlp', where a name is empty: fill it in"),
        ("irene", "--recipe secret", "--recipe takes one of irene, paper, got 'secret'"),
        ("irene", "--cost 3ms --cost-unit flops", "--cost 3ms is a time and --cost-unit is flops"),
        ("average", "--cost 3ms", "--cost is no option of average"),
        ("irene", "--without soul", "--without takes a comma-separated list"),
        ("irene", "--set loss_weights=1", "--set loss_weights is no option of irene: its options are"),
        ("average", "--optimizer lion", "--optimizer takes one of sgd, adam, got 'lion'"),
        ("average", "--schedule now", "--schedule takes one of constant"),
        ("average", "--lr 0", "learning rate must be above 0"),
        ("single", "--members 3", "single always has 1 member, got --members 3"),
        ("mimo", "--backbones mlp,mlpx0.5", "mimo always has 1 member, got --backbones mlp,mlpx0.5: give one"),
        ("average", "--backbone mlp --backbones mlp,mlp", "not both"),
        ("average", "--backbone mlp,mlp", "--backbone takes one name"),
        ("average", "--backbones mlp,mlp --members 3", "one for each of 3 members"),
    ],
)
def test_flags_that_cannot_be_meant(
    irene: Irene, workplace: Path, points: tuple[str, str], method: str, flags: str, words: str
) -> None:
    assert words in irene("train", method, *points, *flags.split()).mistake
    assert not list(workplace.iterdir())


def test_control_c_says_how_to_go_on(
    irene: Irene, workplace: Path, points: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("irene.cli.training.train_run", interrupted)
    done = irene("train", "single", *points, "--out", "run")
    assert done.code == 130
    assert "--resume --out run" in done.err
    assert "Traceback" not in done.err
