"""Weights go to another machine in small files, and the run that comes out there is the one that went in."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import torch
import train as study
import unpack
from jobs import Job
from replay.packed import Packed, Study
from safetensors.torch import load_file

from irene.data import load
from irene.errors import RunError
from irene.run import Run
from irene.training.methods.irene import IreneOptions
from irene.training.options import LoopOptions, OptimizerOptions
from training import packing

LOOP = LoopOptions(epochs=2, batch_size=64, optimizer=OptimizerOptions(kind="adam", lr=1e-3))
JOB = Job(
    dataset="digits",
    backbones=("mlp", "cnn"),
    method="irene",
    seed=0,
    loop=LOOP,
    method_options=IreneOptions(cost=1.3, cost_unit="members"),
)
LIMIT = 60_000  # bytes: less than one of these networks


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return study.do(JOB, load("digits"), tmp_path_factory.mktemp("runs"))


def test_a_run_makes_the_journey_in_small_tars(run: Run, tmp_path: Path) -> None:
    tars = packing.pack_weights(run, tmp_path / "pack", limit=LIMIT)
    assert len(tars) > 2
    assert [path.name for path in tars[:2]] == [f"{run.path.name}.weights.tar.gz", f"{run.path.name}.weights.2.tar.gz"]
    assert all(path.stat().st_size <= LIMIT for path in tars)
    (again,) = unpack.unpack(tars, tmp_path / "into")
    assert again.path == tmp_path / "into" / run.path.name
    assert again.manifest["half_precision"] is True
    assert not list(again.path.rglob("*of*"))  # parts are put together

    for number in range(2):
        before, after = (load_file(one.path / f"members/{number}.safetensors") for one in (run, again))
        assert before.keys() == after.keys()
        for key, value in before.items():
            assert torch.equal(after[key], value.half() if value.ndim > 1 else value)
    for mine, theirs in zip(run.policy().parameters(), again.policy().parameters(), strict=True):
        assert torch.equal(mine, theirs)

    test = load("digits").test
    answers = [one.cascade().predict(test.inputs) for one in (run, again)]
    right = [float((answer.labels == test.targets).double().mean()) for answer in answers]
    assert right[0] == pytest.approx(right[1], abs=0.01)
    torch.testing.assert_close(*(answer.outputs for answer in answers), rtol=0, atol=0.02)


def test_banks_are_read_where_they_came_along_and_struck_off_where_not(run: Run, tmp_path: Path) -> None:
    tars = packing.pack_weights(run, tmp_path / "pack")
    (alone,) = unpack.unpack(tars, tmp_path / "alone")
    with pytest.raises(RunError, match="no bank of the test split"):
        alone.bank("test")
    (whole,) = unpack.unpack([*packing.pack(run, tmp_path / "pack"), *tars], tmp_path / "whole")
    for split in ("heldout", "test"):
        assert torch.equal(whole.bank(split).outputs, run.bank(split).outputs.half().float())


def test_runs_to_replay_are_whole_without_weights(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    size = (run.path / run.manifest["banks"]["test"]["file"]).stat().st_size // 2  # half precision
    tars = [*packing.pack(run, tmp_path / "pack", limit=size), *packing.pack_weights(run, tmp_path / "pack")]
    assert sum(".weights." not in path.name for path in tars) > 1, "a bank larger than a tar goes in parts"
    monkeypatch.setattr(sys, "argv", ["unpack.py", *map(str, tars), "--into", str(tmp_path / "study"), "--to-replay"])
    unpack.main()
    assert run.path.name in capsys.readouterr().out
    assert not (tmp_path / "study" / run.path.name / "members").exists()
    (again,) = Study.read(tmp_path / "study").runs
    for split in ("heldout", "test"):
        assert torch.equal(again.bank(split).outputs, run.bank(split).outputs.half().float())


def test_a_tar_that_did_not_come_is_missed(run: Run, tmp_path: Path) -> None:
    tars = packing.pack_weights(run, tmp_path, limit=LIMIT)
    with pytest.raises(SystemExit, match="unpack all"):
        unpack.unpack(tars[:-1], tmp_path / "fewer")
    with pytest.raises(SystemExit, match=r"run\.json is not in these tars"):
        unpack.unpack(tars[1:], tmp_path / "headless")
    with pytest.raises(SystemExit, match=r"members/0\.safetensors is not in these tars"):
        unpack.unpack(packing.pack(run, tmp_path), tmp_path / "banks")


def test_numbers_that_half_precision_cannot_hold_stay_as_they_are() -> None:
    large = torch.tensor([[1e6, 1.0]])
    assert torch.equal(packing.halved(large), large)
    assert packing.halved(torch.ones(2, 2)).dtype == torch.float16
    assert packing.halved(torch.ones(2)).dtype == torch.float32
    assert packing.halved(torch.ones(2, 2, dtype=torch.int64)).dtype == torch.int64


def test_the_commands_pack_and_unpack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        study, "JOBS", {"tiny": [Job(dataset="digits", backbones=("mlp",), method="average", seed=0, loop=LOOP)]}
    )
    folders = {name: str(tmp_path / name) for name in ("data", "runs", "pack")}
    flags = [part for name, folder in folders.items() for part in (f"--{name}", folder)]
    monkeypatch.setattr(sys, "argv", ["train.py", "--jobs", "tiny", *flags, "--weights"])
    study.main()
    tars = sorted(str(path) for path in (tmp_path / "pack").iterdir())
    assert [Path(path).name for path in tars] == [
        "digits-mlp-average-s0-e2.tar.gz",
        "digits-mlp-average-s0-e2.weights.tar.gz",
    ]
    monkeypatch.setattr(sys, "argv", ["unpack.py", *tars, "--into", str(tmp_path / "into")])
    capsys.readouterr()
    unpack.main()
    assert "1 members, banks: heldout, test" in capsys.readouterr().out
    assert len(Run.open(tmp_path / "into/digits-mlp-average-s0-e2").members()) == 1


def test_a_bank_that_was_replaced_makes_the_journey_too(run: Run, tmp_path: Path) -> None:
    """In its run it lies under a second name, in tars under that of its split."""
    shutil.copytree(run.path, tmp_path / run.path.name)
    other = Run.open(tmp_path / run.path.name)
    other.save_bank("test", other.bank("test").rows(torch.arange(50)))
    other.write()
    assert other.manifest["banks"]["test"]["file"] == "banks/test~.safetensors"
    tars = [*packing.pack(other, tmp_path / "pack"), *packing.pack_weights(other, tmp_path / "pack")]
    (again,) = unpack.unpack(tars, tmp_path / "into")
    for one in (again, Packed.open(again.path)):
        assert torch.equal(one.bank("test").ids, other.bank("test").ids)
        assert len(one.bank("heldout")) == len(other.bank("heldout"))
