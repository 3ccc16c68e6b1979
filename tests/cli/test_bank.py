"""`irene bank`: outputs from elsewhere are calibrated and evaluated, without a model to run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet

from irene.bank import Bank
from irene.errors import RunError
from irene.run import Run

Irene = Callable[..., Any]


@pytest.fixture
def bank(lifelike_bank: Callable[..., Bank]) -> Bank:
    return lifelike_bank(600)


def write_npz(bank: Bank, path: Path, **more: Any) -> Path:
    np.savez(path, outputs=bank.outputs[:, :, 0].numpy(), targets=bank.targets.numpy(), **more)
    return path


def test_from_npz_to_a_point(irene: Irene, bank: Bank, tmp_path: Path) -> None:
    file = write_npz(bank, tmp_path / "logits.npz", ms=np.array([1.0, 2.0, 3.0]))
    said = irene("bank", file, "--out", tmp_path / "run", "--json").json
    assert (said["method"], said["data"], said["members"], said["ms"]) == ("outputs", "logits.npz", 3, [1.0, 2.0, 3.0])
    run = Run.open(tmp_path / "run")
    heldout, test = run.bank("heldout"), run.bank("test")
    assert len(heldout) == len(test) == 300
    assert sorted(torch.cat([heldout.ids, test.ids]).tolist()) == list(range(600))
    assert torch.equal(heldout.outputs, bank.outputs[heldout.ids])
    assert said["test"]["accuracy"] == pytest.approx(
        float((test.outputs[:, :, 0].softmax(2).mean(1).argmax(1) == test.targets).double().mean())
    )
    point = irene("calibrate", tmp_path / "run", "--cost", "1.5", "--json").json["point"]
    assert point["expected"]["cost"] == pytest.approx(1.5, abs=0.02)
    assert irene("evaluate", tmp_path / "run", "--point", "calibrated", "--json").json["test"]["cost"] < 2
    again = tmp_path / "once more"
    assert f"next: irene calibrate '{again}' --max-drop 0.5%\n" in irene("bank", file, "--out", again).out
    assert f"try it: irene evaluate '{again}' --point calibrated\n" in irene("calibrate", again, "--cost", "2").out


@pytest.mark.parametrize("measured", [(), ("--ms", "1,0,2")])
def test_what_nobody_measured_is_null(irene: Irene, bank: Bank, tmp_path: Path, measured: tuple[str, ...]) -> None:
    """A mean over members, of which some were not measured, is not known either."""
    file, run = write_npz(bank, tmp_path / "logits.npz"), tmp_path / "run"
    made = irene("bank", file, *measured, "--out", run, "--json").json
    assert made["ms"] == ([1.0, None, 2.0] if measured else [None] * 3)
    irene("calibrate", run, "--cost", "1.5", "--name", "fast")
    for said in (made, irene("evaluate", run, "--json").json, irene("evaluate", run, "--point", "fast", "--json").json):
        assert said["test"]["ms"] is said["test"]["flops"] is None
    assert "ms" in (shown := irene("evaluate", run).out.split())
    assert shown[shown.index("ms") + 1] == "-"


def test_from_parquet_with_costs_and_labels(irene: Irene, bank: Bank, tmp_path: Path) -> None:
    columns = {f"m{t}": bank.outputs[:, t, 0].tolist() for t in range(3)}
    parquet.write_table(pyarrow.table({"target": bank.targets.tolist(), **columns}), tmp_path / "logits.parquet")
    (tmp_path / "labels.txt").write_text("\n".join("abcde"))
    flags = ("--flops", "70M,1.1G,1.1G", "--ms", "1,2,2", "--labels", tmp_path / "labels.txt", "--heldout", "400")
    said = irene("bank", tmp_path / "logits.parquet", *flags, "--out", tmp_path / "run", "--json").json
    assert said["classes"] == list("abcde")
    run = Run.open(tmp_path / "run")
    assert [(cost.flops, cost.ms) for cost in run.costs] == [(70e6, 1.0), (1.1e9, 2.0), (1.1e9, 2.0)]
    assert len(run.bank("heldout")) == 400
    assert irene("calibrate", tmp_path / "run", "--cost", "500M", "--cost-unit", "flops").code == 0


def test_a_second_file_brings_the_other_split(irene: Irene, bank: Bank, tmp_path: Path) -> None:
    out = tmp_path / "run"
    heldout = write_npz(bank.rows(torch.arange(400)), tmp_path / "heldout.npz", ms=np.array([1.0, 2.0, 3.0]))
    test = write_npz(bank.rows(torch.arange(400, 600)), tmp_path / "test.npz")
    assert irene("bank", heldout, "--split", "heldout", "--out", out).code == 0
    said = irene("bank", test, "--split", "test", "--out", out, "--json").json
    assert said["test"]["ms"] == 6.0  # members cost what the run says
    assert Run.open(out).manifest["data"]["sizes"] == {"heldout": 400, "test": 200}
    assert torch.equal(Run.open(out).bank("test").outputs, bank.outputs[400:])


def test_one_member_is_not_sent_to_be_calibrated(irene: Irene, bank: Bank, tmp_path: Path) -> None:
    done = irene("bank", write_npz(bank.members([0]), tmp_path / "one.npz"), "--out", tmp_path / "run")
    assert done.code == 0
    assert "stopping early takes two members or more" in done.out
    assert "irene calibrate" not in done.out


def test_nothing_can_be_run(irene: Irene, bank: Bank, tmp_path: Path) -> None:
    irene("bank", write_npz(bank, tmp_path / "logits.npz"), "--out", tmp_path / "run")
    run = Run.open(tmp_path / "run")
    for ask in (run.predictor, run.cascade, run.members):
        with pytest.raises(RunError, match="holds the outputs of its members and not the members"):
            ask()
    for name in ("logits.npz", "picture.png", "table.csv"):
        (tmp_path / name).touch()
        assert "nothing to run" in irene("predict", tmp_path / "run", tmp_path / name).mistake
    assert "nothing to run" in irene("calibrate", tmp_path / "run", "--cost", "1.5", "--data", "digits").mistake


def test_mistakes(irene: Irene, bank: Bank, run_folder: Path, tmp_path: Path) -> None:
    file = write_npz(bank, tmp_path / "logits.npz")
    two = write_npz(bank.members([0, 1]), tmp_path / "two.npz")
    out = tmp_path / "run"
    for arguments, words in (
        ((tmp_path / "gone.npz",), "no such file"),
        ((file, "--flops", "1,2"), "--flops needs a value for each of 3 members, got 2"),
        ((file, "--ms", "fast,slow,slow"), "--ms takes numbers with commas between"),
        ((file, "--ms=-1,2,3"), "a cost in ms must be a finite number of at least 0"),
        ((file, "--heldout", "0"), "must leave samples on both sides of 600"),
        ((file, "--heldout", "600"), "must leave samples on both sides of 600"),
        ((file, "--split", "train"), "split must be heldout or test"),
        ((file, "--split", "heldout", "--heldout", "5"), "leave one of the two out"),
        ((file, "--task", "regression"), "need as many target values"),
    ):
        assert words in irene("bank", *arguments, "--out", out).mistake
        assert not out.exists()
    assert "say where to write" in irene("bank", file).mistake
    irene("bank", file, "--out", out, "--split", "heldout")
    assert "exists already; give another folder (--out)" in (again := irene("bank", file, "--out", out).mistake)
    assert "--resume" not in again
    assert "outputs of other members" in irene("bank", two, "--split", "test", "--out", out).mistake
    assert "members of its own" in irene("bank", file, "--split", "test", "--out", run_folder).mistake
