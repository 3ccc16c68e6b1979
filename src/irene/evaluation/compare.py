"""compare: what each method gives on the same data, over several seeds, in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irene.errors import OptionError, TrainingError
from irene.evaluation.experiment import Done, Experiment, Variant
from irene.evaluation.table import Table, make_table
from irene.evaluation.table_files import write_table
from irene.training.methods import METHODS, find_method


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The table, the files it was written to, and what became of the runs."""

    table: Table
    files: list[Path]
    done: Done


def compare(
    experiment: Experiment,
    methods: Sequence[str] = ("all",),
    *,
    members: int = 3,
    own: Mapping[str, Any] | None = None,
    reference: str | None = None,
) -> Comparison:
    """Train what is missing of these methods, and write one table of all of them beside the runs.

    `all` stands for every method there is, less those that do not fit the data. `own` gives options by method.
    """
    everything = "all" in methods
    names = list(METHODS) if everything else list(dict.fromkeys(methods))
    for name in names:
        find_method(name)
    if reference is not None and reference not in names:
        raise OptionError(f"the reference must be one of the methods compared, got {reference!r}")
    unused = [name for name in own or () if name not in names]
    if unused:
        raise OptionError(f"options are given for {unused[0]}, which is not among the methods compared: add it to them")
    variants = [Variant(method=name, members=members, own=(own or {}).get(name)) for name in names]
    done = experiment.run(variants)
    if not everything and done.left_out():
        name, reason = next(iter(done.left_out().items()))
        raise OptionError(f"{name}: {reason}")
    if not done.runs:
        name, reason = next(iter({**done.lost(), **done.left_out()}.items()))
        raise TrainingError(f"no run was finished; {name}: {reason}")
    table = make_table(done.runs, reference=reference)
    return Comparison(table=table, files=write_table(table, experiment.out), done=done)
