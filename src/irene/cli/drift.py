"""`irene drift`: whether data still look like those an operating point was calibrated on."""

from __future__ import annotations

from typing import Annotated

import typer

from irene.cli.output import speaking
from irene.cli.params import Device, Json, OwnTarget, Root, RunFolder, TaskName, sources


def drift(
    folder: RunFolder,
    data: Annotated[
        list[str],
        typer.Option(
            "--data",
            metavar="SPEC|FILE",
            help="Unlabelled images, folders of them, .npz (x), .csv or .parquet files, or a source as in "
            "`irene data`; repeat the option for several.",
            autocompletion=sources,
        ),
    ],
    point: Annotated[str, typer.Option(metavar="NAME", help="The operating point to check.")] = "calibrated",
    target: OwnTarget = None,
    task: TaskName = None,
    root: Root = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Check whether new data still look like those an operating point was calibrated on, and when to recalibrate.

    Compares where samples stop and how ready to stop they are; labels are not needed. A source is checked on all its
    samples, or on its test samples alone if the run was trained or the point calibrated on the others. For a run made
    by `irene bank`, give a file with new outputs of its members.
    """
    from irene.cli.drifting import check, show_drift
    from irene.cli.loading import Reading
    from irene.devices import pick_device
    from irene.run import Run

    with speaking(json) as output:
        run, reading = Run.open(folder), Reading(target=target, task=task, root=root)
        found = check(run, point, data, reading, device=pick_device(device), warn=output.warn)
        show_drift(run, point, found, output)
