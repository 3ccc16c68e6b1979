"""What is said of a streamed cascade is what its members on that backend give when they are replayed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import latency
import pytest
import streaming.bench
import torch
from names import INDEPENDENT, TOGETHER
from streaming.bench import MARGIN, OWN, SELECTOR, Asked, Bench
from streaming.subjects import Subject, fewer, joined, jointly_trained
from streaming.timing import Movable, cycled

from irene.bank import Bank
from irene.calibration.weights import fit_aggregation
from irene.cascade import Cascade
from irene.data import load
from irene.halting.policies import Margin
from irene.halting.selector import Selector
from irene.runtime.stream import Stream, StreamOptions
from irene.training.afterwards import selector_fitter
from irene.training.methods.irene import IreneOptions
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.train import TrainOptions, train

LOOP = LoopOptions(epochs=2, batch_size=64, optimizer=OptimizerOptions(kind="adam", lr=1e-3))
ASKED = Asked(costs=(0.01, 0.5, 0.9), times=(1.0, 50.0), bucket=32, seconds=0.001, rounds=2)


@pytest.fixture(scope="module", autouse=True)
def _in_a_hurry() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming.bench, "selector_fitter", partial(selector_fitter, epochs=2))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small networks, large ones, large ones of another seed, and a cascade of both that was trained together."""
    folder = tmp_path_factory.mktemp("runs")
    for name, backbones, seed in (("small", ("mlp",) * 2, 0), ("large", ("cnn",) * 2, 0), ("other", ("cnn",), 1)):
        options = TrainOptions(members=len(backbones), backbones=backbones, seed=seed, device="cpu")
        train("average", load("digits"), folder / f"{name}-s{seed}-e2", options=options, loop=LOOP)
    options = TrainOptions(members=2, backbones=("mlp", "cnn"), seed=0, device="cpu")
    own = IreneOptions(cost=1.3, cost_unit="members")
    train("irene", load("digits"), folder / "joint-s0-e2", options=options, loop=LOOP, method_options=own)
    return folder


@pytest.fixture(scope="module")
def subject(folder: Path) -> Subject:
    return joined(folder / "small-s0-e2", folder / "large-s0-e2", (1, 2), folder)


@pytest.fixture(scope="module")
def bench(subject: Subject) -> Bench:
    return Bench(subject, "eager", ASKED)


def test_a_movable_policy_stops_as_the_one_it_was_moved_to() -> None:
    torch.manual_seed(0)
    table = 2 * torch.randn(60, 3, 2, 5)
    inputs = torch.arange(60.0)[:, None]
    members = [lambda x, t=t: table[x[:, 0].long(), t] for t in range(3)]
    policies = [Selector(threshold) for threshold in (-0.4, 0.0, 0.3)]
    for policy in policies:
        torch.nn.init.normal_(policy.out.weight)
    movable = Movable(Selector())
    stream = Stream(Cascade(members, movable), inputs[:1], options=StreamOptions(bucket=16))
    used = []
    for policy in policies:
        movable.move(policy)
        found = torch.cat([answer.members_used for answer in stream.predict(inputs.split(7))])
        assert torch.equal(found, Cascade(members, policy).predict(inputs).members_used)
        used.append(float(found.double().mean()))
    assert len(set(used)) == 3


def test_images_are_taken_again_in_another_order() -> None:
    found = cycled(torch.arange(10), 25)
    first, second, third = found.split(10)
    assert set(first.tolist()) == set(second.tolist()) == set(range(10))
    assert first.tolist() != second.tolist()
    assert len(third) == 5
    assert torch.equal(found, cycled(torch.arange(10), 25))


def test_a_joined_cascade_has_the_small_members_first_and_all_large_ones_beside_it(subject: Subject) -> None:
    assert [member.spec.backbone for member in subject.members] == ["mlp", "cnn", "cnn"]
    assert subject.members[1:] == subject.networks
    assert subject.network_cost.flops == max(cost.flops for cost in subject.costs)
    assert subject.own is None
    assert subject.about["training"] == INDEPENDENT


def test_the_held_out_images_are_those_of_training(subject: Subject, folder: Path) -> None:
    bank = Bank.load(folder / "large-s0-e2/banks/heldout.safetensors")
    assert torch.equal(subject.heldout.ids, bank.ids)
    few = fewer(subject, 50)
    assert (len(few.heldout), len(few.test)) == (50, 50)
    assert fewer(subject, None).test is subject.test


def test_runs_with_other_held_out_images_are_not_joined(folder: Path) -> None:
    with pytest.raises(SystemExit, match="other held-out images"):
        joined(folder / "small-s0-e2", folder / "other-s1-e2", (1, 1), folder)
    with pytest.raises(SystemExit, match="other networks than cnn"):
        jointly_trained(folder / "joint-s0-e2", folder / "small-s0-e2", folder)


def test_a_cascade_is_compared_with_the_reference_or_with_its_own_largest(folder: Path) -> None:
    alone = jointly_trained(folder / "joint-s0-e2", None, folder)
    assert alone.networks == alone.members[1:]
    assert isinstance(alone.own.policy, Selector)
    assert alone.training == TOGETHER
    beside = jointly_trained(folder / "joint-s0-e2", folder / "large-s0-e2", folder)
    assert (len(beside.networks), beside.networks_of) == (2, "large-s0-e2")


def test_some_members_of_a_run_are_a_cascade_without_its_selector(folder: Path) -> None:
    whole = jointly_trained(folder / "joint-s0-e2", None, folder)
    some = jointly_trained(folder / "joint-s0-e2", None, folder, take=[2])
    assert some.about["backbones"] == whole.about["backbones"][1:2]
    assert some.costs == whole.costs[1:2]
    assert some.own is None


def test_costs_that_no_threshold_gives_are_left_out_and_said(subject: Subject) -> None:
    said: list[str] = []
    found = Bench(subject, "eager", ASKED, said.append).wishes()
    assert ("flops", 0.01) not in found
    assert {("flops", 0.5), ("flops", 0.9)} <= set(found)
    assert any("0.01 flops left out" in line for line in said)
    assert any("50 ms left out" in line for line in said)


@pytest.mark.parametrize("policy", [MARGIN, SELECTOR])
def test_rows_are_what_a_replay_of_the_members_gives(bench: Bench, subject: Subject, policy: str) -> None:
    rows = list(bench.rows(policy))
    assert {(row["unit"], row["asked"]) for row in rows} >= {("flops", 0.5), ("flops", 0.9)}
    heldout, test = (
        Bank.of(Cascade(subject.members, costs=subject.costs), part.inputs, part.targets)
        for part in (subject.heldout, subject.test)
    )
    flops = [cost.flops for cost in subject.costs]
    for row in rows:
        assert row["as_replayed"] >= 0.99
        assert row["time"]["low"] <= row["time"]["median"] <= row["time"]["high"]
        assert row["images"] % ASKED.bucket == 0
        assert sum(row["used"]) == pytest.approx(1)
        spent = sum(share * sum(flops[: t + 1]) for t, share in enumerate(row["used"]))
        assert row["flops"] == pytest.approx(spent / flops[-1])
    if policy == MARGIN:
        mean = fit_aggregation(heldout, weights=True)
        way = heldout.trajectory(Margin(), mean)
        costs = torch.tensor(flops, dtype=torch.float64).cumsum(0)
        for row in (row for row in rows if row["unit"] == "flops"):
            spent = torch.stack([costs[way.halting_steps(float(cut)) - 1].mean() for cut in way.cuts()]) / flops[-1]
            cut = float(way.cuts()[(spent - row["asked"]).abs().argmin()])
            answer = test.replay(Margin(cut), mean)
            right = (answer.labels == test.targets).double()
            assert row["accuracy"] == pytest.approx(float(right.mean()), abs=0.005)
            assert row["members"] == pytest.approx(float(answer.members_used.double().mean()), abs=0.01)


def test_single_networks_and_their_plain_mean_stand_beside(bench: Bench, subject: Subject) -> None:
    about = bench.about()
    with torch.no_grad():
        logits = torch.stack([member(subject.test.inputs)[:, 0] for member in subject.networks], 1)
    targets = subject.test.targets
    single = (logits.argmax(2) == targets[:, None]).double().mean()
    ensemble = (logits.softmax(2).mean(1).argmax(1) == targets).double().mean()
    assert about["single"] == pytest.approx(float(single))
    assert about["ensemble"] == pytest.approx(float(ensemble))
    assert about["members"][2]["flops"] == 1
    assert about["members"][0]["flops"] < 1
    assert "whole_fp32" not in about


def test_only_a_cascade_with_a_selector_has_rows_of_it(bench: Bench, folder: Path) -> None:
    assert list(bench.rows(OWN)) == []
    asked = Asked(costs=(0.5,), times=(), bucket=32, seconds=0.001, rounds=1)
    (row,) = Bench(jointly_trained(folder / "joint-s0-e2", None, folder), "eager", asked).rows(OWN)
    assert row["as_replayed"] >= 0.99


@pytest.mark.skipif(not all(find_spec(name) for name in ("onnx", "onnxruntime", "onnxscript")), reason="needs onnx")
def test_int8_is_compared_with_float(subject: Subject) -> None:
    asked = Asked(costs=(0.5,), times=(), bucket=32, seconds=0.001, rounds=1)
    bench = Bench(subject, "onnx:int8", asked)
    about = bench.about()
    with torch.no_grad():
        floats = [member(subject.test.inputs)[:, 0].argmax(1) for member in subject.members]
    for member, labels in zip(about["members"], floats, strict=True):
        assert member["accuracy_fp32"] == pytest.approx(float((labels == subject.test.targets).double().mean()))
        assert member["same_labels"] > 0.9
    (row,) = bench.rows(MARGIN)
    (plain,) = Bench(subject, "eager", asked).rows(MARGIN)
    assert row["accuracy_fp32"] == pytest.approx(plain["accuracy"], abs=0.005)
    assert row["flops_fp32"] == pytest.approx(plain["flops"], abs=0.02)


def test_the_command_writes_rows_and_says_what_it_leaves_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "latency.json"
    name = "small-s0-e2 + large-s0-e2"
    others = [
        {"run": "a", "backbones": ["mlp"], "backend": "b"},
        {"run": name, "backbones": ["mlp"], "backend": "eager"},
    ]
    out.write_text(json.dumps({"networks": others, "rows": others}))
    flags = "--costs 0.5 --times --bucket 32 --seconds 0.001 --rounds 1 --images 100 --policies margin --device cpu"
    pair = [str(folder / name) for name in ("small-s0-e2", "large-s0-e2")]
    command = ["latency.py", "--join", *pair, "--data", str(tmp_path), "--backends", "compile:int8", "eager"]
    monkeypatch.setattr(sys, "argv", [*command, *flags.split(), "--out", str(out)])
    for _ in range(2):  # the second time in place of the first
        latency.main()
        found = json.loads(out.read_text())
        for part in ("networks", "rows"):
            assert found[part][:2] == others
            assert [(one["run"], one["backbones"]) for one in found[part][2:]] == [(name, ["mlp"] * 2 + ["cnn"] * 2)]
    assert "compile:int8 left out: " in capsys.readouterr().out
    assert str(folder) not in out.read_text()


def test_the_command_needs_a_cascade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["latency.py", "--data", str(tmp_path)])
    with pytest.raises(SystemExit):
        latency.main()
