"""`irene report`: one HTML file about runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from irene.cli.output import say, speaking
from irene.cli.params import Json


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The runs to compare.")],
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
    split: Annotated[str, typer.Option(help="Which of the runs' samples: test or heldout.")] = "test",
    json: Json = False,
) -> None:
    """Write one self-contained HTML file that compares runs, with pictures."""
    from irene.evaluation.report import write_report
    from irene.run import Run

    with speaking(json) as output:
        path = write_report([Run.open(folder) for folder in folders], out, split=split)
        value = {"report": str(path), "runs": [str(folder) for folder in folders], "split": split}
        output.result(
            value,
            lambda screen: say(screen, f"report written to {path}"),
        )
