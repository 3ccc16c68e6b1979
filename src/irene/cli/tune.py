"""`irene tune`: search for the hyper-parameters of IRENE."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from irene.cli.output import speaking
from irene.cli.params import (
    ENSEMBLE,
    LOOP,
    Backbone,
    Backbones,
    Device,
    Heldout,
    Json,
    Members,
    Root,
    Size,
    Source,
    Target,
    TaskName,
)

SEARCH = "Search"


def tune(
    data: Source = None,
    target: Target = None,
    task: TaskName = None,
    root: Root = None,
    size: Size = None,
    heldout: Heldout = None,
    trials: Annotated[int, typer.Option(help="How many settings to try in all.", rich_help_panel=SEARCH)] = 24,
    workers: Annotated[int, typer.Option(help="Trials run in parallel, one process each.", rich_help_panel=SEARCH)] = 1,
    validation: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE|COUNT",
            help="Training samples to evaluate trials on, which nothing is fitted on; by default a fifth, or from "
            "10,000 samples on a tenth, at most 5,000.",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    members: Members = None,
    backbone: Backbone = None,
    backbones: Backbones = None,
    seed: Annotated[
        int, typer.Option(help="Random seed of the search and of every trial.", rich_help_panel=ENSEMBLE)
    ] = 0,
    cost: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT",
            help="The mean cost of a sample to train for and to evaluate at: 1.3 (default), 250M with --cost-unit "
            "flops, or 3ms.",
            rich_help_panel=ENSEMBLE,
        ),
    ] = None,
    cost_unit: Annotated[
        str | None, typer.Option(help="The unit of --cost: members (default), flops or ms.", rich_help_panel=ENSEMBLE)
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="irene (default), or paper for the paper's losses and 200 epochs.", rich_help_panel=ENSEMBLE),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other option of irene, by its name in `irene methods --json`; repeatable.",
            rich_help_panel=ENSEMBLE,
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the training samples; 20 by default.", rich_help_panel=LOOP)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Samples per step; 128 by default.", rich_help_panel=LOOP)
    ] = None,
    optimizer: Annotated[str | None, typer.Option(help="sgd (default) or adam.", rich_help_panel=LOOP)] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate: 0.1 for sgd, 0.001 for adam by default.", rich_help_panel=LOOP)
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the search; an existing search is continued.")] = Path(
        "runs/tune"
    ),
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Search for good hyper-parameters of irene: the selector's learning rate, its decay, the weights of the losses.

    The space is the paper's Table 3. Trials are compared by their accuracy at the requested mean cost, on samples cut
    off the training set that nothing was fitted on; test samples are not used. Repeat the command to continue an
    interrupted search.
    """
    from irene.cli.loading import Reading
    from irene.cli.training import Flags
    from irene.cli.tuning import run_search, show_tuned

    flags = Flags(
        method="irene",
        data=data,
        reading=Reading(target=target, task=task, root=root, size=size),
        heldout=heldout,
        members=members,
        backbone=backbone,
        backbones=backbones,
        seed=seed,
        device=device,
        out=out,
        loop={
            "epochs": epochs,
            "batch_size": batch_size,
            "optimizer.kind": optimizer,
            "optimizer.lr": lr,
        },
        own={"cost": cost, "cost_unit": cost_unit, "recipe": recipe},
        settings=tuple(set_ or ()),
    )
    with speaking(json) as output:
        tuned = run_search(flags, trials=trials, workers=workers, validation=validation, console=output.console)
        show_tuned(flags, tuned, output)
