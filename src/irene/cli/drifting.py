"""What `irene drift` does: run or replay an operating point on new data, and compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor

from irene.bank import Bank
from irene.calibration.drift import Drift, check_drift
from irene.cli.inputs import find_files, read_rows
from irene.cli.loading import Reading, load_for
from irene.cli.output import Output, command, say
from irene.cli.tables import pairs
from irene.data import Loader
from irene.errors import DataError
from irene.evaluation.banks import unseen_samples
from irene.imported import OUTPUTS
from irene.numbers import plain
from irene.run import Run
from irene.types import Prediction

BATCH = 256


def check(
    run: Run,
    name: str,
    data: Sequence[str],
    how: Reading,
    *,
    device: torch.device,
    warn: Callable[[str], None],
) -> Drift:
    """Compare what an operating point does on data with what it did when it was calibrated."""
    point = run.point(name)
    if run.method == OUTPUTS:
        banks = [_outputs(run, Path(one)).members(point.members) for one in data]
        return check_drift(point, Prediction.cat([bank.replay(point.policy, point.aggregation) for bank in banks]))
    cascade = run.cascade(device, point=name)
    parts = []
    for one in data:
        for inputs in _inputs(run, name, one, how, device=device, warn=warn):
            parts.append(cascade.predict(inputs.to(device)))
    if not parts:
        raise DataError(f"{', '.join(data)}: holds no samples to check")
    return check_drift(point, Prediction.cat(parts).cpu())


def show_drift(run: Run, name: str, found: Drift, output: Output) -> None:
    """Say what has changed."""
    lines = [("verdict", found.verdict), ("samples", f"{found.samples:,}")]
    for count, (now, before) in enumerate(zip(found.used, found.used_before, strict=True), 1):
        lines.append((f"used {count}", f"{now:.1%}, {before:.1%} at calibration"))
    lines.append(("exits", f"{found.exit_shift:.1%} of the samples stop elsewhere (p = {found.exit_p:.2g})"))
    shift = plain(found.score_shift)
    lines.append(
        ("scores", f"stability index {shift}, distance {plain(found.score_distance)} (p = {found.score_p:.2g})")
    )
    table = pairs(lines, title=f"drift at operating point {name} of {run.path}")

    def show(screen: Console) -> None:
        screen.print(table)
        if found.recalibrate:
            hint = command("calibrate", run.path, "--name", name, "--data", "SPEC")
            say(screen, f"\nwith labelled new samples: {hint} ...")

    output.result({"run": str(run.path), "point": name, **asdict(found)}, show)


def _outputs(run: Run, path: Path) -> Bank:
    bank = Bank.read(path, task=run.task, labelled=False)
    if bank.steps != len(run.costs):
        raise DataError(f"{path}: has outputs of {bank.steps} members and {run.path} of {len(run.costs)}")
    return bank


def _inputs(
    run: Run, name: str, one: str, how: Reading, *, device: torch.device, warn: Callable[[str], None]
) -> Iterator[Tensor]:
    path = Path(one)
    if path.exists() or (":" not in one and path.suffix):
        about = run.manifest["data"]
        for rows in read_rows(find_files([path], about), about, batch_size=BATCH, warn=warn):
            yield rows.inputs
        return
    loaded = load_for(run, one, how, warn=warn)
    for samples in unseen_samples(run, loaded, name)[1]:
        for batch in Loader(samples, batch_size=BATCH, device=device, shuffle=False).epoch(0):
            yield batch.inputs
