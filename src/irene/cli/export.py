"""`irene export`: a run as a folder that runs without irene."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from irene.cli.output import speaking
from irene.cli.params import Json, OwnTarget, Root, RunFolder, Source, TaskName

INT8 = "With --int8"


def export(
    folder: RunFolder,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to write, new or empty (required).")
    ] = None,
    format: Annotated[
        str,
        typer.Option(metavar="onnx|openvino|pt2", help="What will run it: ONNX Runtime, OpenVINO or torch (pt2)."),
    ] = "onnx",
    point: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only this operating point. By default the run as it was trained, named `trained`, then all points.",
        ),
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Quantise members to 8-bit integers, and set thresholds again.")
    ] = False,
    max_loss: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="The largest loss of accuracy from int8, 1% by default; a larger one is refused.",
            rich_help_panel=INT8,
        ),
    ] = None,
    data: Source = None,
    target: OwnTarget = None,
    task: TaskName = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Export a run as a folder that stops early with numpy and onnxruntime (or openvino, or torch) alone.

    The folder holds one graph per member, the operating points, load_irene.py, which needs neither irene nor torch,
    and a README.md that shows how to run it.
    --int8 needs the run's held-out samples again: name its data with --data unless it is bundled with irene.
    """
    from irene.cli import amounts
    from irene.cli.exporting import heldout_data, show_export
    from irene.cli.loading import Reading
    from irene.cli.options import one_of
    from irene.errors import OptionError
    from irene.run import Run
    from irene.runtime.export.folder import FORMATS
    from irene.runtime.export.folder import export as write
    from irene.runtime.quantise import MAX_LOSS

    with speaking(json) as output:
        if out is None:
            raise OptionError("say where to write the folder, for example --out exported")
        chosen, limit = one_of(format, FORMATS, "--format"), amounts.share(max_loss, "--max-loss")
        if limit is not None and not int8:
            raise OptionError("--max-loss is what --int8 may cost: leave it out, or give --int8 too")
        if limit is not None and limit < 0:
            raise OptionError(f"--max-loss is an accuracy that int8 may cost, 0 or more, got {max_loss}")
        run = Run.open(folder)
        loaded = heldout_data(run, data, Reading(target=target, task=task, root=root), int8=int8)
        manifest = write(
            run, out, format=chosen, point=point, int8=int8, data=loaded, max_loss=MAX_LOSS if limit is None else limit
        )
        show_export(run, out, manifest, output)
