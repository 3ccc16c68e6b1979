"""Study: a question about ensembles, answered with data and a picture."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from irene.errors import RunError
from irene.evaluation import evaluate
from irene.evaluation.evaluate import Evaluation
from irene.evaluation.experiment import Variant
from irene.evaluation.table import group, settings
from irene.files import as_json, write_atomically, write_json
from irene.pictures import rendered
from irene.run import Run
from irene.types import Task

Own = Mapping[str, Any]  # options of methods, by method
Findings = dict[str, Any]  # what is drawn and written down: JSON values


@dataclass(frozen=True, kw_only=True)
class Study:
    """A question: which runs it takes, what is measured on them, and how that is drawn.

    `measure` looks at finished runs only. What a run has to choose, it chooses on its held-out samples; test samples
    are for what is shown.
    """

    name: str
    description: str
    members: int  # of the ensembles, by default
    variants: Callable[[int, Own], list[Variant]]
    measure: Callable[[Sequence[Run]], Findings]
    draw: Callable[[Findings], Figure]
    check: Callable[[Task, int], None] | None = None  # refuses a task or a number of members, before any training


def write_study(study: Study, runs: Sequence[Run], folder: Path) -> tuple[Findings, list[Path]]:
    """Measure, draw, and leave NAME.json, NAME.svg and NAME.png in a folder."""
    found: Findings = as_json({"study": study.name, **study.measure(runs)})
    paths = [folder / f"{study.name}.{ending}" for ending in ("json", "svg", "png")]
    write_json(paths[0], found)
    figure = study.draw(found)
    for path in paths[1:]:
        write_atomically(path, rendered(figure, path.suffix[1:]))
    return found, paths


def of_method(runs: Sequence[Run], method: str) -> list[Evaluation]:
    """The runs of a method with their answers on the test samples; they differ in their seed alone."""
    found = [evaluate.evaluate(run) for run in runs if run.method == method]
    if not found:
        there = ", ".join(dict.fromkeys(run.method for run in runs)) or "none"
        raise RunError(f"this study needs a run of {method}, got runs of: {there}")
    evaluate.check_same_samples(found)
    kinds = group(found)
    if len(kinds) > 1:
        raise RunError(f"this study needs runs of {method} of one kind, got: {', '.join(kinds)}")
    return found


def check_alike(runs: Sequence[Run], *, but: Collection[str] = ()) -> None:
    """Refuse runs that were trained in different ways.

    They may differ in their seed, in their method with its own options, and in the settings that `but` names. Of other
    numbers of members, the first ones are of the same backbones. What only one of two runs records is not compared.
    """
    of_method: dict[str, Run] = {}
    for run in runs:
        for other in (runs[0], of_method.setdefault(run.method, run)):
            differ = _differences(other, run, but)
            if differ:
                raise RunError(
                    f"{other.path} and {run.path} differ in {', '.join(differ)}: this study needs runs trained alike"
                )


def _differences(one: Run, other: Run, but: Collection[str]) -> list[str]:
    shared = min(len(run.manifest["backbones"]) for run in (one, other))
    mine, theirs = (settings(run) | {"backbones": "+".join(run.manifest["backbones"][:shared])} for run in (one, other))
    return [
        f"{key.removeprefix('method.')} ({mine[key]} and {theirs[key]})"
        for key in mine
        if key in theirs and key not in but and mine[key] != theirs[key]
        if one.method == other.method or not key.startswith("method.")
    ]


def about(evaluations: Sequence[Evaluation]) -> Findings:
    """What every study says of its runs."""
    first = evaluations[0]
    return {
        "data": first.run.manifest["data"]["data"],
        "task": first.bank.task,
        "samples": len(first.bank),
        "runs": [str(one.run.path) for one in evaluations],
    }
