"""`irene points`: the operating points of a run."""

from __future__ import annotations

from irene.cli.output import speaking
from irene.cli.params import Json, RunFolder


def points(folder: RunFolder, json: Json = False) -> None:
    """List the operating points of a run: what was asked, and what each is expected to show."""
    from irene.cli.point_tables import points_table, summary
    from irene.run import Run

    with speaking(json) as output:
        run = Run.open(folder)
        found = [run.point(name) for name in run.points]
        table = points_table(found, title=f"operating points of {folder}")
        value = {"run": str(folder), "points": [summary(point) for point in found]}
        output.result(value, lambda screen: screen.print(table))
