"""Voting, snapshot and fast geometric ensembles by torchensemble and by irene, side by side on digits.

    pip install 'irene-ensemble[bench]'
    python benchmarks/against_torchensemble.py

Both train the same tiny convolutional network on the same 431 digits, for the same epochs, in the same batches, by
the same optimiser, and are tested on the other 1,366 digits; nothing is chosen on those. Every seed draws other
weights and other batches. Prints a table to stderr and JSON to stdout: mean accuracy and its spread over seeds, the
difference, and whether that is within the spread of the difference between two trainings.

What stays different: torchensemble steps its cosine once an epoch where it votes, and averages logits where it does
fast geometric ensembling; irene steps with every batch, and always averages probabilities. irene's optimiser forgets
its momentum between cycles.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import platform
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torchensemble
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from irene import models
from irene.data import Data, load
from irene.data.samples import Samples
from irene.data.splits import split
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.schedules import Schedule
from irene.training.train import TrainOptions, train

MEMBERS, BATCH, LR, WEIGHT_DECAY = 3, 32, 0.1, 5e-4
THEIRS = {
    "voting": torchensemble.VotingClassifier,
    "snapshot": torchensemble.SnapshotEnsembleClassifier,
    "fge": torchensemble.FastGeometricClassifier,
}
OURS = {"voting": "average", "snapshot": "snapshot", "fge": "fge"}


def small_digits() -> Data:
    """Digits with a small training set, which leaves errors to compare, and all others as the test set."""
    data = load("digits")
    parts = split(data, heldout=0.7, seed=0)
    rest = (parts.heldout, parts.test)
    test = Samples(
        inputs=torch.cat([part.inputs for part in rest if part.inputs is not None]),
        targets=torch.cat([part.targets for part in rest]),
        ids=torch.cat([part.ids for part in rest]),
    )
    return Data(
        name="small digits",
        task="classification",
        train=parts.train,
        test=test,
        classes=data.classes,
        fingerprint=data.fingerprint,
    )


DATA = small_digits()


class Estimator(nn.Module):
    """irene's network as torchensemble wants it: a class without arguments that answers (batch, classes)."""

    def __init__(self) -> None:
        super().__init__()
        mean, std = models.statistics(DATA.train.inputs)
        spec = models.MemberSpec(backbone="cnn", shape=DATA.shape, outputs=DATA.outputs)
        self.member = models.build(spec, seed=int(torch.randint(2**31, ())), mean=mean, std=std)

    def forward(self, x: Tensor) -> Tensor:
        logits_B1K: Tensor = self.member(x)
        return logits_B1K[:, 0]


def by_torchensemble(method: str, epochs: int, seed: int) -> float:
    torch.manual_seed(seed)
    data = TensorDataset(DATA.train.inputs, DATA.train.targets)
    loader = DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True)
    model = THEIRS[method](estimator=Estimator, n_estimators=MEMBERS, cuda=False)
    model.set_criterion(nn.CrossEntropyLoss())
    model.set_optimizer("SGD", lr=LR, momentum=0.9, nesterov=True, weight_decay=WEIGHT_DECAY)
    # It prints as it trains, and warns of schedules that it sets itself.
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method != "snapshot":
            model.set_scheduler("CosineAnnealingLR", T_max=epochs)
        model.fit(loader, epochs=epochs, save_model=False)
    model.eval()
    with torch.no_grad():
        return float((model(DATA.test.inputs).argmax(1) == DATA.test.targets).double().mean())


def by_irene(method: str, epochs: int, seed: int) -> float:
    optimizer = OptimizerOptions(lr=LR, weight_decay=WEIGHT_DECAY, schedule=Schedule(kind="cosine"))
    with tempfile.TemporaryDirectory() as folder:
        run = train(
            OURS[method],
            DATA,
            Path(folder) / "run",
            options=TrainOptions(members=MEMBERS, backbones=("cnn",), heldout=0, seed=seed, device="cpu"),
            loop=LoopOptions(epochs=epochs, batch_size=BATCH, optimizer=optimizer),
        )
    return float(run.figures["test"]["accuracy"])


def measure(work: Callable[[str, int, int], float], method: str, epochs: int, seeds: int) -> dict[str, Any]:
    start = time.perf_counter()
    accuracies = [work(method, epochs, seed) for seed in range(seeds)]
    return {
        "mean": statistics.mean(accuracies),
        "spread": statistics.stdev(accuracies),
        "accuracies": accuracies,
        "seconds_a_training": (time.perf_counter() - start) / seeds,
    }


def compare(method: str, epochs: int, seeds: int) -> dict[str, Any]:
    theirs = measure(by_torchensemble, method, epochs, seeds)
    ours = measure(by_irene, method, epochs, seeds)
    difference = ours["mean"] - theirs["mean"]
    spread = math.hypot(ours["spread"], theirs["spread"])
    return {
        "method": method,
        "torchensemble": theirs,
        "irene": ours,
        "difference": difference,
        "spread_of_the_difference": spread,
        "within_spread": abs(difference) <= spread,
    }


def show(rows: list[dict[str, Any]]) -> None:
    table = Table("method", "torchensemble %", "irene %", "difference", "within spread", "seconds each")
    for row in rows:
        theirs, ours = row["torchensemble"], row["irene"]
        table.add_row(
            row["method"],
            *(f"{100 * one['mean']:.2f} ± {100 * one['spread']:.2f}" for one in (theirs, ours)),
            f"{100 * row['difference']:+.2f}",
            "yes" if row["within_spread"] else "no",
            f"{theirs['seconds_a_training']:.1f} / {ours['seconds_a_training']:.1f}",
        )
    Console(file=sys.stderr, width=100).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare irene with torchensemble on digits.")
    parser.add_argument("--seeds", type=int, default=10, help="trainings of each method by each library")
    parser.add_argument("--epochs", type=int, default=12, help="epochs of one model, a multiple of 3")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = [compare(method, arguments.epochs, arguments.seeds) for method in THEIRS]
    show(rows)
    report = {
        "benchmark": "against torchensemble",
        "train": len(DATA.train),
        "test": len(DATA.test),
        "members": MEMBERS,
        "epochs": arguments.epochs,
        "seeds": arguments.seeds,
        "methods": rows,
        "machine": {"processor": platform.processor() or platform.machine(), "threads": 1, "torch": torch.__version__},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
