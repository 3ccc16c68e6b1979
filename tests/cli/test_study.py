"""`irene study`: five questions, from runs that exist or are trained for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Irene = Callable[..., Any]


def test_what_is_missing_is_trained(irene: Irene, files: Path, workplace: Path) -> None:
    said = irene(
        *("study", "members", "--data", f"npz:{files / 'points.npz'}", "--members", 2, "--seeds", 1),
        *("--epochs", 2, "--batch-size", 32, "--device", "cpu", "--json"),
    ).json
    assert said["study"] == "members"
    assert said["members"] == [1, 2]
    assert said["lost"] == {}
    folder = workplace / "runs" / "points"
    assert sorted(path.name for path in folder.iterdir()) == ["average-t2-s0", "studies"]
    assert sorted(path.name for path in (folder / "studies").iterdir()) == [
        "members.json",
        "members.png",
        "members.svg",
    ]


def test_runs_that_exist(irene: Irene, run_folder: Path, workplace: Path) -> None:
    done = irene("study", "curves", run_folder)
    assert done.code == 0
    assert done.out.split() == ["studies/curves.json", "studies/curves.svg", "studies/curves.png"]
    assert (workplace / "studies" / "curves.png").stat().st_size > 10_000
    said = irene("study", "curves", run_folder, "--out", workplace / "elsewhere", "--json").json
    assert said["files"][0] == str(workplace / "elsewhere" / "curves.json")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("curved",), "did you mean curves"),
        (("members",), "give runs to compare, or the data to train on"),
        (("members", "nowhere"), "not a run"),
    ],
)
def test_mistakes(irene: Irene, workplace: Path, arguments: tuple[str, ...], words: str) -> None:
    assert words in irene("study", *arguments).mistake
    assert not list(workplace.iterdir())


@pytest.mark.parametrize(("data", "members"), [("digits", 2), ("diabetes", 3)])
def test_a_study_that_cannot_be_is_refused_before_training(
    irene: Irene, workplace: Path, data: str, members: int
) -> None:
    said = irene("study", "size", "--data", data, "--members", members, "--seeds", 1, "--epochs", 1, "--device", "cpu")
    assert "utility is measured against" in said.mistake
    assert f"with {members}" in said.mistake
    assert not list(workplace.iterdir())


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("pareto", "--members", 1), "got 1 member: give two or more"),
        (("ablation", "--set", "irene.without=rank"), "one part after the other, got without=rank"),
    ],
)
def test_a_study_of_nothing_is_refused_before_training(
    irene: Irene, workplace: Path, asked: tuple[object, ...], words: str
) -> None:
    assert words in irene("study", *asked, "--data", "digits", "--seeds", 1, "--epochs", 1, "--device", "cpu").mistake
    assert not list(workplace.iterdir())


def test_runs_and_training_exclude_each_other(irene: Irene, run_folder: Path) -> None:
    for flag, value in (("--workers", 2), ("--members", 3), ("--heldout", 0.2)):
        assert f"{flag} is for training" in irene("study", "curves", run_folder, flag, value).mistake
    assert "needs a run of average" in irene("study", "members", run_folder).mistake
