"""`irene bank`: a run of outputs that were computed elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from irene.cli.import_ import Labels
from irene.cli.output import speaking
from irene.cli.params import Json, TaskName


def bank(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Outputs as .npz, .parquet or a bank of irene.")],
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="The run directory to write (required).")] = None,
    labels: Labels = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="heldout|test",
            help="What the samples are for: heldout (to calibrate) or test; a second call adds the other to the run. "
            "By default they are divided into both.",
        ),
    ] = None,
    heldout: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE|COUNT",
            help="Without --split: how many samples to calibrate on, with the others to test on; half by default.",
        ),
    ] = None,
    flops: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="FLOPs of each member per sample, such as 70M,1.1G.")
    ] = None,
    ms: Annotated[str | None, typer.Option(metavar="A,B,...", help="Milliseconds of each member per sample.")] = None,
    task: TaskName = None,
    seed: Annotated[int, typer.Option(help="Random seed that decides which samples are held out.")] = 0,
    json: Json = False,
) -> None:
    """Make a run from logits or values computed elsewhere, to calibrate even members that cannot run here.

    A .npz file has the arrays outputs (samples, members, classes) and targets, and may have ids, ms, flops and
    parameters. A .parquet file has the column target, optionally id, and one column per member with its outputs.
    """
    from irene.bank import Bank
    from irene.cli.importing import as_task, costs_with, read_labels, show_import
    from irene.cli.options import share_or_count
    from irene.errors import OptionError
    from irene.imported import import_outputs

    with speaking(json) as output:
        if out is None:
            raise OptionError("say where to write the run, for example --out runs/mine")
        found = costs_with(Bank.read(file, task=as_task(task)), {"flops": flops, "ms": ms})
        run = import_outputs(
            found,
            out,
            name=file.name,
            labels=read_labels(labels),
            split=split,
            heldout=share_or_count(heldout),
            seed=seed,
        )
        show_import(run, output)
