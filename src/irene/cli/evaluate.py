"""`irene evaluate`: the figures of a run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from irene.cli.output import speaking
from irene.cli.params import Device, Json, OwnTarget, Point, Readers, Root, RunFolder, Source, TaskName


def evaluate(
    folder: RunFolder,
    split: Annotated[
        str | None, typer.Option(help="Which of the run's samples: test (default) or heldout; with --data, only test.")
    ] = None,
    point: Point = None,
    data: Source = None,
    target: OwnTarget = None,
    task: TaskName = None,
    root: Root = None,
    readers: Readers = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Show how good a run is and what it costs, with its own policy or at an operating point.

    The figures are computed from the outputs that the run saved, without running a model. With --data, the members
    run on that data instead: on all its samples, or on its test samples alone if the run was trained or the point
    calibrated on the others.
    """
    from irene.cli.loading import Reading, load_for
    from irene.cli.point_tables import summary
    from irene.cli.tables import every_figure
    from irene.devices import pick_device
    from irene.errors import OptionError, RunError
    from irene.evaluation import evaluate as evaluation
    from irene.run import Run

    with speaking(json) as output:
        run, reading = Run.open(folder), Reading(target=target, task=task, root=root, readers=readers)
        value: dict[str, Any] = {"run": str(folder), "method": run.method, "task": run.task}
        if data is None:
            reading.refuse_alone()
            split = split or "test"
            if split == "test" and split not in run.manifest["banks"]:
                raise RunError(f"{folder}: has no test samples: give labelled samples with --data")
            replayed = evaluation.evaluate(run, split, point=point)
            name, samples, shown = run.manifest["data"]["data"], len(replayed.bank), replayed.figures
        else:
            if split not in (None, "test"):
                raise OptionError(f"with --data, --split can only be test: leave out --split {split}")
            loaded = load_for(run, data, reading, warn=output.warn)
            judged = evaluation.evaluate_on(
                run, loaded, pick_device(device), point=point, test_only=split is not None, readers=readers
            )
            name, split, samples, shown = loaded.name, judged.split, judged.samples, judged.figures
        value |= {"data": name, "split": split, "samples": samples, split: shown}
        if point is not None:
            value["point"] = summary(run.point(point))
        which = f"all {samples:,} samples" if split == "all" else f"{samples:,} {split} samples"
        table = every_figure(shown, title=f"{run.method}{f' at {point}' if point else ''} on {name}, {which}")
        output.result(value, lambda screen: screen.print(table))
