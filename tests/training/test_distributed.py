"""Two processes train as one does on the same global batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from irene.run import Run
from irene.training.distributed import World, world
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.train import TrainOptions, train

TRAIN = """
import sys, torch
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.train import TrainOptions, train
torch.set_num_threads(1)
for method, batch_size in (("average", 64), ("average", 51), ("distil", 51)):
    run = train(method, "digits", f"{sys.argv[1]}/{method}-{batch_size}",
          options=TrainOptions(members=2, backbones=("mlpx0.5", "mlp"), device="cpu"),
          loop=LoopOptions(epochs=2, batch_size=batch_size, optimizer=OptimizerOptions(lr=0.05), clip=5.0))
    assert run.finished and run.figures["test"]["accuracy"] > 0.5, "every process gets the finished run"
"""


def test_two_processes_equal_one_on_the_same_global_batch(tmp_path: Path) -> None:
    """Also where the batch cannot be halved: 51 samples are 25 for one process and 26 for the other."""
    script = tmp_path / "script.py"
    script.write_text(TRAIN)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
            *(str(script), str(tmp_path / "two")),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    for method, batch_size in (("average", 64), ("average", 51), ("distil", 51)):
        one = train(
            method,
            "digits",
            tmp_path / "one" / f"{method}-{batch_size}",
            options=TrainOptions(members=2, backbones=("mlpx0.5", "mlp"), device="cpu"),
            loop=LoopOptions(epochs=2, batch_size=batch_size, optimizer=OptimizerOptions(lr=0.05), clip=5.0),
        )
        two = Run.open(tmp_path / "two" / f"{method}-{batch_size}")
        for mine, theirs in zip(one.members(), two.members(), strict=True):
            for name, value in mine.state_dict().items():
                torch.testing.assert_close(theirs.state_dict()[name], value, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(two.bank("test").outputs, one.bank("test").outputs, rtol=1e-3, atol=1e-3)
        records = [
            [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()] for run in (one, two)
        ]
        assert [(record["stage"], record["epoch"]) for record in records[1]] == [
            (record["stage"], record["epoch"]) for record in records[0]
        ]
        losses = [[record["loss"] for record in side] for side in records]
        assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_without_torchrun_the_world_is_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    here = world(torch.device("cpu"))
    assert here == World(rank=0, size=1)
    assert here.leads
    model = nn.BatchNorm1d(3)
    here.average_gradients(list(model.parameters()))
    here.average_buffers(model)
    here.wait()
    assert here.average(torch.ones(2)).tolist() == [1, 1]
    assert not World(rank=1, size=2).leads
