"""What is said about thresholds under corruption and about promises is what a replay of the banks gives."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import comb
from pathlib import Path
from typing import Any

import beyond
import pytest
import torch
from beyond import CLEAN, MARGIN
from replay import beyond_promises

from irene.bank import Bank
from irene.fitting import fit_policy
from irene.halting.policies import Margin
from irene.halting.policy import Policy
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.run import Run
from irene.training.afterwards import selector_fitter

COSTS = {f"{cost:g}" for cost in beyond.EQUAL_COSTS}


@pytest.fixture(scope="module", autouse=True)
def _in_a_hurry() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (beyond, beyond_promises):
            patch.setattr(module, "selector_fitter", partial(selector_fitter, epochs=2))
        yield


def write_run(folder: Path, banks: dict[str, Bank], policy: Policy) -> None:
    """A run as train.py packs it: without members. A selector of out-of-fold predictions is kept as it is."""
    options = {"method": {"recipe": "irene", "selector_data": "folds", "without": []}}
    data = {"classes": [], "shape": []}
    run = Run.create(folder, {"method": "irene", "task": "classification", "data": data, "options": options})
    test = banks["test"]
    run.save_absent(test.costs)
    run.save_policy(policy)
    for split, bank in banks.items():
        run.save_bank(split, bank)
    run.write(status="finished", figures={}, aggregation=Aggregation.equal(test.steps).to_dict())


@pytest.fixture(scope="module")
def folder(lifelike_bank: Callable[..., Bank], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of one setting, with a set of harder images, and what is not looked at."""
    folder = tmp_path_factory.mktemp("packed")
    for seed in (0, 1):
        test = lifelike_bank(400, seed=10 + seed)
        test = replace(test, targets=lifelike_bank(400, seed=10).targets)  # the same samples in both
        banks = {
            "heldout": lifelike_bank(400, seed=seed),
            "test": test,
            "noise-1": replace(test, outputs=0.5 * test.outputs),
            "noise-2": replace(test, outputs=0.25 * test.outputs),
            "blur-5": replace(test, outputs=test.outputs.flip(0)),
        }
        write_run(folder / f"thin-s{seed}-e2", banks, Selector(threshold=0.0))
    single = {split: lifelike_bank(50, skills=(2.0,)) for split in ("heldout", "test")}
    write_run(folder / "single-s0", single, Margin(0.0))
    (folder / "notes").mkdir()
    return folder


@pytest.fixture(scope="module")
def setting(folder: Path) -> beyond.Setting:
    (found,) = beyond.settings(folder)
    return found


@pytest.fixture(scope="module")
def looks(setting: beyond.Setting) -> beyond.Looks:
    return beyond.look(setting)


def test_runs_that_differ_in_their_seed_are_one_setting(setting: beyond.Setting) -> None:
    assert setting.name == "thin-e2"
    assert len(setting.runs) == 2
    assert list(setting.runs[0].sets) == [CLEAN, "noise-1", "noise-2", "blur-5"]
    assert setting.costs == beyond.EQUAL_COSTS


def test_a_runs_own_selector_is_looked_at_where_all_runs_have_one(setting: beyond.Setting, folder: Path) -> None:
    assert all(run.own is not None for run in setting.runs)
    first, second = setting.runs
    lacking = beyond.as_setting("name", [first, replace(second, own=None)])
    assert [run.own for run in lacking.runs] == [None, None]
    assert beyond.read(folder / "single-s0").own is None  # its policy is no selector


def test_every_policy_is_paired_with_margin_run_by_run(looks: beyond.Looks) -> None:
    for by_cost in looks.values():
        for here in by_cost.values():
            assert list(here) == ["margin", "change", "selector", "own selector"]
            assert all(len(mine.costs) == len(mine.matched) == 2 for mine in here.values())


def test_other_images_cannot_be_averaged(setting: beyond.Setting) -> None:
    first, second = setting.runs
    shuffled = replace(second, sets={name: bank.rows(torch.arange(399, -1, -1)) for name, bank in second.sets.items()})
    with pytest.raises(SystemExit, match="cannot be averaged"):
        beyond.as_setting("name", [first, shuffled])
    with pytest.raises(SystemExit, match="cannot be averaged"):
        beyond.as_setting("name", [first, replace(second, sets={CLEAN: second.sets[CLEAN]})])


def test_unequal_members_are_counted_in_flops_of_the_dearest(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(50, flops=(0.4, 0.4, 1.0))
    found = beyond.as_setting("name", [beyond.Ensemble(bank, {CLEAN: bank}, None)])
    assert (found.unit, found.unit_size) == ("flops", 1e6)
    assert found.costs == (0.5, 0.7)  # not even the first member can be had for 0.3


def test_a_deployed_threshold_is_what_a_replay_gives(setting: beyond.Setting, looks: beyond.Looks) -> None:
    for index, run in enumerate(setting.runs):
        for cost in setting.costs:
            fitted = dict(beyond.policies(run, setting, cost))[MARGIN]
            scores = run.heldout.trajectory(*fitted)
            # By hand: the threshold among all scores whose mean number of members is nearest to the asked one.
            cuts = scores.cuts()
            used = torch.stack([scores.halting_steps(float(cut)).double().mean() for cut in cuts])
            policy = fitted.policy.at(float(cuts[(used - cost).abs().argmin()]))
            for name, bank in run.sets.items():
                answer = bank.replay(policy, fitted.aggregation)
                mine = looks[name][cost][MARGIN]
                assert mine.costs[index] == pytest.approx(float(answer.members_used.double().mean()))
                assert torch.equal(mine.deployed[index].bool(), answer.labels == bank.targets)
                whole = bank.replay(None, fitted.aggregation)
                assert torch.equal(mine.whole[index].bool(), whole.labels == bank.targets)


def test_unsure_outputs_cost_more_than_was_asked_for(looks: beyond.Looks) -> None:
    for cost in beyond.EQUAL_COSTS:
        clean, softer, softest = (looks[name][cost][MARGIN].costs[0] for name in (CLEAN, "noise-1", "noise-2"))
        assert clean == pytest.approx(cost, abs=0.15)
        assert clean < softer < softest


def test_the_same_cost_is_that_of_margin_on_these_images(setting: beyond.Setting, looks: beyond.Looks) -> None:
    run = setting.runs[1]
    cost = 1.3
    spent = looks["noise-1"][cost][MARGIN].costs[1]
    policy, mean = dict(beyond.policies(run, setting, cost))["change"]
    scores = run.sets["noise-1"].trajectory(policy, mean)
    right = (scores.means_NTK.argmax(2) == run.sets["noise-1"].targets[:, None]).double()
    at = {}
    for cut in scores.cuts():
        steps = scores.halting_steps(float(cut))
        at[float(steps.double().mean())] = float(right.gather(1, steps[:, None] - 1).mean())
    below, above = max(c for c in at if c <= spent), min(c for c in at if c >= spent)
    share = (spent - below) / (above - below) if above > below else 0.0
    expected = (1 - share) * at[below] + share * at[above]
    assert float(looks["noise-1"][cost]["change"].matched[1].mean()) == pytest.approx(expected)


def test_levels_are_averaged_for_each_sample(looks: beyond.Looks) -> None:
    found = beyond.together(looks)
    assert list(found) == ["noise, all levels", "blur, all levels", "all corruptions"]
    parts = [looks[name][1.3][MARGIN] for name in ("noise-1", "noise-2")]
    mine = found["noise, all levels"][1.3][MARGIN]
    assert mine.costs[1] == pytest.approx((parts[0].costs[1] + parts[1].costs[1]) / 2)
    assert torch.equal(mine.deployed[1], (parts[0].deployed[1] + parts[1].deployed[1]) / 2)
    assert beyond.together({CLEAN: looks[CLEAN]}) == {}


def test_differences_are_in_points_and_over_runs(looks: beyond.Looks) -> None:
    here = looks["noise-2"][1.1]
    found = beyond.figures(here)
    change, margin = here["change"], here[MARGIN]
    right, base, whole = (torch.stack(parts).mean() for parts in (change.deployed, margin.deployed, change.whole))
    assert found["change"]["gain with its own threshold"][0] == pytest.approx(100 * float(right - base))
    assert found["change"]["against all members"][0] == pytest.approx(100 * float(right - whole))
    low, high = found["change"]["against all members"][1:]
    assert low <= found["change"]["against all members"][0] <= high
    assert "gain at the same cost" not in found[MARGIN]


def test_chance_does_not_show_a_broken_promise() -> None:
    def entry(events: int) -> dict[str, Any]:
        return {"wish": {"risk": 0.01}, "risk": events / 1000, "unseen": 1000}

    def tail(events: int) -> float:  # of at least so many of 1000, each with a chance of 1 %
        return 1 - sum(comb(1000, k) * 0.01**k * 0.99 ** (1000 - k) for k in range(events))

    first = next(events for events in range(1000) if tail(events) < 0.05)
    assert first == 16
    entries = [entry(events) for events in (0, 11, first - 1, first, 40)]
    assert beyond_promises.shown_broken(entries, {"risk": 0.01}) == 2
    refused = {"wish": {"risk": 0.01}, "refused": "too few"}
    assert beyond_promises.shown_broken([refused], {"risk": 0.01}) == 0
    assert beyond_promises.shown_broken(entries, {"max_drop": 0.01}) is None


def test_a_promise_is_looked_at_where_it_was_not_made(lifelike_bank: Callable[..., Bank]) -> None:
    calibration = lifelike_bank(1500, seed=0)
    others = {"a": lifelike_bank(300, seed=1), "b": lifelike_bank(200, seed=2)}
    found = beyond_promises.promise(calibration, others, {"risk": 0.02}, "margin")
    point = fit_policy(calibration, "margin", risk=0.02)
    for name, bank in others.items():
        answer, whole = bank.replay(point.policy, point.aggregation), bank.replay(None, point.aggregation)
        harmed = (whole.labels == bank.targets) & (answer.labels != bank.targets)
        assert found[name]["unseen"] == len(bank)
        assert found[name]["risk"] == pytest.approx(float(harmed.double().mean()))
    few = beyond_promises.promise(lifelike_bank(60), others, {"risk": 0.005}, "margin")
    assert "cannot be promised" in few["a"]["refused"]


def test_a_policy_is_fitted_once_for_the_same_samples(lifelike_bank: Callable[..., Bank]) -> None:
    asked = []

    def fit(bank: Bank, *_: object) -> Policy:
        asked.append(len(bank))
        return Margin(0.0)

    fitter = beyond_promises.remembering(fit)
    one, other = lifelike_bank(20, seed=0), lifelike_bank(20, seed=1)
    mean = Aggregation.equal(3)
    for bank in (one, one, other, other, one):
        fitter(bank, mean, "members")
    assert len(asked) == 3


def test_the_command_writes_figures_and_tables(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["beyond.py", str(folder), "--splits", "1", "--out", str(tmp_path)])
    beyond.main()
    found = json.loads((tmp_path / "beyond.json").read_text())["thin-e2"]
    assert set(found["sets"]["noise-1"]["asked"]) == COSTS
    assert set(found["sets"]["noise-1"]["asked"]["1.3"]) == {"margin", "change", "selector", "own selector"}
    fresh = found["promises on fresh splits"]["policies"]
    assert all(row["calibrations"] == 2 for rows in fresh.values() for row in rows)
    text = (tmp_path / "beyond.md").read_text()
    assert capsys.readouterr().out == text + "\n"
    for row in ("| clean | ", "| blur-5 | ", "| all corruptions | ", "| risk 1.00%, at 90% | selector | "):
        assert row in text
    widths = {len(line.split("|")) for line in text.splitlines() if line.startswith("| risk")}
    assert widths == {9}

    gone = {"thick-e2": found | {"about": "runs that are no longer here"}, "thin-e2": {}}
    (tmp_path / "beyond.json").write_text(json.dumps(gone))
    beyond.main()
    assert json.loads((tmp_path / "beyond.json").read_text()) == {"thick-e2": gone["thick-e2"], "thin-e2": found}
    assert "### runs that are no longer here" in (tmp_path / "beyond.md").read_text()


def test_a_folder_without_runs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["beyond.py", str(tmp_path)])
    with pytest.raises(SystemExit, match="no folder in it is a run"):
        beyond.main()
