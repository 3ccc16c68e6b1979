"""`irene tune`: search for the hyper-parameters of IRENE."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from irene.cli.output import speaking
from irene.cli.params import Device, Heldout, Json, Root, Source, Target, TaskName

SEARCH, ENSEMBLE, LOOP = "Search", "Ensemble", "Training of each member"


def tune(
    context: typer.Context,
    data: Source = None,
    target: Target = None,
    task: TaskName = None,
    root: Root = None,
    heldout: Heldout = None,
    trials: Annotated[int, typer.Option(help="How many points of the space are tried.", rich_help_panel=SEARCH)] = 24,
    workers: Annotated[int, typer.Option(help="Processes side by side.", rich_help_panel=SEARCH)] = 1,
    validation: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE|COUNT",
            help="Training samples to judge trials by, which nothing is fitted on.",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    members: Annotated[int | None, typer.Option(help="3 by default.", rich_help_panel=ENSEMBLE)] = None,
    backbone: Annotated[
        str | None, typer.Option(help="One backbone for all members.", rich_help_panel=ENSEMBLE)
    ] = None,
    backbones: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="One backbone for each member.", rich_help_panel=ENSEMBLE)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the search and of every trial.", rich_help_panel=ENSEMBLE)] = 0,
    cost: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="The mean cost to judge at.", rich_help_panel=ENSEMBLE)
    ] = None,
    cost_unit: Annotated[str | None, typer.Option(help="members, flops or ms.", rich_help_panel=ENSEMBLE)] = None,
    recipe: Annotated[str | None, typer.Option(help="irene or paper.", rich_help_panel=ENSEMBLE)] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other option of IRENE.", rich_help_panel=ENSEMBLE),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="20 by default.", rich_help_panel=LOOP)] = None,
    batch_size: Annotated[int | None, typer.Option(help="128 by default.", rich_help_panel=LOOP)] = None,
    optimizer: Annotated[str | None, typer.Option(help="sgd (default) or adam.", rich_help_panel=LOOP)] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate of the members.", rich_help_panel=LOOP)] = None,
    out: Annotated[Path, typer.Option(help="Where the search is kept; one that is there goes on.")] = Path("runs/tune"),
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Search the paper's Table 3 for the selector's learning rate and its decay and the weights of the losses.

    Trials are judged by their accuracy at the asked mean cost on samples cut off the training set, which nothing was
    fitted on; the test samples are not looked at. The same command goes on with a search that was interrupted.
    """
    from irene.cli.training import Flags
    from irene.cli.tuning import run_search, show_tuned

    flags = Flags(
        method="irene",
        data=data,
        target=target,
        task=task,
        root=root,
        heldout=heldout,
        members=members,
        backbone=backbone,
        backbones=backbones,
        seed=seed,
        device=device,
        out=out,
        resume=True,
        tensorboard=False,
        checkpoint_seconds=15.0,
        loop={
            "epochs": epochs,
            "batch_size": batch_size,
            "optimizer.kind": optimizer,
            "optimizer.lr": lr,
        },
        own={"cost": cost, "cost_unit": cost_unit, "recipe": recipe},
        settings=tuple(set_ or ()),
        command=(context.obj or {}).get("command", ""),
    )
    with speaking(json) as output:
        tuned = run_search(flags, trials=trials, workers=workers, validation=validation, console=output.console)
        show_tuned(flags, tuned, output)
