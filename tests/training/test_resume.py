"""A training that was killed goes on, and ends with the weights of one that was not: bit for bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from irene.errors import RunError
from irene.files import draft_of
from irene.run import Run
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.train import TrainOptions, train

EPOCHS = 6
TRAIN = f"""
import sys, torch
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.train import TrainOptions, train
torch.set_num_threads(1)
train("average", "digits", sys.argv[1], options=TrainOptions(members=2, backbones=("cnn",), device="cpu"),
      loop=LoopOptions(epochs={EPOCHS}, batch_size=64, optimizer=OptimizerOptions(lr=0.1)), checkpoint_seconds=0)
"""


def train_here(out: Path, **changes: Any) -> Run:
    settings: dict[str, Any] = {
        "options": TrainOptions(members=2, backbones=("cnn",), device="cpu"),
        "loop": LoopOptions(epochs=EPOCHS, batch_size=64, optimizer=OptimizerOptions(lr=0.1)),
        "checkpoint_seconds": 0,
    }
    return train("average", "digits", out, **{**settings, **changes})


def lines(out: Path) -> list[str]:
    path = out / "metrics.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def kill_after(out: Path, epochs: int, script: str = TRAIN, *more: str) -> None:
    """Train in a process of its own, and kill it with no warning once it has written that many lines."""
    command = [sys.executable, "-c", script, str(out), *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    try:
        while len(lines(out)) < epochs:
            assert process.poll() is None, process.communicate()[1].decode()
            assert time.monotonic() < deadline, "the training got nowhere"
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("resume", [False, True])
def test_killed_before_there_is_a_run(tmp_path: Path, resume: bool) -> None:
    """What is left then are a lock and a part of run.json under another name."""
    out = tmp_path / "killed"
    out.mkdir()
    (out / "lock").touch()
    draft_of(out / "run.json").write_text('{"form')
    assert train_here(out, resume=resume, loop=LoopOptions(epochs=1)).finished


def test_killed_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    whole = train_here(tmp_path / "whole")
    out = tmp_path / "killed"
    kill_after(out, epochs=EPOCHS + 2)  # in the middle of the second member
    assert json.loads((out / "run.json").read_text())["status"] == "training"
    with pytest.raises(RunError, match="interrupted"):
        Run.open(out)
    with pytest.raises(RunError, match=r"exists already; give another folder \(--out\), or continue it \(--resume\)"):
        train_here(out)
    with pytest.raises(RunError, match="was started with seed 0, and 1 was asked for; resume with the options"):
        train_here(out, resume=True, options=TrainOptions(members=2, backbones=("cnn",), device="cpu", seed=1))

    resumed = train_here(out, resume=True)

    for one, other in zip(whole.members(), resumed.members(), strict=True):
        for (name, mine), theirs in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
            assert torch.equal(mine, theirs), name
    assert [entry["sha256"] for entry in whole.manifest["members"]] == [
        entry["sha256"] for entry in resumed.manifest["members"]
    ]
    assert torch.equal(whole.bank("test").outputs, resumed.bank("test").outputs)
    written = [(record["stage"], record["epoch"]) for record in map(json.loads, lines(out))]
    assert written == [(f"member-{member}", epoch) for member in (1, 2) for epoch in range(EPOCHS)]
    losses = [[json.loads(line)["loss"] for line in lines(path)] for path in (tmp_path / "whole", out)]
    assert losses[0] == losses[1]
    assert not (out / "stages").exists()
    assert resumed.manifest["seconds"] >= sum(json.loads(line)["seconds"] for line in lines(out)), "of both attempts"


def test_seconds_are_those_of_all_attempts(tmp_path: Path) -> None:
    def be_late(stage: str, model: nn.Module) -> None:
        time.sleep(1)
        raise KeyboardInterrupt

    loop = LoopOptions(epochs=1, batch_size=64)
    options = TrainOptions(members=3, backbones=("mlp",), device="cpu")
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            train("average", "digits", tmp_path / "run", options=options, loop=loop, watch=be_late, resume=True)
    run = train("average", "digits", tmp_path / "run", options=options, loop=loop, resume=True)
    assert run.manifest["seconds"] >= 3


def start(out: Path, epochs: int) -> subprocess.Popen[str]:
    """`irene train ... --resume`, as a user starts it."""
    command = f"train average --data digits --backbone mlp --members 1 --epochs {epochs} --checkpoint-seconds 0"
    flags = [*command.split(), "--device", "cpu", "--resume", "--out", str(out)]
    return subprocess.Popen(
        [sys.executable, "-m", "irene", *flags], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def epochs_written(out: Path) -> list[int]:
    return [json.loads(line)["epoch"] for line in lines(out)]


def test_a_run_is_trained_by_one_process_at_a_time(tmp_path: Path) -> None:
    out, epochs = tmp_path / "run", 100_000
    for _ in range(2):  # the second time after a kill, which ends the lock too
        there = len(lines(out))
        first = start(out, epochs)
        try:
            deadline = time.monotonic() + 120
            while len(lines(out)) < there + 2:
                assert first.poll() is None, first.communicate()[1]
                assert time.monotonic() < deadline, "the training got nowhere"
                time.sleep(0.01)
            second = start(out, epochs)
            try:
                said = second.communicate(timeout=120)[1]
            finally:
                second.kill()
            assert second.returncode == 2
            assert said.splitlines()[-1] == (
                f"irene: {out}: another process is training this run; wait until it has ended, or give another folder "
                "(--out)"
            )
            assert len(said.splitlines()) == 1
            assert first.poll() is None
        finally:
            first.kill()
            first.communicate()
    written = epochs_written(out)
    assert written == list(range(len(written)))


def test_of_two_that_begin_at_once_one_trains(tmp_path: Path) -> None:
    """The other is refused, and takes nothing away; one that comes so late that the run is finished is content."""
    out, epochs = tmp_path / "deep" / "run", 30
    both = [start(out, epochs) for _ in range(2)]
    said = [one.communicate(timeout=120)[1] for one in both]
    codes = sorted(one.returncode for one in both)
    assert codes in ([0, 2], [0, 0]), said
    assert epochs_written(out) == list(range(epochs))
    assert Run.open(out).finished
    assert not (out / "lock").exists()


def test_resume_of_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    loop = LoopOptions(epochs=1, batch_size=64)
    options = TrainOptions(members=1, backbones=("mlp",), device="cpu")
    train("average", "digits", tmp_path / "run", options=options, loop=loop)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    again = train("average", "digits", tmp_path / "run", options=options, loop=loop, resume=True)
    assert again.finished
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}


def test_resume_of_nothing_begins(tmp_path: Path) -> None:
    options = TrainOptions(members=1, backbones=("mlp",), device="cpu")
    loop = LoopOptions(epochs=1, batch_size=64)
    assert train("single", "digits", tmp_path / "run", options=options, loop=loop, resume=True).finished


LAZILY = f"""
import sys
from torch.utils.data import Dataset
import torch
from irene.data import from_datasets
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.train import TrainOptions, train

class Noisy(Dataset):
    targets = [index % 2 for index in range(160)]
    def __len__(self):
        return 160
    def __getitem__(self, index):
        return torch.randn(4) + index % 2, index % 2

torch.set_num_threads(1)
train("average", from_datasets(Noisy()), sys.argv[1],
      options=TrainOptions(members=2, backbones=("mlp",), device="cpu", readers=int(sys.argv[2])),
      loop=LoopOptions(epochs={EPOCHS}, batch_size=16, optimizer=OptimizerOptions(lr=0.1)),
      resume=True, checkpoint_seconds=0)
"""


def test_killed_with_readers_and_resumed_with_others_equals_uninterrupted(tmp_path: Path) -> None:
    def train_lazily(out: Path, readers: int) -> Run:
        subprocess.run([sys.executable, "-c", LAZILY, str(out), str(readers)], check=True, timeout=120)
        return Run.open(out)

    whole = train_lazily(tmp_path / "whole", 0)
    out = tmp_path / "killed"
    kill_after(out, 2, LAZILY, "2")
    kill_after(out, EPOCHS + 2, LAZILY, "1")
    resumed = train_lazily(out, 2)

    assert resumed.manifest["options"] == whole.manifest["options"]
    one, other = ([entry["sha256"] for entry in run.manifest["members"]] for run in (whole, resumed))
    assert one == other
    for split in ("heldout", "test"):
        assert torch.equal(whole.bank(split).outputs, resumed.bank(split).outputs)
    losses = [[json.loads(line)["loss"] for line in lines(path)] for path in (tmp_path / "whole", out)]
    assert losses[0] == losses[1]
