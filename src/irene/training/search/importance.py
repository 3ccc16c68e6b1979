"""The picture of how much each hyper-parameter decides in a search."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from irene.pictures import COLOURS, WIDTH, styled


@styled
def importance(shares: Mapping[str, float]) -> Figure:
    """One bar a hyper-parameter, the most important on top."""
    figure = Figure(figsize=(WIDTH, 0.6 + 0.4 * len(shares)))
    axes = figure.add_subplot()
    ranked = sorted(shares.items(), key=lambda entry: entry[1])
    bars = axes.barh([name for name, _ in ranked], [share for _, share in ranked], color=COLOURS[0])
    axes.bar_label(bars, [f"{share:.0%}" for _, share in ranked], padding=4)
    axes.set_xlim(0, 1.1 * max(shares.values()))
    axes.set_xlabel("share of the variance between trials (fANOVA)")
    axes.grid(visible=False, axis="y")
    return figure
