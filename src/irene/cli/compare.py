"""`irene compare`: every method on the same data, in one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from irene.cli.experiment import (
    FAILED,
    Flags,
    Folders,
    make_experiment,
    member_count,
    own_options,
    refuse_training,
    tell,
    with_flags,
)
from irene.cli.output import Output, say, speaking, typed
from irene.cli.params import Json, Members
from irene.errors import OptionError

if TYPE_CHECKING:
    from irene.evaluation.experiment import Experiment
    from irene.evaluation.table import Table


@with_flags
def compare(
    context: typer.Context,
    folders: Folders = None,
    *,
    methods: Annotated[
        str | None, typer.Option(metavar="all|A,B", help="The methods to compare; all by default.")
    ] = None,
    flags: Flags,
    members: Members = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for runs and the table, runs/DATA by default; existing runs there are kept."),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(metavar="METHOD", help="What the others are compared with; average by default.")
    ] = None,
    point: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="For existing runs: also evaluate their operating point of this name; repeatable."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Train every method on the same data over several seeds, and show one table; or compare existing runs.

    Existing runs are not trained again, and interrupted ones are resumed.
    """
    with speaking(json) as output:
        if folders:
            refuse_training(flags, methods=methods, members=members)
            _existing(folders, point or [], reference, out, output)
        else:
            if point:
                raise OptionError("--point is about runs that exist: name them, such as irene compare RUN --point NAME")
            experiment = make_experiment(flags, out, output.console, typed(context))
            count = member_count(experiment, 3) if members is None else members
            _trained(experiment, methods, count, own_options(flags.set), reference, output)


def _existing(folders: list[Path], points: list[str], reference: str | None, out: Path | None, output: Output) -> None:
    from irene.evaluation.table import as_dict, make_table
    from irene.evaluation.table_files import write_table
    from irene.run import Run

    table = make_table(
        [Run.open(folder) for folder in folders], points=list(dict.fromkeys(points)), reference=reference
    )
    files = write_table(table, out) if out is not None else []
    _show(table, output, {**as_dict(table), "files": [str(file) for file in files]})


def _trained(
    experiment: Experiment,
    methods: str | None,
    members: int,
    own: dict[str, Any],
    reference: str | None,
    output: Output,
) -> None:
    from irene.cli import options as given_options
    from irene.evaluation.compare import compare as compare_methods
    from irene.evaluation.table import as_dict

    found = compare_methods(
        experiment,
        ("all",) if methods is None else given_options.names(methods),
        members=members,
        own=own,
        reference=reference,
    )
    value = {
        **as_dict(found.table),
        "files": [str(file) for file in found.files],
        "left_out": found.done.left_out(),
        "lost": found.done.lost(),
    }
    _show(found.table, output, value)
    tell(found.done, output)
    say(output.console, f"table and runs are in {experiment.out}")
    if found.done.lost():
        raise typer.Exit(FAILED)


def _show(table: Table, output: Output, value: dict[str, Any]) -> None:
    from irene.cli.tables import comparison_tables
    from irene.evaluation.table_files import note

    def show(screen: Any) -> None:
        width = screen.width
        screen.width = 10_000  # rich would cut figures off where a name is long, and all of them in a pipe
        for part in comparison_tables(table, width=width if screen.is_terminal else screen.width):
            screen.print(part)
            screen.print()
        screen.width = width
        screen.print(note(table), markup=False, highlight=False)

    output.result(value, show)
