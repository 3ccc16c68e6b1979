"""`irene calibrate`: set where a run stops each sample, for what is asked of it."""

from __future__ import annotations

from typing import Annotated

import typer

from irene.cli.output import speaking
from irene.cli.params import Device, Json, OwnTarget, Readers, Root, RunFolder, Source, TaskName

ASKED = "What to ask for (exactly one)"


def calibrate(
    folder: RunFolder,
    cost: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT",
            help="This mean cost per sample: 1.3, 250M with --cost-unit flops, or 3ms.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    max_drop: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="The lowest cost that loses at most this much of the whole ensemble's accuracy on these samples: "
            "0.5%. This is an estimate; use --risk for a promise.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    p99: Annotated[
        str | None,
        typer.Option(
            "--p99",
            metavar="TIME",
            help="The best accuracy with 99 % of samples answered within this time, one at a time: 8ms. The members "
            "are first timed on --device.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    risk: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="The lowest cost that gets at most this share of samples wrong which the whole ensemble gets right: "
            "0.5%. This is a promise, kept with --confidence.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    confidence: Annotated[
        str,
        typer.Option(metavar="SHARE", help="The confidence of promises (--p99, --risk, --guaranteed) and intervals."),
    ] = "90%",
    guaranteed: Annotated[
        bool, typer.Option("--guaranteed", help="Promise that the true mean cost is at most --cost.")
    ] = False,
    cost_unit: Annotated[
        str | None, typer.Option(metavar="members|flops|ms", help="The unit of costs; members by default.")
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            metavar="auto|NAME",
            help="The rule that decides when a sample stops. auto takes the best by cross-validation and says why; it "
            "includes a selector if the run has one or members differ in size. Or one of margin, confidence, entropy, "
            "agreement, patience, window, change, cost-to-go, selector and skipping; for regression spread, "
            "cost-to-go or selector.",
        ),
    ] = "auto",
    weights: Annotated[
        bool | None,
        typer.Option(
            "--weights/--no-weights", help="Fit how much each member counts; by default if members differ in size."
        ),
    ] = None,
    name: Annotated[
        str, typer.Option(help="What to call the operating point; one of that name is replaced.")
    ] = "calibrated",
    data: Source = None,
    target: OwnTarget = None,
    task: TaskName = None,
    root: Root = None,
    readers: Readers = 0,
    seed: Annotated[
        int, typer.Option(help="Random seed of folds, and of the samples that a promise is made with.")
    ] = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Find when to stop each sample for a mean cost, an accuracy, a latency or a risk: an operating point of a run.

    Calibrates on the run's held-out samples or, with --data, on the training samples of other data, which no member
    may have seen; the test samples stay unseen for `irene evaluate --data`. The run itself goes on stopping as it was
    trained: evaluate, predict and export work at the point where `--point NAME` says so.
    """
    from irene.calibration.fit import FEW
    from irene.calibration.wishes import Wish
    from irene.cli import amounts
    from irene.cli.calibrating import bank_for, fit_point, timed
    from irene.cli.loading import Reading
    from irene.cli.point_tables import show_point
    from irene.files import check_room
    from irene.run import Run

    with speaking(json) as output:
        mean_cost, unit = amounts.cost(cost, cost_unit)
        wish = Wish(
            cost=mean_cost,
            unit=unit,
            max_drop=amounts.share(max_drop, "--max-drop"),
            p99=amounts.milliseconds(p99, "--p99"),
            risk=amounts.share(risk, "--risk"),
            confidence=amounts.share(confidence, "--confidence", large=True) or 0.0,
            guaranteed=guaranteed,
        )
        run, reading = Run.open(folder), Reading(target=target, task=task, root=root, readers=readers)
        run.check_point_name(name)  # as the next line: before anything is fitted, which can take minutes
        check_room(run.path / "run.json")
        bank = bank_for(run, data, reading, device=device, warn=output.warn)
        if wish.p99 is not None:
            with output.console.status("timing members, one sample at a time"):
                bank = timed(run, bank, device)
        with output.console.status("fitting policies on held-out outputs"):
            point = fit_point(
                run, bank, wish, policy=policy, weights=weights, name=name, seed=seed, fresh=data is not None
            )
        point = run.save_point(point)
        if len(bank) < FEW:
            output.warn(
                f"calibrated on {len(bank)} samples, which say little about others: use {FEW} or more, held out by "
                "`irene train --heldout` or given with --data"
            )
        show_point(run, point, output)
