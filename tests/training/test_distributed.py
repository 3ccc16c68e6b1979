"""Two processes train as one does on the same global batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from irene.data import load
from irene.data.loader import Loader
from irene.models import MemberSpec, build
from irene.run import Run
from irene.training.distributed import World, world
from irene.training.loop import derive_seed
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


def torchrun(script: str, out: Path) -> None:
    """Run a script in two processes, which get the folder `out`."""
    file = out.with_suffix(".py")
    file.write_text(script)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    process = subprocess.Popen(
        [*command, str(file), str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, errors = process.communicate(timeout=180)
    except subprocess.TimeoutExpired:
        process.terminate()  # not killed: torchrun ends its processes then
        process.communicate()
        raise
    assert process.returncode == 0, errors


def test_two_processes_equal_one_on_the_same_global_batch(tmp_path: Path) -> None:
    """Also where the batch cannot be halved: 51 samples are 25 for one process and 26 for the other."""
    torchrun(TRAIN, tmp_path / "two")
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


BEGIN = """
import os, sys, time, torch
from pathlib import Path
import irene.training.train as training
from irene.errors import RunError
from irene.files import locked
from irene.training.options import LoopOptions
torch.set_num_threads(1)
out, rank = Path(sys.argv[1]), os.environ["RANK"]
meet = training.world

def late(device):
    here = meet(device)
    time.sleep(0 if here.leads else 2)
    return here

training.world = late  # the second process looks when the first one has begun

def begin(folder, resume):
    return training.train("average", "digits", folder, resume=resume, loop=LoopOptions(epochs=1, batch_size=64),
        options=training.TrainOptions(members=1, backbones=("mlp",), device="cpu"))

def refused(folder, resume):
    try:
        begin(folder, resume)
    except RunError as error:
        return str(error)

assert begin(out / "run", True).finished
assert begin(out / "run", True).finished, "there is nothing left to do"
words = [refused(out / "run", False)]
(out / "busy").mkdir(exist_ok=True)
with locked(out / "busy" / "lock"):  # held by one of the two, whichever that is: for a training both are another
    words.append(refused(out / "busy", True))
(out / f"refused-{rank}").write_text(str(words))
"""


def test_the_first_process_decides_what_is_begun(tmp_path: Path) -> None:
    out = tmp_path / "out"
    torchrun(BEGIN, out)
    written = (out / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(written) == 1
    assert Run.open(out / "run").finished
    words = [(out / f"refused-{rank}").read_text() for rank in range(2)]
    assert words[0] == words[1]
    assert "exists already" in words[0]
    assert "another process is training this run" in words[0]


STATISTICS = """
import os, sys, torch
from pathlib import Path
from safetensors.torch import save_file
from irene.data import load
from irene.models import MemberSpec, build
from irene.training.checkpoint import Checkpoints
from irene.training.distributed import world
from irene.training.loop import Loop
from irene.training.objective import Supervised
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.recorder import Recorder
torch.set_num_threads(1)
data, cpu = load("digits"), torch.device("cpu")
model = build(MemberSpec(backbone="cnn", shape=data.shape, outputs=data.outputs), seed=0)
loop = Loop(device=cpu, seed=0, recorder=Recorder(), checkpoints=Checkpoints(None), world=world(cpu))
loop.fit("m", model, Supervised("classification"), data.train,
         LoopOptions(epochs=1, batch_size=64, optimizer=OptimizerOptions(lr=1e-12)))
Path(sys.argv[1]).mkdir(exist_ok=True)
save_file(dict(model.named_buffers()), f"{sys.argv[1]}/{os.environ['RANK']}")
"""


def test_the_statistics_of_batch_norms_are_the_mean_over_the_processes(tmp_path: Path) -> None:
    """The reference: each process's halves of the batches, run through the same weights one after the other."""
    torchrun(STATISTICS, tmp_path / "out")
    data = load("digits")
    alone: list[dict[str, Tensor]] = []
    for rank in range(2):
        model = build(MemberSpec(backbone="cnn", shape=data.shape, outputs=data.outputs), seed=0).train()
        halves = Loader(
            data.train,
            batch_size=64,
            device=torch.device("cpu"),
            shuffle=True,
            seed=derive_seed(0, "m"),
            drop_last=True,
            rank=rank,
            world=2,
        )
        with torch.no_grad():
            for batch in halves.epoch(0):
                model(batch.inputs)
        alone.append(dict(model.named_buffers()))
    first, second = (load_file(tmp_path / "out" / str(rank)) for rank in range(2))
    names = [name for name in first if "running" in name]
    assert names
    for name in names:
        assert torch.equal(first[name], second[name])
        mean = (alone[0][name] + alone[1][name]) / 2
        torch.testing.assert_close(first[name], mean, rtol=1e-4, atol=1e-5)
    apart = [not torch.allclose(alone[0][name], alone[1][name], rtol=1e-3, atol=1e-4) for name in names]
    assert all(apart), "the two saw different samples"


STOPPED = """
import os, sys, torch
import irene.training.method
from irene.errors import OptionError
from irene.training.methods.irene import IreneOptions
from irene.training.options import LoopOptions
from irene.training.train import TrainOptions, train
from irene.types import Cost
torch.set_num_threads(1)
try:
    train("irene", "digits", sys.argv[1] + "-too-few", loop=LoopOptions(epochs=1),
          options=TrainOptions(members=2, backbones=("mlp",), heldout=1, device="cpu"))
except OptionError as error:
    assert "at least one for each process" in str(error), error
else:
    raise SystemExit("one sample was shared by two processes")
ms = 1.0 + 3 * int(os.environ["RANK"])
irene.training.method.measure_cost = lambda member, batch: Cost(parameters=1, flops=1.0, ms=ms)
train("irene", "digits", sys.argv[1], loop=LoopOptions(epochs=1, batch_size=64),
      options=TrainOptions(members=2, backbones=("mlp",), heldout=7, device="cpu"),
      method_options=IreneOptions(cost=1.5, cost_unit="ms"))
"""


def test_processes_agree_on_what_members_cost_and_share_few_samples(tmp_path: Path) -> None:
    """One process finds members four times as slow as the other does; a quarter of 7 samples is too few for two.

    Fewer samples than processes are refused before training.
    """
    torchrun(STOPPED, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert [cost.ms for cost in run.costs] == [1.0, 1.0]
    assert run.figures["heldout"]["ms"] == pytest.approx(1.5, abs=1 / 7)
    assert run.epochs()["selector"]
    assert not (tmp_path / "run-too-few").exists()


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
    assert (here.told("word"), here.told(None)) == ("word", None)
    assert not World(rank=1, size=2).leads
