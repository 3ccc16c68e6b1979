"""`irene study`: a question about ensembles, answered with data and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
from irene.cli.params import ENSEMBLE, Json


def _studies(incomplete: str) -> list[tuple[str, str]]:
    from irene.evaluation.studies import STUDIES

    return [(name, study.description) for name, study in STUDIES.items() if name.startswith(incomplete)]


@with_flags
def study(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(metavar="STUDY", help="members, pareto, size, ablation or curves.", autocompletion=_studies),
    ],
    folders: Folders = None,
    *,
    flags: Flags,
    members: Annotated[
        int | None,
        typer.Option(help="How many members; 5 by default for members and size, else 3.", rich_help_panel=ENSEMBLE),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for runs, runs/DATA by default, with results in studies/ below; for existing runs, studies/."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Reproduce a figure of the paper as data and a picture, from existing runs or by training them now.

    Writes STUDY.json, STUDY.svg and STUDY.png. members: accuracy against the number of members, and how many each
    sample needs. pareto: accuracy against cost. size: utility against the number of members. ablation: IRENE without
    its parts. curves: its losses by epoch.
    """
    with speaking(json) as output:
        _answer(name, folders or [], flags, members, out, output, typed(context))


def _answer(
    name: str, folders: list[Path], flags: Flags, members: int | None, out: Path | None, output: Output, command: str
) -> None:
    from irene.errors import TrainingError
    from irene.evaluation.experiment import Done
    from irene.evaluation.jobs import loaded
    from irene.evaluation.studies import find_study
    from irene.evaluation.studies.study import write_study
    from irene.run import Run

    chosen = find_study(name)
    if folders:
        refuse_training(flags, members=members)
        done = Done(runs=[Run.open(folder) for folder in folders])
        place = out or Path("studies")
    else:
        experiment = make_experiment(flags, out, output.console, command)
        count = member_count(experiment, chosen.members) if members is None else members
        if chosen.check is not None:
            chosen.check(loaded(experiment.data).task, count)
        done = experiment.run(chosen.variants(count, own_options(flags.set)))
        place = experiment.out / "studies"
        tell(done, output)
        if not done.runs:
            raise TrainingError(f"no run was finished, so there is nothing to study in {experiment.out}")
    found, files = write_study(chosen, done.runs, place)
    output.result(
        {**found, "files": [str(file) for file in files], "left_out": done.left_out(), "lost": done.lost()},
        lambda screen: say(screen, "\n".join(map(str, files))),
    )
    if done.lost():
        raise typer.Exit(FAILED)
