"""What each part of IRENE is worth: it is trained without the part, all else the same (Fig. 5)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from irene.errors import OptionError, RunError
from irene.evaluation.evaluate import quality_name
from irene.evaluation.experiment import Variant
from irene.evaluation.studies.study import Findings, Own, Study, check_alike
from irene.evaluation.table import Row, make_table
from irene.pictures import COLOURS, INK, WIDTH, styled
from irene.run import Run
from irene.training.methods.irene import IreneOptions, Part

WHOLE = "IRENE"
PARTS: dict[Part, str] = {
    "ensemble": "without the ensemble loss",
    "cost": "without the cost loss",
    "rank": "without the rank loss",
    "discrepancy": "heads not driven apart",
    "joint": "selector after training",
    "selector": "sequential only, no selector",
}


def variants(members: int, own: Own) -> list[Variant]:
    options: IreneOptions = own.get("irene", IreneOptions())
    if options.without:
        raise OptionError(
            f"an ablation leaves out one part after the other, got without={','.join(options.without)}: leave that away"
        )
    ablated = [
        Variant(
            method="irene",
            members=members,
            own=dataclasses.replace(options, without=(part,)),
            name=f"without-{part}",
        )
        for part in PARTS
    ]
    whole = Variant(method="irene", members=members, own=own.get("irene"))
    return [Variant(method="average", members=members, own=own.get("average")), whole, *ablated]


def measure(runs: Sequence[Run]) -> Findings:
    """Quality, cost and, with the average ensemble among the runs, utility; gains are on the whole of IRENE."""
    wanted = [run for run in runs if run.method in ("irene", "average")]
    whole = [run for run in wanted if run.method == "irene" and not _left_out(run)]
    if not whole:
        raise RunError("an ablation needs runs of irene with all its parts, and runs --without some of them")
    check_alike(wanted, but=("method.without",))
    names = {str(run.path): _name(run) for run in wanted}
    # The first run of irene names the row that others are compared with: one with all its parts.
    table = make_table(sorted(wanted, key=lambda run: bool(_left_out(run))), reference="irene")
    rows = {names[row.runs[0]]: row for row in table.rows}
    if len(rows) < len(table.rows):
        kinds = ", ".join(row.name for row in table.rows)
        raise RunError(f"the runs of an ablation differ in the parts left out and their seed alone, got: {kinds}")
    quality = quality_name(table.task)
    return {
        "data": table.data,
        "task": table.task,
        "samples": table.samples,
        "quality": quality,
        "variants": {name: _figures(rows[name], quality) for name in dict.fromkeys(names.values())},
    }


def _left_out(run: Run) -> tuple[Part, ...]:
    return tuple(run.manifest["options"]["method"].get("without", ()))


def _name(run: Run) -> str:
    if run.method == "average":
        return "average ensemble"
    return ", ".join(PARTS[part] for part in _left_out(run)) or WHOLE


def _figures(row: Row, quality: str) -> dict[str, Any]:
    return {
        "seeds": len(row.seeds),
        quality: vars(row.figures[quality]),
        "cost": vars(row.figures["cost"]),
        "utility": row.utility,
        "gain": None if row.gain is None else vars(row.gain),
        "runs": list(row.runs),
    }


@styled
def draw(found: Findings) -> Figure:
    """What is lost without each part, and at what cost."""
    rows = found["variants"]
    names = [WHOLE, *(name for name in rows if name != WHOLE)]
    figure = Figure(figsize=(WIDTH, 0.9 + 0.42 * len(names)))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1.6, 1])
    for place, name in enumerate(names):
        figures = rows[name]
        colour = COLOURS[0] if name == WHOLE else COLOURS[7] if name == "average ensemble" else COLOURS[1]
        gain = figures["gain"] or {"mean": 0.0, "low": 0.0, "high": 0.0}
        ends = [[100 * abs(gain["mean"] - gain[end])] for end in ("low", "high")]
        left.errorbar([100 * gain["mean"]], [place], xerr=ends, fmt="o", color=colour, ms=7, elinewidth=1.6)
        cost = figures["cost"]
        right.errorbar(
            [cost["mean"]], [place], xerr=[cost["spread"] or 0.0], fmt="o", color=colour, ms=7, elinewidth=1.6
        )
        right.annotate(
            f"{cost['mean']:.2f}",
            (cost["mean"], place),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    left.axvline(0, color=INK, lw=0.8, alpha=0.5)
    left.set_yticks(range(len(names)), [f"{name}, {_written(rows[name], found['quality'])}" for name in names])
    left.set_ylim(len(names) - 0.4, -0.7)
    unit = "points of accuracy" if found["task"] == "classification" else "% of squared error saved"
    left.set_xlabel(f"{unit} against IRENE, 95 % interval")
    right.set_xlabel("members a sample")
    right.margins(x=0.15)
    for axes in (left, right):
        axes.grid(axis="y", visible=False)
    return figure


def _written(figures: dict[str, Any], quality: str) -> str:
    mean = figures[quality]["mean"]
    return f"{mean:.2%}" if quality == "accuracy" else f"RMSE {mean:.4g}"


STUDY = Study(
    name="ablation",
    description="IRENE without each of its losses, without joint training, without its selector (Fig. 5)",
    members=3,
    variants=variants,
    measure=measure,
    draw=draw,
)
