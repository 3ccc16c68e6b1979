"""Does a latency that was promised hold on the clock?

    irene train average --data digits --backbones cnn,resnet20,resnet32 --epochs 5 --out RUN
    python benchmarks/latency_kept.py RUN

As `irene calibrate --p99` does, the members are timed with one sample at a time and thresholds are set for limits
between what one member takes and what all take, a tenth above each. Then every test sample is answered by itself, some
times over, and those that took longer are counted.

Writes benchmarks/results/latency_kept.json and latency_kept.md, and prints the latter.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from documents import machine, table, write_results
from torch import Tensor

from irene.calibration.wishes import p99_of
from irene.cascade import Cascade
from irene.cli.calibrating import timed
from irene.cli.loading import Reading, load_for
from irene.fitting import fit_policy
from irene.run import Run
from irene.runtime.bench import hardware

SLACK = 1.1  # a limit, over what so many members take


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--data", default="digits")
    parser.add_argument("--passes", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    run, device = Run.open(arguments.run), torch.device("cpu")
    bank = timed(run, run.bank("heldout"), "cpu")
    test = load_for(run, arguments.data, Reading(), warn=print).test
    assert test.inputs is not None  # digits are in memory
    limits = [SLACK * ms for ms in accumulate(cost.ms for cost in bank.costs)]
    rows = [look(run, fit_policy(bank, "margin", p99=limit), test.inputs, arguments.passes) for limit in limits]
    report = {"hardware": hardware(device), "backbones": run.manifest["backbones"], "rows": rows}
    write_results("latency_kept", report, [markdown(report)])


def look(run: Run, point: Any, inputs: Tensor, passes: int) -> dict[str, Any]:
    """What was asked, and how long samples took."""
    members = [member.eval() for member in run.members()]
    taken = times(point.cascade(members), inputs, passes)
    limit = point.asked["p99"]
    return {
        "asked": limit,
        "members": len(point.members),
        "answers": len(taken),
        "median": sorted(taken)[len(taken) // 2],
        "p99": p99_of(torch.tensor(taken, dtype=torch.float64)),
        "late": sum(ms > limit for ms in taken) / len(taken),
    }


def times(cascade: Cascade, inputs: Tensor, passes: int) -> Sequence[float]:
    """Milliseconds of each answer."""
    found = []
    for _ in range(passes):
        for sample in inputs.split(1):
            start = time.perf_counter()
            cascade.predict(sample)
            found.append(1000 * (time.perf_counter() - start))
    return found


def markdown(report: dict[str, Any]) -> str:
    heads = ["asked for p99 of, ms", "members that fit", "answers", "median, ms", "p99, ms", "later than asked"]
    lines = []
    for row in report["rows"]:
        lines.append([f"{row['asked']:.2f}", str(row["members"]), f"{row['answers']:,}"])
        lines[-1] += [f"{row['median']:.2f}", f"{row['p99']:.2f}", f"{row['late']:.2%}"]
    return f"{', '.join(report['backbones'])} on {machine(report['hardware'])}:\n\n{table(heads, lines)}"


if __name__ == "__main__":
    main()
