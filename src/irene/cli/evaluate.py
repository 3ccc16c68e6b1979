"""`irene evaluate`: the figures of a run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from irene.cli.output import speaking
from irene.cli.params import Device, Json, Point, Root, RunFolder, Source, Target, TaskName


def evaluate(
    folder: RunFolder,
    split: Annotated[str, typer.Option(help="Which of the run's samples: test or heldout.")] = "test",
    point: Point = None,
    data: Source = None,
    target: Target = None,
    task: TaskName = None,
    root: Root = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Show how good a run is and what it costs, with its own policy or at an operating point.

    The figures are replayed from the outputs the run saved, without running a model. With --data the members run
    on the test samples of that data instead.
    """
    from irene.cli.loading import load_data
    from irene.cli.point_tables import summary
    from irene.cli.tables import every_figure
    from irene.devices import pick_device
    from irene.errors import OptionError
    from irene.evaluation import evaluate as evaluation
    from irene.run import Run

    with speaking(json) as output:
        run = Run.open(folder)
        value: dict[str, Any] = {"run": str(folder), "method": run.method, "task": run.task}
        if data is None:
            if target is not None or task is not None or root is not None:
                raise OptionError("--target, --task and --root say how to read --data: give it too")
            shown = evaluation.evaluate(run, split, point=point).figures
            value |= {"data": run.manifest["data"]["data"], "split": split, split: shown}
        else:
            if split != "test":
                raise OptionError(f"--data is evaluated on its test samples, got --split {split}")
            loaded = load_data(data, target=target, task=task, root=root)
            shown = evaluation.evaluate_on(run, loaded, pick_device(device), point=point)
            value |= {"data": loaded.name, "split": split, split: shown}
        if point is not None:
            value["point"] = summary(run.point(point))
        table = every_figure(
            shown, title=f"{run.method}{f' at {point}' if point else ''} on {value['data']}, {split} samples"
        )
        output.result(value, lambda screen: screen.print(table))
