"""`irene points`: the operating points of a run, to list or to delete."""

from __future__ import annotations

from typing import Annotated

import typer

from irene.cli.output import say, speaking
from irene.cli.params import Json, RunFolder


def points(
    folder: RunFolder,
    delete: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Delete the point of this name, then list the others; repeat it for several."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the operating points of a run: what was requested, and the figures expected of each."""
    from irene.cli.point_tables import points_table, summary
    from irene.errors import IreneError
    from irene.run import Run

    with speaking(json) as output:
        run = Run.open(folder)
        for name in delete or ():
            run.delete_point(name)
            say(output.console, f"deleted {name}")
        found, unreadable = [], {}
        for name in run.points:
            try:
                found.append(run.point(name))
            except IreneError as error:
                unreadable[name] = str(error)
                output.warn(f"the point {name} cannot be read: {error} (to delete it: --delete {name})")
        table = points_table(found, title=f"operating points of {folder}")
        value = {"run": str(folder), "points": [summary(point) for point in found], "unreadable": unreadable}
        output.result(value, lambda screen: screen.print(table))
