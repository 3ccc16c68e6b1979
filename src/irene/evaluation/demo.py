"""The demonstration: a few methods on bundled data, one table, one report."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from irene.data import Data, load
from irene.evaluation import evaluate
from irene.evaluation.report import headline, write_report
from irene.evaluation.utility import utility
from irene.training.methods import METHODS
from irene.training.options import LoopOptions
from irene.training.train import TrainOptions, train

COST = 1.3
METHODS_SHOWN = ("single", "average", "woc", "irene")
LOOP = LoopOptions()
SAMPLES = 10


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What the demonstration left, and what it found."""

    runs: dict[str, Path]
    rows: dict[str, dict[str, Any]]
    headline: str
    report: Path
    samples: Path
    seconds: float

    @property
    def next(self) -> Sequence[tuple[str, str]]:
        """Three commands to try next, each with what it shows."""
        last = str(list(self.runs.values())[-1])
        return (
            (
                shlex.join(["irene", "predict", last, str(self.samples)]),
                "answers for ten digits, and the members each took",
            ),
            (shlex.join(["irene", "evaluate", last]), "every figure of a run"),
            (f"irene train irene --data folder:PATH --cost {COST}", "the same for your own images"),
        )


def run_demo(
    out: Path, *, seed: int = 0, device: str = "auto", command: str = "irene demo", console: Console | None = None
) -> Demo:
    """Train three small members by each method on handwritten digits, and report on them."""
    started = time.monotonic()
    console = console or Console(quiet=True)
    data = load("digits")
    options = TrainOptions(members=3, backbones=("cnn",), seed=seed, device=device)
    torch.set_num_threads(1)  # members this small lose more by waiting for each other's threads than they gain
    runs = {}
    for name in METHODS_SHOWN:
        own = METHODS[name].options()
        if name == "irene":
            own = dataclasses.replace(own, cost=COST)
        console.print(f"[bold]{name}[/bold]: {METHODS[name].description}")
        remove_earlier(out / name)
        runs[name] = train(name, data, out / name, options=options, loop=LOOP, method_options=own, console=console)
        runs[name].note_command(command)
    evaluations = [evaluate.evaluate(run) for run in runs.values()]
    rows = {
        name: {**one.figures, "utility": utility([one], [[other] for other in evaluations])}
        for name, one in zip(runs, evaluations, strict=True)
    }
    return Demo(
        runs={name: run.path for name, run in runs.items()},
        rows=rows,
        headline=headline(evaluations, list(runs)),
        report=write_report(list(runs.values()), out / "report.html"),
        samples=write_samples(data, out / "samples.npz"),
        seconds=round(time.monotonic() - started, 1),
    )


def remove_earlier(folder: Path) -> None:
    """Remove what an earlier demonstration left; anything that is no run is not ours to remove."""
    if (folder / "run.json").is_file():
        shutil.rmtree(folder)


def write_samples(data: Data, path: Path) -> Path:
    """Write a few test samples to a file that `irene predict` takes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, x=data.test.read(range(SAMPLES)).numpy())
    return path
