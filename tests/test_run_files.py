"""What is replaced in a run is whole at any moment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from irene.bank import Bank
from irene.fitting import fit_policy
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.run import Run
from irene.run_files import reached
from irene.types import Cost


@pytest.fixture
def run_path(tmp_path: Path, make_bank: Callable[..., Bank]) -> Path:
    about = {"method": "average", "task": "classification", "data": {"classes": ["a", "b", "c", "d"], "shape": []}}
    run = Run.create(tmp_path / "run", about)
    run.save_absent([Cost(), Cost()])
    run.save_policy(Selector(0.1))
    run.save_bank("test", make_bank(9, members=2))
    run.write(status="finished", aggregation=Aggregation.equal(2).to_dict(), figures={})
    return run.path


def selector_of(threshold: float, seed: int) -> Selector:
    torch.manual_seed(seed)
    return Selector(threshold)


def change(run: Run, what: str, seed: int, make_bank: Callable[..., Bank]) -> None:
    """Replace a point, the policy or a bank of a run, and write it."""
    torch.manual_seed(seed)
    if what == "point":
        run.save_point(replace(fit_policy(make_bank(200, members=2), "change", cost=1.5, name="fast"), why=str(seed)))
    elif what == "policy":
        run.save_policy(selector_of(seed / 10, seed))
        run.write()
    else:
        run.save_bank("test", make_bank(seed, members=2))
        run.write()


def state(path: Path, what: str) -> str:
    """Which of the changes a run holds, all of its files being whole."""
    run = Run.open(path)
    if what == "point":
        return run.point("fast").why
    if what == "policy":
        policy = run.policy()
        assert isinstance(policy, Selector)
        expected = selector_of(policy.threshold, round(10 * policy.threshold)).state_dict()
        assert all(torch.equal(value, expected[name]) for name, value in policy.state_dict().items())
        return str(round(10 * policy.threshold))
    return str(len(run.bank("test")))


class Killed(BaseException):
    """What nobody catches, as a kill."""


def kill_after(steps: int, patch: pytest.MonkeyPatch) -> None:
    """Let so many files be given a name or be removed, and none after that."""
    left = steps

    def step(do: Callable[..., None], *arguments: Any, **more: Any) -> None:
        nonlocal left
        if left == 0:
            raise Killed
        left -= 1
        do(*arguments, **more)

    for name in ("replace", "unlink"):
        patch.setattr(os, name, partial(step, getattr(os, name)))


@pytest.mark.parametrize("what", ["point", "policy", "bank"])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new(
    run_path: Path, what: str, make_bank: Callable[..., Bank], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process ends before one of the steps at which the disk changes; the next one then goes on as if it had not."""
    change(Run.open(run_path), what, 2, make_bank)
    found = []
    for moment in range(20):
        before = state(run_path, what)
        with monkeypatch.context() as patch:
            kill_after(moment, patch)
            try:
                change(Run.open(run_path), what, 3 + moment, make_bank)
            except Killed:
                ended = False
            else:
                ended = True
        found.append(state(run_path, what))
        assert found[-1] in (before, str(3 + moment))
        if ended:
            break
    else:
        raise AssertionError("never came to the end")
    assert moment >= 2, "there were moments to be killed at"
    assert found[0] == "2", "the first of them is before anything has changed"
    assert found[-1] == str(3 + moment)
    manifest = json.loads((run_path / "run.json").read_text())
    points = manifest["points"].values()
    entries = [manifest["policy"], *manifest["banks"].values(), *points]
    named = [entry["file"] for entry in (*entries, *(point["tensors"] for point in points))]
    files = sorted(str(path.relative_to(run_path)) for path in run_path.rglob("*") if path.is_file())
    assert [file for file in files if not Path(file).name.startswith(".")] == sorted([*named, "run.json"])


def test_how_far_a_training_is_by_its_last_whole_line(tmp_path: Path) -> None:
    assert reached(tmp_path) == ""
    lines = [json.dumps({"stage": "member-2", "epoch": epoch, "loss": 0.5}) + "\n" for epoch in range(3)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines))
    assert reached(tmp_path) == "member-2, epoch 3"
    (tmp_path / "metrics.jsonl").write_text("".join(lines)[:-9])
    assert reached(tmp_path) == ""
