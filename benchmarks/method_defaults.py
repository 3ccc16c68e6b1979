"""What the options of mimo and dive2 are worth on held-out digits: where their defaults were looked at.

    python benchmarks/method_defaults.py

Every setting is trained with the same seeds, each with a held-out slice of its own, a fifth of the training digits,
which neither method learns or chooses anything from. The test digits are taken away before anything is trained.
Prints a table to stderr and JSON to stdout: held-out accuracy with its standard deviation over seeds, and the
difference from the default, seed by seed, with a 95 % interval.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student

from irene.data import Data, load
from irene.evaluation.experiment import Experiment, Variant
from irene.training.methods.dive2 import Dive2Options
from irene.training.methods.mimo import MimoOptions

SETTINGS: dict[str, dict[str, Any]] = {
    "mimo": {
        f"{count} sub-models, repetition {repetition}": MimoOptions(submodels=count, repetition=repetition)
        for count in (2, 3)
        for repetition in (0.0, 0.3, 0.6)
    }
    | {"1 sub-model": MimoOptions(submodels=1, repetition=0.0)},
    "dive2": {
        "models 3 to 2, samples 0.5 to 1, intra 1 to 0, inter 0 to 1": Dive2Options(),
        "models 3 to 1": Dive2Options(models=(3, 1)),
        "models 3 to 3": Dive2Options(models=(3, 3)),
        "samples 0.25 to 1": Dive2Options(samples=(0.25, 1.0)),
        "samples 1 to 1": Dive2Options(samples=(1.0, 1.0)),
        "no intra": Dive2Options(intra=(0.0, 0.0)),
        "no inter": Dive2Options(inter=(0.0, 0.0)),
        "intra 10 to 0, inter 0 to 10": Dive2Options(intra=(10.0, 0.0), inter=(0.0, 10.0)),
    },
}


def without_test(data: Data) -> Data:
    """The data with an empty test set, so that nothing can look at it."""
    return dataclasses.replace(data, test=data.test.subset(torch.tensor([], dtype=torch.int64)))


def heldout_accuracy(method: str, options: Any, data: Data, seeds: int) -> list[float]:
    """Held-out accuracy in %, seed by seed."""
    with tempfile.TemporaryDirectory() as folder:
        experiment = Experiment(data=data, out=Path(folder), seeds=seeds, device="cpu")
        runs = experiment.run([Variant(method=method, own=options)]).runs
        return [100 * run.figures["heldout"]["accuracy"] for run in runs]


def interval(differences: list[float]) -> list[float]:
    """95 %, by Student's t over seeds."""
    spread = statistics.stdev(differences) / math.sqrt(len(differences))
    reach = float(student.ppf(0.975, len(differences) - 1)) * spread
    mean = statistics.mean(differences)
    return [mean - reach, mean + reach]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="mimo,dive2")
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    data = without_test(load("digits"))
    table = Table("method", "setting", "held-out %", "against the default", title=f"digits, {given.seeds} seeds")
    rows = []
    for method in given.methods.split(","):
        settings = SETTINGS[method]
        (default,) = (name for name, options in settings.items() if options == type(options)())
        found = {name: heldout_accuracy(method, options, data, given.seeds) for name, options in settings.items()}
        for name, accuracy in found.items():
            gains = [mine - theirs for mine, theirs in zip(accuracy, found[default], strict=True)]
            row: dict[str, Any] = {"method": method, "setting": name, "default": name == default}
            row |= {"mean": statistics.mean(accuracy), "deviation": statistics.stdev(accuracy)}
            row |= {"gain": statistics.mean(gains), "interval": interval(gains)}
            rows.append(row)
            low, high = row["interval"]
            words = "the default" if name == default else f"{row['gain']:+.2f} [{low:+.2f}, {high:+.2f}]"
            table.add_row(method, name, f"{row['mean']:.2f} ± {row['deviation']:.2f}", words)
    Console(stderr=True, width=160).print(table)
    print(json.dumps({"data": "digits", "seeds": given.seeds, "heldout": 0.2, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
