"""What `irene import` and `irene bank` share: labels, costs, and what they say in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from irene.bank import Bank
from irene.cli import options
from irene.cli.output import Output, command, say
from irene.cli.tables import figures_table
from irene.errors import DataError, OptionError
from irene.run import Run
from irene.types import TASKS, Cost, Task


def as_task(text: str | None) -> Task | None:
    """The task of that name."""
    return None if text is None else options.one_of(text, TASKS, "--task")


def read_labels(path: Path | None) -> list[str] | None:
    """The lines of a file that are not empty."""
    if path is None:
        return None
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not UTF-8 text; expected one class name per line") from None
    return [line for line in lines if line]


def costs_with(bank: Bank, given: Mapping[str, str | None]) -> Bank:
    """The bank with some of its costs replaced: comma-separated numbers, one a member."""
    costs = [cost.to_dict() for cost in bank.costs]
    for field, text in given.items():
        if text is None:
            continue
        try:
            values = [options.number(word) for word in options.names(text)]
        except ValueError:
            raise OptionError(f"--{field} takes numbers with commas between, such as 70M,1.1G, got {text!r}") from None
        if len(values) != len(costs):
            raise OptionError(f"--{field} needs a value for each of {len(costs)} members, got {len(values)}")
        for cost, value in zip(costs, values, strict=True):
            cost[field] = value
    return replace(bank, costs=tuple(Cost.from_dict(cost) for cost in costs))


def show_import(run: Run, output: Output) -> None:
    """Say where the run is, what all members together achieve, and what to do next."""
    value = {
        "run": str(run.path),
        "method": run.method,
        "task": run.task,
        "data": run.manifest["data"]["data"],
        "members": len(run.costs),
        "ms": [cost.ms or None for cost in run.costs],
        "classes": run.manifest["data"]["classes"],
        "notes": run.manifest["notes"],
        **run.figures,
    }

    def show(screen: Console) -> None:
        if run.figures:
            screen.print(figures_table(run.figures, title="All members on every sample"))
        for note in run.manifest["notes"]:
            say(screen, f"note: {note}")
        say(screen, f"\nrun written to {run.path}")
        if len(run.costs) == 1:
            screen.print("stopping early takes two members or more: there is nothing to calibrate", highlight=False)
        elif "heldout" in run.figures:
            hint = command("calibrate", run.path, "--max-drop", "0.5%")
            say(screen, f"next: {hint}")
        else:
            screen.print("next: irene calibrate with labelled --data", markup=False, highlight=False)

    output.result(value, show)
