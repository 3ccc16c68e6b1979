"""How good an ensemble gets with its members, and how many of them each sample needs (Fig. 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from torch import Tensor

from irene.bank import Bank
from irene.evaluation.experiment import Variant
from irene.evaluation.studies.study import Findings, Own, Study, about, of_method
from irene.evaluation.table import Spread
from irene.halting.policies import Never
from irene.halting.quality import quality
from irene.pictures import COLOURS, INK, WIDTH, logarithmic, styled
from irene.run import Run


def variants(members: int, own: Own) -> list[Variant]:
    return [Variant(method="average", members=members)]


def measure(runs: Sequence[Run]) -> Findings:
    """Quality of the first t members together and of each alone; the smallest t at which each sample is right."""
    evaluations = of_method(runs, "average")
    steps = min(one.bank.steps for one in evaluations)
    banks = [one.bank.members(range(steps)) for one in evaluations]
    together, alone = ([_figures(values(bank)) for bank in banks] for values in (prefix_quality, member_quality))
    found = {
        **about(evaluations),
        "members": list(range(1, steps + 1)),
        "together": _over_seeds(together, banks[0].task),
        "alone": _over_seeds(alone, banks[0].task),
    }
    if banks[0].task == "classification":
        shares = [_figures(smallest(prefix_quality(bank))) for bank in banks]
        found["smallest"] = _over_seeds(shares, "classification")  # with 1, 2, ... members, and never
    return found


def prefix_quality(bank: Bank) -> Tensor:
    """(N, T) quality of the mean of the first members."""
    return quality(bank.trajectory(Never()).means_NTK, bank.targets, bank.task)


def member_quality(bank: Bank) -> Tensor:
    """(N, T) quality of each member's own answer."""
    return quality(bank.outputs[:, :, 0].float(), bank.targets, bank.task)


def smallest(right_NT: Tensor) -> Tensor:
    """(N, T + 1) one where the first t members, and no fewer, are right; in the last column where none ever are."""
    ever_N = right_NT.any(1)
    first_N = torch.where(ever_N, right_NT.argmax(1), right_NT.shape[1])
    return torch.nn.functional.one_hot(first_N, right_NT.shape[1] + 1).to(torch.float64)


def _figures(values_NT: Tensor) -> list[float]:
    means: list[float] = values_NT.mean(0).tolist()
    return means


def _over_seeds(lists: Sequence[Sequence[float]], task: str) -> list[dict[str, Any]]:
    """The figure at each position over seeds; of minus a squared error, its root."""
    convert = (lambda value: value) if task == "classification" else (lambda value: (-value) ** 0.5)
    return [vars(Spread.of(map(convert, column))) for column in zip(*lists, strict=True)]


@styled
def draw(found: Findings) -> Figure:
    """Quality against the number of members; beside it, the share of samples that need so many."""
    panels = 2 if "smallest" in found else 1
    figure = Figure(figsize=(WIDTH, 3.4))
    axes = list(figure.subplots(1, panels, squeeze=False, width_ratios=[1.15, 1][:panels]).flat)
    _draw_quality(axes[0], found)
    if panels == 2:
        _draw_smallest(axes[1], found)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def _draw_quality(axes: Axes, found: Findings) -> None:
    count = found["members"]
    for name, label, colour, style, aside in (
        ("together", "first members averaged", COLOURS[0], "-o", 0.0),
        ("alone", "each member alone", COLOURS[7], "o", 0.02 * len(count)),
    ):
        place = [number + aside for number in count]
        mean = [figure["mean"] for figure in found[name]]
        spread = [figure["spread"] or 0.0 for figure in found[name]]
        axes.errorbar(place, mean, yerr=spread, fmt=style, color=colour, ms=5, lw=1.8, elinewidth=1, label=label)
    axes.set_xlabel("members")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if found["task"] == "classification":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    name = "accuracy" if found["task"] == "classification" else "RMSE"
    axes.set_ylabel(f"{name}, ± deviation over seeds" if len(found["runs"]) > 1 else name)


def _draw_smallest(axes: Axes, found: Findings) -> None:
    names = [*(str(count) for count in found["members"]), "never"]
    shares = [figure["mean"] for figure in found["smallest"]]
    colours = [COLOURS[0]] * (len(names) - 1) + [COLOURS[7]]
    bars = axes.bar(names, shares, color=colours, width=0.66)
    size = 8 if len(names) < 8 else 6.5  # of text over a bar, which is as narrow as there are many
    axes.bar_label(bars, [f"{share:.2%}" if share else "" for share in shares], color=INK, fontsize=size, padding=2)
    # Nearly all samples need one member: on a linear axis the others would not be seen.
    logarithmic(axes, lambda share: f"{100 * share:g}%")
    lowest = min(share for share in shares if share > 0) / 2
    axes.set_ylim(bottom=lowest, top=3)
    for place, share in enumerate(shares):
        if not share:  # no bar, which a label could be put on
            at = (place, lowest)
            axes.annotate("none", at, (0, 3), textcoords="offset points", ha="center", color=INK, fontsize=size)
    axes.grid(axis="x", visible=False)
    axes.set_xlabel("members until the answer is right")
    axes.set_ylabel("share of samples, log scale")


STUDY = Study(
    name="members",
    description="accuracy against the number of members, and how many each sample needs (Fig. 1)",
    members=5,
    variants=variants,
    measure=measure,
    draw=draw,
)
