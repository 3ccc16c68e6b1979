"""An operating point is written as JSON and tensors, read back as it was, and builds its cascade."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save, save_file
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from torch import Tensor

from irene.bank import Bank
from irene.cascade import Cascade
from irene.errors import CalibrationError, DataError, OptionError
from irene.fitting import fit_policy
from irene.halting import policies
from irene.halting.policy import Policy, State, Step
from irene.halting.registry import POLICIES
from irene.point import OperatingPoint

FITTED = sorted(set(POLICIES) - {"never", "spread", "selector"})


@pytest.mark.parametrize("name", FITTED)
def test_comes_back_from_json_and_safetensors(lifelike_bank: Callable[..., Bank], tmp_path: Path, name: str) -> None:
    bank = lifelike_bank(400, skills=(1.0, 2.0, 2.0))
    point = fit_policy(bank, name, cost=1.5, name="fast")
    save_file(point.tensors(), tmp_path / "fast.safetensors")
    written = json.loads(json.dumps(point.to_dict(), allow_nan=False))
    again = OperatingPoint.from_dict(written, load_file(tmp_path / "fast.safetensors"))
    assert again.to_dict() == point.to_dict()
    assert torch.equal(again.scores, point.scores)
    before, after = (bank.replay(one.policy, one.aggregation) for one in (point, again))
    assert torch.equal(before.members_used, after.members_used)
    assert torch.equal(before.outputs, after.outputs)


def test_says_what_was_asked_on_which_data_and_when(lifelike_bank: Callable[..., Bank]) -> None:
    values = fit_policy(lifelike_bank(400), "margin", cost=1.5, name="fast").to_dict()
    assert values["version"] == 1
    assert values["name"] == "fast"
    assert values["asked"] == {"cost": 1.5, "unit": "members"}
    about = {"fingerprint": "f00d", "split": "heldout", "samples": 400, "members": 3, "outputs": 5}
    assert values["data"] == about
    assert datetime.fromisoformat(values["date"]).tzinfo is not None
    assert set(values["expected"]) == {"cost", "accuracy", "drop", "used", "intervals", "confidence", "unit"}
    assert values["policy"]["name"] == "margin"


def test_a_point_is_shown_in_a_line(lifelike_bank: Callable[..., Bank]) -> None:
    point = fit_policy(lifelike_bank(400), "margin", cost=1.5, name="fast")
    drop = f"drop {point.expected['drop']:.2%}"
    shown = f"margin for cost 1.50 members: {point.expected['accuracy']:.2%} at 1.50 members, {drop}"
    assert repr(point) == f"OperatingPoint(fast, {shown})"
    bare = replace(point, asked={}, expected={}, why="as the run was trained")
    assert repr(bare) == "OperatingPoint(fast, as the run was trained)"


def test_a_bank_without_a_fingerprint_gets_one(make_bank: Callable[..., Bank]) -> None:
    first, other = (fit_policy(make_bank(100, seed=seed), "margin", cost=1.5).data["fingerprint"] for seed in (1, 2))
    assert len(first) == 64
    assert first != other


def test_builds_the_cascade_that_was_calibrated(
    lifelike_bank: Callable[..., Bank],
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
) -> None:
    bank = lifelike_bank(1500, skills=(1.0, 2.0, 3.0), flops=(1.0, 3.0, 6.0))
    for point in (fit_policy(bank, "change", cost=1.5), fit_policy(bank, "margin", p99=9.0)):
        used = bank.members(point.members)
        members = table_members(bank)
        cascade = point.cascade(members, bank.costs)
        run = cascade.predict(sample_numbers(1500))
        assert torch.equal(run.members_used, used.replay(point.policy, point.aggregation).members_used)
        assert cascade.costs == used.costs
    assert not members[2].asked  # it comes too late for 9 ms
    with pytest.raises(CalibrationError, match="needs members 0 to 1, got 1"):
        point.cascade(members[:1])
    with pytest.raises(CalibrationError, match="got 3 members and costs for 1: give one for each"):
        point.cascade(members, bank.costs[:1])


def test_takes_the_models_that_a_cascade_takes() -> None:
    x = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(int)
    models = [LogisticRegression().fit(x, y), GaussianNB().fit(x, y)]
    whole = Cascade.from_members(models)
    point = fit_policy(Bank.of(whole, torch.from_numpy(x), torch.from_numpy(y)), "margin", cost=1.5)
    adapted = point.cascade(whole.members)
    assert adapted.members == whole.members  # they are members already
    one, other = (cascade.predict(x) for cascade in (point.cascade(models), adapted))
    assert torch.equal(one.outputs, other.outputs)
    assert torch.equal(one.members_used, other.members_used)
    regressors = [LinearRegression().fit(x, y)] * 2
    with pytest.raises(OptionError, match="the task is classification and the scikit-learn members are for regression"):
        point.cascade(regressors)


def test_another_format_is_refused(lifelike_bank: Callable[..., Bank]) -> None:
    point = fit_policy(lifelike_bank(100), "margin", cost=1.5)
    with pytest.raises(CalibrationError, match=r"format 2 .* calibrate again"):
        OperatingPoint.from_dict(point.to_dict() | {"format": 2}, point.tensors())


@pytest.mark.parametrize("name", FITTED)
def test_comes_back_from_one_file(lifelike_bank: Callable[..., Bank], tmp_path: Path, name: str) -> None:
    bank = lifelike_bank(400, skills=(1.0, 2.0, 2.0))
    point = fit_policy(bank, name, cost=1.5, name="fast")
    point.save(tmp_path / "points" / "fast.point")
    again = OperatingPoint.load(str(tmp_path / "points" / "fast.point"))
    assert again.to_dict() == point.to_dict()
    assert torch.equal(again.scores, point.scores)
    before, after = (bank.replay(one.policy, one.aggregation) for one in (point, again))
    assert torch.equal(before.outputs, after.outputs)


def test_files_that_are_no_point_are_named(lifelike_bank: Callable[..., Bank], tmp_path: Path) -> None:
    path = tmp_path / "fast.point"
    with pytest.raises(DataError, match=r"fast\.point: no such operating point"):
        OperatingPoint.load(path)
    point = fit_policy(lifelike_bank(400), "change", cost=1.5)
    point.save(path)
    whole = path.read_bytes()
    wrong = {key: value[None] if key.startswith("policy.") else value for key, value in point.tensors().items()}
    for content in (
        b"",
        whole[:300],
        save({"scores": torch.zeros(2)}),
        save(point.tensors(), metadata={"bank": "{}"}),
        save(point.tensors(), metadata={"point": "[1"}),
        save(point.tensors(), metadata={"point": "[]"}),
        save(point.tensors(), metadata={"point": json.dumps({"format": 1})}),
        save(wrong, metadata={"point": json.dumps(point.to_dict())}),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"fast\.point: not an operating point that irene wrote") as caught:
            OperatingPoint.load(path)
        assert "\n" not in str(caught.value)
    path.write_bytes(save(point.tensors(), metadata={"point": json.dumps({"format": 2})}))
    with pytest.raises(CalibrationError, match="format 2"):
        OperatingPoint.load(path)


def test_a_folder_is_no_file_to_save_to(tmp_path: Path, make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(50)
    for kept in (bank, fit_policy(bank, "margin", cost=1.5)):
        with pytest.raises(OptionError, match="is a folder: name a file"):
            kept.save(tmp_path)  # type: ignore[attr-defined]


class Gap(Policy):
    """A policy of the user's own."""

    name = "gap"
    threshold = 0.5

    def score(self, step: Step, state: State) -> tuple[Tensor, State]:
        return step.mean_BK.amax(1), state


class Margin(policies.Margin):
    """Another one, which would come back as irene's own of the name it inherits."""


@pytest.mark.parametrize("own", [Gap, Margin])
def test_a_policy_of_ones_own_is_not_saved(tmp_path: Path, lifelike_bank: Callable[..., Bank], own: Any) -> None:
    point = fit_policy(lifelike_bank(400), own(), cost=1.5, name="mine")
    words = rf"the point mine has the policy {own.__name__}, and a file can hold irene's own policies only \(agree"
    with pytest.raises(OptionError, match=words + r".*\): keep yours in code, with point\.cascade\(members\)"):
        point.save(tmp_path / "mine.point")
    assert list(tmp_path.iterdir()) == []
