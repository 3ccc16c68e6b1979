"""Study: a question about ensembles, answered with data and a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from irene.errors import RunError
from irene.evaluation import evaluate
from irene.evaluation.evaluate import Evaluation
from irene.evaluation.experiment import Variant
from irene.evaluation.table import group
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
    for other in found[1:]:
        if not evaluate.same_samples(found[0], other):
            raise RunError(f"{found[0].run.path} and {other.run.path} were not evaluated on the same samples")
    kinds = group(found)
    if len(kinds) > 1:
        raise RunError(f"this study needs runs of {method} of one kind, got: {', '.join(kinds)}")
    return found


def about(evaluations: Sequence[Evaluation]) -> Findings:
    """What every study says of its runs."""
    first = evaluations[0]
    return {
        "data": first.run.manifest["data"]["data"],
        "task": first.bank.task,
        "samples": len(first.bank),
        "runs": [str(one.run.path) for one in evaluations],
    }
