"""`irene predict`: the answers of a run for files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from irene.cli.output import speaking
from irene.cli.params import Device, Json, Point, RunFolder


def predict(
    folder: RunFolder,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Images, folders of images, .npz (x) or .csv files.")
    ],
    out: Annotated[Path | None, typer.Option(help="Write to this file, not to stdout.")] = None,
    format: Annotated[
        str | None, typer.Option(metavar="csv|jsonl", help="By default what --out ends in, else csv.")
    ] = None,
    point: Point = None,
    probs: Annotated[bool, typer.Option("--probs", help="Add the probability of every class.")] = False,
    batch_size: Annotated[int, typer.Option(min=1)] = 256,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Predict for files: one line a sample, with the class, its probability and the members it took."""
    from irene.cli.predictions import Format, pick_format, predictions, write
    from irene.run import Run
    from irene.training.train import pick_device

    with speaking(json) as output:
        kind: Format = pick_format(format, out)
        run = Run.open(folder)
        found = predictions(run, files, pick_device(device), point=point, batch_size=batch_size, probs=probs)
        if json and out is None:
            records = list(found)
            output.result({"run": str(folder), "samples": len(records), "predictions": records}, lambda screen: None)
            return
        total = write(found, kind, out, output.stdout)
        mean = total.members / total.samples
        value = {"run": str(folder), "samples": total.samples, "mean_members": mean, "out": str(out)}
        if json:
            output.result(value, lambda screen: None)
        else:
            words = f"{total.samples:,} samples, {mean:.2f} members a sample"
            output.console.print(words + (f", written to {out}" if out else ""), markup=False, highlight=False)
