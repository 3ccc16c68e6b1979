"""`irene calibrate` writes what it was asked for, and evaluate and predict work there."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch

from irene.bank import Bank
from irene.calibration.selection import Fitted, Fitter, Learner
from irene.calibration.wishes import Wish
from irene.cascade import Cascade
from irene.cli import calibrating
from irene.halting.policy import Policy
from irene.halting.rule import Aggregation
from irene.run import Run
from irene.training.afterwards import selector_fitter
from irene.types import Cost, CostUnit

Irene = Callable[..., Any]


@pytest.fixture
def run(run_folder: Path, tmp_path: Path) -> Path:
    """A copy of the run of irene, to write points into."""
    return Path(shutil.copytree(run_folder, tmp_path / "run"))


@pytest.fixture
def outputs(irene: Irene, lifelike_bank: Callable[..., Bank], tmp_path: Path) -> Path:
    """A run of outputs with enough samples to promise something: 2,500 held out and as many to test."""
    bank = lifelike_bank(5000, skills=(1.5, 2.0, 2.5), flops=(1.0, 4.0, 8.0))
    bank.save(tmp_path / "bank.safetensors")
    assert irene("bank", tmp_path / "bank.safetensors", "--out", tmp_path / "outputs").code == 0
    return tmp_path / "outputs"


def test_a_point_that_cannot_be_written_is_refused_before_anything_is_fitted(
    irene: Irene, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "fit_policy", None)
    assert "a point's name is letters" in irene("calibrate", run, "--cost", "1.5", "--name", "a/b").err

    def forbidden(**where: Any) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "a draft")

    monkeypatch.setattr(tempfile, "TemporaryFile", forbidden)
    for verb in (("calibrate", run, "--cost", "1.5"), ("points", run, "--delete", "x")):
        said = irene(*verb)
        assert (said.code, said.err) == (2, f"irene: {run}/run.json cannot be written: Permission denied\n")


def test_json_tells_what_was_asked_and_what_to_expect(irene: Irene, run: Path) -> None:
    point = irene("calibrate", run, "--cost", "1.5", "--json").json["point"]
    assert point["policy"] == "margin"
    assert point["asked"] == {"cost": 1.5, "unit": "members"}
    assert point["expected"]["cost"] == pytest.approx(1.5, abs=0.03)
    assert 0 < point["expected"]["accuracy"] <= 1
    assert set(point["expected"]["intervals"]) == {"cost", "accuracy", "drop"}
    assert (point["name"], point["version"]) == ("calibrated", 1)
    assert "needs 2000 to be safe" in point["why"]


def test_points_live_side_by_side_and_count_their_versions(irene: Irene, run: Path) -> None:
    for name, cost in (("fast", "1.2"), ("good", "2"), ("fast", "1.4")):
        assert irene("calibrate", run, "--cost", cost, "--name", name).code == 0
    manifest = json.loads((run / "run.json").read_text())
    assert {name: entry["version"] for name, entry in manifest["points"].items()} == {"fast": 2, "good": 1}
    named = [file for entry in manifest["points"].values() for file in (entry["file"], entry["tensors"]["file"])]
    assert len(named) == 4
    assert sorted(f"points/{path.name}" for path in (run / "points").iterdir()) == sorted(named)
    assert json.loads((run / manifest["points"]["fast"]["file"]).read_text())["asked"]["cost"] == 1.4


def test_evaluate_and_predict_work_at_a_point(irene: Irene, run: Path, files: Path) -> None:
    irene("calibrate", run, "--cost", "1.8", "--name", "slow")
    point = Run.open(run).point("slow")
    bank = Run.open(run).bank("test")
    expected = bank.replay(point.policy, point.aggregation)
    said = irene("evaluate", run, "--point", "slow", "--json").json
    assert said["test"]["cost"] == pytest.approx(float(expected.cost.mean()))
    assert said["test"]["cost"] != irene("evaluate", run, "--json").json["test"]["cost"]
    assert said["point"]["asked"] == {"cost": 1.8, "unit": "members"}
    data = f"npz:{files / 'points.npz'}"
    assert irene("evaluate", run, "--point", "slow", "--data", data, "--json").json["test"]["cost"] == pytest.approx(
        said["test"]["cost"]
    )
    rows = irene("predict", run, files / "points.npz", "--point", "slow", "--json").json["predictions"]
    inputs = torch.from_numpy(np.load(files / "points.npz")["x"]).float()
    answer = Run.open(run).cascade(point="slow").predict(inputs)
    assert [row["members_used"] for row in rows] == answer.members_used.tolist()


def test_a_point_that_is_not_named_changes_nothing(irene: Irene, run: Path, files: Path) -> None:
    def figures() -> tuple[Any, ...]:
        rows = irene("predict", run, files / "points.npz", "--json").json["predictions"]
        return irene("evaluate", run, "--json").json["test"], rows

    before = figures()
    shown = irene("calibrate", run, "--cost", "2.5").out
    assert "--point calibrated" in shown
    assert "without --point the run stops as it was trained" in shown
    assert figures() == before
    assert irene("evaluate", run, "--point", "calibrated", "--json").json["test"]["cost"] > before[0]["cost"]


def test_the_runs_own_selector_gets_another_threshold(irene: Irene, run: Path) -> None:
    said = irene("calibrate", run, "--cost", "1.6", "--policy", "selector", "--json").json["point"]
    assert said["policy"] == "selector"
    point, opened = Run.open(run).point("calibrated"), Run.open(run)
    trained = opened.policy()
    assert point.aggregation == opened.aggregation
    for name, tensor in trained.state_dict().items():
        assert torch.equal(point.policy.state_dict()[name], tensor)
    assert point.policy.threshold != trained.threshold
    assert (
        "leave --weights out" in irene("calibrate", run, "--cost", "1.6", "--policy", "selector", "--weights").mistake
    )


def test_a_selector_is_fitted_where_there_is_none_or_a_promise_needs_fresh_samples(
    irene: Irene, run: Path, lifelike_bank: Callable[..., Bank], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("irene.fitting.selector_fitter", partial(selector_fitter, epochs=5))
    lifelike_bank(200).save(tmp_path / "bank.safetensors")
    irene("bank", tmp_path / "bank.safetensors", "--out", tmp_path / "few")
    point = irene("calibrate", tmp_path / "few", "--cost", "1.5", "--policy", "selector", "--json").json["point"]
    assert point["policy"] == "selector"
    assert point["expected"]["cost"] == pytest.approx(1.5, abs=0.02)
    asked = ("--cost", "2.5", "--guaranteed", "--policy", "selector")
    irene("calibrate", run, *asked, "--name", "sure")
    opened = Run.open(run)
    assert opened.point("sure").data["samples"] < len(opened.bank("heldout"))  # the others were for fitting


@pytest.mark.parametrize(("fresh", "kind"), [(False, Learner), (True, Fitted)])
def test_the_runs_selector_is_not_compared_on_samples_it_was_fitted_on(
    run: Path, monkeypatch: pytest.MonkeyPatch, fresh: bool, kind: type
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(calibrating, "fit_policy", lambda *_, **asked: given.update(asked))
    opened = Run.open(run)
    assert opened.policy().name == "selector"
    asked: dict[str, Any] = {"weights": None, "name": "x", "seed": 0, "fresh": fresh}
    calibrating.fit_point(opened, opened.bank("heldout"), Wish(cost=1.5), policy="auto", **asked)
    assert (type(given["also"]), given["also"].name) == (kind, "selector")


@pytest.mark.parametrize(("flops", "times"), [((1.0, 4.0, 8.0), 5), ((1.0, 1.0, 1.0), 0)])
def test_auto_looks_at_a_selector_where_members_differ(
    irene: Irene,
    lifelike_bank: Callable[..., Bank],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flops: tuple[float, ...],
    times: int,
) -> None:
    fitted_on: list[int] = []

    def fitter(*, cost: float | None, seed: int) -> Fitter:
        def fit(bank: Bank, aggregation: Aggregation, unit: CostUnit) -> Policy:
            fitted_on.append(len(bank))
            return selector_fitter(cost=cost, seed=seed, epochs=2)(bank, aggregation, unit)

        return fit

    monkeypatch.setattr("irene.fitting.selector_fitter", fitter)
    lifelike_bank(5000, skills=(1.5, 2.0, 2.5), flops=flops).save(tmp_path / "bank.safetensors")
    irene("bank", tmp_path / "bank.safetensors", "--out", tmp_path / "outputs")
    assert irene("calibrate", tmp_path / "outputs", "--cost", "1.5").code == 0
    assert fitted_on[:5] == [2000] * times


@pytest.mark.parametrize(
    ("wish", "asked"),
    [
        (("--max-drop", "0.5%"), {"max_drop": 0.005, "unit": "members"}),
        (("--max-drop", "0.5%", "--cost-unit", "flops", "--weights"), {"max_drop": 0.005, "unit": "flops"}),
        (("--risk", "2%", "--confidence", "80%"), {"risk": 0.02, "unit": "members", "confidence": 0.8}),
        (("--p99", "12ms"), {"p99": 12.0, "unit": "ms", "confidence": 0.9}),
        (("--cost", "3M", "--cost-unit", "flops"), {"cost": 3e6, "unit": "flops"}),
        (("--cost", "6ms"), {"cost": 6.0, "unit": "ms"}),
        (
            ("--cost", "2", "--guaranteed", "--policy", "margin"),
            {"cost": 2.0, "unit": "members", "confidence": 0.9, "guaranteed": True},
        ),
    ],
)
def test_every_target(
    irene: Irene, outputs: Path, wish: tuple[str, ...], asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("irene.fitting.selector_fitter", partial(selector_fitter, epochs=2))
    said = irene("calibrate", outputs, *wish, "--json").json["point"]
    assert said["asked"] == asked
    figures = irene("evaluate", outputs, "--point", "calibrated", "--json").json["test"]
    unit = said["expected"]["unit"]
    key = "cost" if unit == "members" else unit
    assert figures[key] == pytest.approx(said["expected"]["cost"], rel=0.1)
    text = " ".join(irene("calibrate", outputs, *wish).out.split())
    assert "asked" in text
    assert "version 2" in text


def test_a_latency_is_of_one_sample_at_a_time(irene: Irene, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure_latency(cascade: Cascade, sample: torch.Tensor) -> tuple[Cost, ...]:
        assert len(cascade.predict(sample)) == 1
        return tuple(
            replace(cost, ms=ms, ms_batch=1) for cost, ms in zip(cascade.costs, (50.0, 60.0, 70.0), strict=True)
        )

    monkeypatch.setattr("irene.cli.calibrating.measure_latency", measure_latency)
    assert "the nearest possible is 50 ms" in irene("calibrate", run, "--p99", "20ms").mistake
    point = irene("calibrate", run, "--p99", "120ms", "--json").json["point"]
    assert point["members"] == [0, 1]
    assert point["expected"]["member_ms"] == [50.0, 60.0]
    monkeypatch.setattr("irene.cli.calibrating.measure_latency", None)  # nothing else needs it
    assert irene("calibrate", run, "--cost", "1.5").code == 0


def test_auto_says_what_it_chose_among(irene: Irene, outputs: Path) -> None:
    why = irene("calibrate", outputs, "--cost", "1.5", "--json").json["point"]["why"]
    assert "5-fold cross-validation on 2500 samples" in why


def test_other_data_than_the_runs_own(irene: Irene, run: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(3, size=200)
    np.savez(tmp_path / "new.npz", x=rng.normal(size=(200, 5)) + labels[:, None], y=labels)
    point = irene("calibrate", run, "--cost", "1.5", "--data", f"npz:{tmp_path / 'new.npz'}", "--json").json["point"]
    assert point["data"]["samples"] == 160  # its test samples stay unseen
    assert point["data"]["split"] == "train"
    assert point["data"]["fingerprint"] != Run.open(run).manifest["data"]["fingerprint"]
    assert point["expected"]["cost"] == pytest.approx(1.5, abs=0.03)


def test_few_samples_are_a_warning_and_next_to_none_an_error(irene: Irene, run: Path, tmp_path: Path) -> None:
    labels = np.arange(200) % 3
    x = np.random.default_rng(3).normal(size=(200, 5)) + labels[:, None]
    done = {}
    for samples in (200, 50, 6):
        np.savez(tmp_path / "new.npz", x=x[:samples], y=labels[:samples])
        done[samples] = irene("calibrate", run, "--max-drop", "50%", "--data", f"npz:{tmp_path / 'new.npz'}")
    assert (done[200].code, done[50].code) == (0, 0)
    assert "warning" not in done[200].err
    assert "warning: calibrated on 40 samples, which say little about others" in done[50].err
    assert "5 samples are too few to calibrate on" in done[6].mistake


def test_wishes_that_cannot_be_met_name_the_nearest(irene: Irene, run: Path, outputs: Path) -> None:
    for folder, wish, words in (
        (run, ("--cost", "0.5"), "the nearest possible is 1"),
        (run, ("--risk", "0.1%"), "the nearest possible is 9.527%"),
        (outputs, ("--p99", "0.5ms"), "the nearest possible is 2 ms"),
        (outputs, ("--cost", "99", "--cost-unit", "ms"), "the nearest possible is 26"),
    ):
        assert words in irene("calibrate", folder, *wish).mistake
    assert Run.open(run).points == ()


def test_mistakes(irene: Irene, run: Path, files: Path) -> None:
    for flags, words in (
        ((), "ask for exactly one of cost, max_drop, p99 and risk; got none"),
        (("--cost", "1.3", "--risk", "1%"), "got cost, risk"),
        (("--risk", "0.5"), "write 0.5%"),
        (("--cost", "1.3", "--policy", "margn"), "did you mean margin"),
        (("--cost", "1.3", "--name", "../up"), "a point's name is letters"),
        (("--cost", "1.3", "--target", "size"), "say how to read --data"),
        (("--cost", "1.3", "--data", f"npz:{files / 'points.npz'}"), "the members were trained on npz:"),
        (("--cost", "1.3", "--data", "digits"), "samples of shape [1, 8, 8]"),
    ):
        assert words in irene("calibrate", run, *flags).mistake
    assert "no operating point is called 'nosuch'" in irene("evaluate", run, "--point", "nosuch").mistake


def test_a_run_without_heldout_samples_needs_data(irene: Irene, run: Path) -> None:
    manifest = json.loads((run / "run.json").read_text())
    del manifest["banks"]["heldout"]
    (run / "run.json").write_text(json.dumps(manifest))
    assert "give other samples with --data" in irene("calibrate", run, "--cost", "1.3").mistake
