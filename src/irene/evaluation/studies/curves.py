"""How the losses of IRENE go down, term by term and member by member (Fig. 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from irene.errors import RunError
from irene.evaluation.experiment import Variant
from irene.evaluation.studies.study import Findings, Own, Study, about, of_method
from irene.evaluation.table import Spread
from irene.pictures import COLOURS, logarithmic, panels, styled
from irene.run import Run

TERMS = {
    "base": "base loss (Eq. 8), log scale",
    "discrepancy": "heads' discrepancy (A.1.2)",
    "rank": "rank loss",
    "selector_rank": "rank loss, selector",
    "ensemble": "ensemble loss (regret)",
    "cost": "cost loss (at its price)",
    "expected_members": "expected members a sample",
    "price": "price of a member",
}
# The paper's recipe alone has these equations: in the default one other quantities stand in their place.
EQUATIONS = {"rank": "rank loss (Eq. 12)", "ensemble": "ensemble loss (Eq. 10)", "cost": "cost loss (Eq. 11)"}


def variants(members: int, own: Own) -> list[Variant]:
    return [Variant(method="irene", members=members, own=own.get("irene"))]


def measure(runs: Sequence[Run]) -> Findings:
    """Every term of the loss of each member by epoch, averaged over runs."""
    evaluations = of_method(runs, "irene")
    chosen = [one.run for one in evaluations]
    terms: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for member in range(1, len(chosen[0].manifest["backbones"]) + 1):
        by_run = _epochs(chosen, f"member-{member}")
        for term in TERMS:
            columns = [[record[term] for record in records if term in record] for records in by_run]
            if all(columns):
                over_runs = [vars(Spread.of(values)) for values in zip(*columns, strict=True)]
                terms.setdefault(term, {})[f"member {member}"] = over_runs
    return {
        **about(evaluations),
        "recipe": chosen[0].manifest["options"]["method"].get("recipe"),
        "terms": terms,
    }


def _epochs(runs: Sequence[Run], stage: str) -> list[list[dict[str, Any]]]:
    """The epochs of a stage of each run, as many of one as of another."""
    by_run = [run.epochs().get(stage, []) for run in runs]
    for run, epochs in zip(runs, by_run, strict=True):
        if not epochs or len(epochs) != len(by_run[0]):
            raise RunError(
                f"{run.path / 'metrics.jsonl'} must have as many epochs of {stage} as that of {runs[0].path}, at least "
                f"one, got {len(epochs)} and {len(by_run[0])}: leave out the run that is damaged"
            )
    return by_run


@styled
def draw(found: Findings) -> Figure:
    """One panel a term, one line a member."""
    terms = found["terms"]
    titles = TERMS | (EQUATIONS if found.get("recipe") == "paper" else {})
    figure, grid = panels(len(terms), min(3, len(terms)))
    for axes, (term, members) in zip(grid, terms.items(), strict=True):
        _panel(axes, titles[term], members)
        if term == "base":
            logarithmic(axes)
    title = "mean ± deviation\nover seeds" if len(found["runs"]) > 1 else None
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside right upper", title=title)
    return figure


def _panel(axes: Axes, title: str, members: dict[str, list[dict[str, Any]]]) -> None:
    for name, epochs in members.items():
        colour = COLOURS[(int(name.split()[1]) - 1) % len(COLOURS)]
        number = range(1, len(epochs) + 1)
        mean = [epoch["mean"] for epoch in epochs]
        axes.plot(number, mean, color=colour, label=name, lw=1.5)
        if all(epoch["spread"] is not None for epoch in epochs):
            low, high = ([m + sign * e["spread"] for m, e in zip(mean, epochs, strict=True)] for sign in (-1, 1))
            axes.fill_between(number, low, high, color=colour, alpha=0.15, lw=0)
    axes.set_title(title)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))


STUDY = Study(
    name="curves",
    description="the terms of IRENE's loss by epoch, for each member (Fig. 6)",
    members=3,
    variants=variants,
    measure=measure,
    draw=draw,
)
