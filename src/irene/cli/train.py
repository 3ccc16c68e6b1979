"""`irene train`: from data and a method to a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from irene.cli.output import speaking, typed
from irene.cli.params import (
    ENSEMBLE,
    LOOP,
    Backbone,
    Backbones,
    Device,
    Heldout,
    Json,
    Members,
    Readers,
    Root,
    Size,
    Source,
    Target,
    TaskName,
)

METHOD = "Options of the method"


def _methods(incomplete: str) -> list[tuple[str, str]]:
    from irene.training.methods import METHODS

    return [(name, method.description) for name, method in METHODS.items() if name.startswith(incomplete)]


def train(
    context: typer.Context,
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD",
            help="irene, average, woc, single, snapshot, fge, dive2, moe, sparse-moe, mimo, batch-ensemble or distil; "
            "`irene methods` explains them.",
            autocompletion=_methods,
        ),
    ],
    data: Source = None,
    target: Target = None,
    task: TaskName = None,
    root: Root = None,
    size: Size = None,
    readers: Readers = 0,
    heldout: Heldout = None,
    members: Members = None,
    backbone: Backbone = None,
    backbones: Backbones = None,
    seed: Annotated[
        int,
        typer.Option(
            help="Random seed of the initial weights, the order of samples, and which are held out.",
            rich_help_panel=ENSEMBLE,
        ),
    ] = 0,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(help="The run directory to write; runs/METHOD-DATA-seedN by default.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the interrupted run in --out.")] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write scalars for TensorBoard into the run.")
    ] = False,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 15.0,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the training samples; 20 by default.", rich_help_panel=LOOP)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Samples per step, over all processes; 128 by default.", rich_help_panel=LOOP)
    ] = None,
    optimizer: Annotated[str | None, typer.Option(help="sgd (default) or adam.", rich_help_panel=LOOP)] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate: 0.1 for sgd, 0.001 for adam by default.", rich_help_panel=LOOP)
    ] = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="Weight decay of the optimizer; 0.0005 by default.", rich_help_panel=LOOP)
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            help="Schedule of the learning rate: onecycle (default), multistep, cosine, constant or triangle.",
            rich_help_panel=LOOP,
        ),
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="Clip gradients to this norm; no clipping by default.", rich_help_panel=LOOP)
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="auto (default: bf16 on a GPU), fp32 or bf16.", rich_help_panel=LOOP)
    ] = None,
    compile: Annotated[
        bool | None, typer.Option(help="Train through torch.compile; off by default.", rich_help_panel=LOOP)
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT",
            help="irene: the mean cost of a sample to aim for: 1.3 (default), 250M with --cost-unit flops, or 3ms.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    cost_unit: Annotated[
        str | None,
        typer.Option(help="irene: the unit of --cost: members (default), flops or ms.", rich_help_panel=METHOD),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="irene: irene (default), or paper for the paper's losses and 200 epochs.", rich_help_panel=METHOD
        ),
    ] = None,
    selector_data: Annotated[
        str | None,
        typer.Option(
            help="irene: what the selector (which decides when to stop) learns from: slice (default), the held-out "
            "samples, or folds, out-of-fold predictions for the training samples.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            help="irene: the number of folds, with --selector-data folds; 2 by default.", rich_help_panel=METHOD
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="irene: inputs of the selector: some of kl, top1, margin, entropy and agreement or, for regression, "
            "of head_spread, running_spread and shift; all by default.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    weights: Annotated[
        bool | None,
        typer.Option(
            help="irene: fit how much each member counts; by default where backbones differ.", rich_help_panel=METHOD
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART",
            help="irene: leave ensemble, cost, rank, discrepancy, joint or selector out; repeatable.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    ensemble_weight: Annotated[
        float | None,
        typer.Option(help="irene: weight of the ensemble's loss, Eq. 10 of the paper.", rich_help_panel=METHOD),
    ] = None,
    cost_weight: Annotated[
        float | None, typer.Option(help="irene: weight of the expected cost, Eq. 11.", rich_help_panel=METHOD)
    ] = None,
    rank_weight: Annotated[
        float | None,
        typer.Option(
            help="irene: weight of the loss for being worse than earlier members, Eq. 12.", rich_help_panel=METHOD
        ),
    ] = None,
    discrepancy_weight: Annotated[
        float | None,
        typer.Option(help="irene: weight of the difference of a member's two heads.", rich_help_panel=METHOD),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other option of the method, by its name in `irene methods --json`; repeatable.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Train an ensemble by METHOD on --data, and write a run directory for the other commands.

    Under torchrun the processes train together: torchrun --nproc-per-node 2 -m irene train ...
    """
    from irene.cli.loading import Reading
    from irene.cli.training import Flags, run_training, show_run

    flags = Flags(
        method=method,
        data=data,
        reading=Reading(target=target, task=task, root=root, size=size, readers=readers),
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
            "optimizer.weight_decay": weight_decay,
            "optimizer.schedule.kind": schedule,
            "clip": clip,
            "precision": precision,
            "compile": compile,
        },
        own={
            "cost": cost,
            "cost_unit": cost_unit,
            "recipe": recipe,
            "selector_data": selector_data,
            "folds": folds,
            "features": features,
            "weights": weights,
            "without": ",".join(without or ()) or None,
            "loss_weights.ensemble": ensemble_weight,
            "loss_weights.cost": cost_weight,
            "loss_weights.rank": rank_weight,
            "loss_weights.discrepancy": discrepancy_weight,
        },
        settings=tuple(set_ or ()),
    )
    with speaking(json) as output:
        run = run_training(
            flags,
            output.console,
            resume=resume,
            tensorboard=tensorboard,
            checkpoint_seconds=checkpoint_seconds,
            command=typed(context),
        )
        show_run(run, output)
