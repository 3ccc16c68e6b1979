"""`irene import`: a run of members that were trained elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from irene.cli.output import speaking
from irene.cli.params import Device, Json, Root, Size, Source, Target, TaskName

Labels = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The class of each output, one name per line.", dir_okay=False)
]


def import_(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE...", help=".onnx files, in the order in which they run.")
    ] = None,
    members: Annotated[list[Path] | None, typer.Option(metavar="FILE...", help="The same files, as an option.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="The run directory to write (required).")] = None,
    labels: Labels = None,
    data: Source = None,
    unseen: Annotated[
        str,
        typer.Option(
            metavar="all|test",
            help="all: no member has seen any of --data. test: they were trained on its training samples.",
        ),
    ] = "all",
    target: Target = None,
    task: TaskName = None,
    root: Root = None,
    size: Size = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Make a run from ONNX models you have, to calibrate, evaluate and use like one that irene trained.

    The files are copied. Members get inputs as they are in the data, images as numbers from 0 to 255. With --data,
    their outputs are saved: on its training samples to calibrate on, and on its test samples to test on.
    """
    from irene.cli.importing import as_task, read_labels, show_import
    from irene.cli.loading import Reading, load_data
    from irene.devices import pick_device
    from irene.errors import OptionError
    from irene.imported import import_members

    with speaking(json) as output:
        if out is None:
            raise OptionError("say where to write the run, for example --out runs/mine")
        if data is None and any(given is not None for given in (target, root, size)):
            raise OptionError("--target, --root and --size say how to read --data: give it too")
        loaded = None if data is None else load_data(data, Reading(target=target, task=task, root=root, size=size))
        run = import_members(
            [*(members or ()), *(files or ())],
            out,
            labels=read_labels(labels),
            data=loaded,
            unseen=unseen,
            task=as_task(task),
            device=pick_device(device),
        )
        show_import(run, output)
