"""What the README says that the study found: what cascades that start small gain, and in what time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from names import GO_ON, counted, seeds, title, trained

from pages import latency_text
from pages.conclusions import best_cascades
from pages.latency_text import Latency
from pages.rows import Row, in_lines, mean_of, networks, spread, taught

COSTS = ("0.25", "0.5")
LARGE = (("single", "one ResNet-18", 1), ("average", "three ResNet-18, averaged", 3))


def headline(study: dict[str, Any], latency: Latency, datasets: Sequence[str]) -> str:
    """Cascades of each training at two costs, beside one large network and three, and measured time."""
    best = best_cascades(study["small_first"], datasets)
    about = best[0][0]
    said = (
        f"CIFAR, {about['epochs']} epochs on one H200, {seeds(about['seeds'])} ([all figures](docs/results.md), [the "
        "commands that give them](benchmarks/README.md)). Accuracy in % at exactly that mean cost, in FLOPs of one "
        "ResNet-18; bold where it is above one ResNet-18's of as many epochs:"
    )
    notes = [members(best), going_on(study["teachers"], best)]
    times = [latency_text.in_half_the_time(latency), latency_text.on_a_gpu(latency)]
    return "\n\n".join([in_lines(said), table(study["rows"], best, datasets), *filter(None, notes), *times]) + "\n"


def table(rows: Sequence[Row], best: Sequence[Sequence[Row]], datasets: Sequence[str]) -> str:
    lines = [f"| | cost | {' | '.join(map(title, datasets))} |", "|---" * (2 + len(datasets)) + "|"]
    as_long = best[0][0]["epochs"]
    for epochs in dict.fromkeys([as_long, max(row["epochs"] for row in rows)]):
        for method, name, cost in LARGE:
            found = large_ones(rows, best[0], method, epochs)
            if not any(found):
                continue
            longer = f", {epochs} epochs ({seeds(max(map(len, found)))})" * (epochs != as_long)
            cells = [spread(here, "accuracy", 100) if here else "" for here in found]
            lines.append(f"| {name}{longer} | {cost:.2f} | {' | '.join(cells)} |")
    single = [mean_of(here, "accuracy") for here in large_ones(rows, best[0], "single", as_long)]
    for alike in best:
        name = f"cascade, {trained(alike[0]['training'])}"
        for cost in COSTS:
            right = [one["policies"]["selector"][cost]["accuracy"] for one in alike]
            cells = [
                f"**{100 * ours:.2f}**" if ours > theirs else f"{100 * ours:.2f}"
                for ours, theirs in zip(right, single, strict=True)
            ]
            lines.append(f"| {name} | {float(cost):.2f} | {' | '.join(cells)} |")
            name = ""
    return "\n".join(lines)


def large_ones(rows: Sequence[Row], cascades: Sequence[Row], method: str, epochs: int) -> list[list[Row]]:
    """Independent large networks of a length of training and of the seeds of cascades, for each of these."""
    return [networks(rows, {**cascade, "epochs": epochs}, "resnet18", method) for cascade in cascades]


def members(best: Sequence[Sequence[Row]]) -> str:
    """Who runs in the cascades of the table, in that order."""
    kinds = [
        f"{counted(alike[0]['members'])} where "
        + ("small ones were taught" if taught(alike[0]) else "all were trained independently")
        for alike in best
    ]
    return in_lines(
        f"In the order they run in, members are {', and '.join(dict.fromkeys(kinds))}. *ResNet-18 x 0.25* has a "
        "quarter of the channels of a ResNet-18, and 0.063 of its FLOPs."
    )


def going_on(teachers: Sequence[Row], best: Sequence[Sequence[Row]]) -> str:
    """What large ones that go on are, and how good the first of them is alone, if a cascade shown has such."""
    trainings = [alike[0]["training"] for alike in best if alike[0]["training"].endswith(GO_ON)]
    found = {one["dataset"]: one for one in teachers if one["training"] in trainings[:1]}
    if not found:
        return ""
    alone = " and ".join(f"{100 * found[one['dataset']]['alone'][0]['accuracy']:.2f}" for one in best[0])
    return in_lines(
        "Large ones that *go on* each begin with the weights of the one before: who runs first has learned for the "
        f"epochs of all three, and has {alone} % alone."
    )
