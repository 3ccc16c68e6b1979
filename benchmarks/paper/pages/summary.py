"""The results in few words for who reads no further: what pays, what does not, and how it stands beside the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from comparison import count_ahead, span
from names import ALL_IMAGES, GOING_ON, IRENE, PAPER_EPOCHS, parts_of, seeds, title

from pages import beyond_text
from pages.conclusions import MARGIN, best_cascades, rows_of
from pages.latency_text import Latency, as_accurate_on_a_gpu, asked_for_half
from pages.rows import (
    Row,
    grouped,
    in_lines,
    irene_in_paper,
    load_paper,
    mean_of,
    networks,
    select,
    taught,
    utility_of,
)

Gain = Sequence[float]  # points, and the ends of their interval


def summary(study: dict[str, Any], beyond: dict[str, Any], latency: Latency, datasets: Sequence[str]) -> str:
    """A paragraph for who serves models, of these data sets, and one for who compares with the paper."""
    rows, against, going_on = study["rows"], study["against"], study["going_on"]
    served = [
        starting_small(study["small_first"], rows, datasets),
        in_time(latency),
        learned_halting(study["small_first"], gains_of(against, "the same")),
        beyond_text.in_short(beyond),
    ]
    compared = [
        joint_training(gains_of(against, "independent"), going_on),
        against_the_paper(rows, list(against), list(going_on)),
        trained_like_the_paper(rows),
    ]
    return "\n\n".join(in_lines(" ".join(filter(None, said))) for said in (served, compared))


def starting_small(cascades: Sequence[Row], rows: Sequence[Row], datasets: Sequence[str]) -> str:
    """What the best cascades reach at a quarter and at half of the cost of one large network."""
    best = best_cascades(cascades, datasets)[0]
    single, three = (
        [mean_of(networks(rows, one, "resnet18", method), "accuracy") for one in best]
        for method in ("single", "average")
    )
    quarter, half = ([one["policies"]["selector"][cost]["accuracy"] for one in best] for cost in ("0.25", "0.5"))
    better = [name for name, ours, theirs in zip(datasets, quarter, single, strict=True) if ours > theirs]
    where = "" if len(better) == len(datasets) else f" on {written(better)} alone"
    return (
        f"**Starting small {f'pays{where}' if better else 'does not pay'}**: at a quarter of one ResNet-18's FLOPs "
        f"small networks in front of three ResNet-18{', which taught them,' if taught(best[0]) else ''} reach "
        f"{percent(quarter)} % on {written(datasets)}, at half {percent(half)} ({seeds(best[0]['seeds'])}); "
        f"one ResNet-18 has {percent(single)}, three averaged {percent(three)} at three times its cost, "
        f"after {best[0]['epochs']} epochs{trained_longer(best[0]['epochs'], rows, datasets)}."
    )


def trained_longer(epochs: int, rows: Sequence[Row], datasets: Sequence[str]) -> str:
    """What one large network and three averaged have that were trained for longest, if that is longer."""
    longest = max(row["epochs"] for row in rows if row["images"] < ALL_IMAGES)
    told = []
    for dataset in datasets:
        one, three = (select(rows, dataset, "resnet18", longest, method) for method in ("single", "average"))
        if longest > epochs and one and three:
            reached = percent([mean_of(one, "accuracy"), mean_of(three, "accuracy")])
            told.append(f"{title(dataset)}, {seeds(len(one))}: {reached}")
    return f" ({longest}, {'; '.join(told)})" if told else ""


def in_time(latency: Latency) -> str:
    """What is left of it in measured time, on a CPU and on a GPU."""
    network, rows = asked_for_half(latency)
    times = [took for took, _ in as_accurate_on_a_gpu(latency)]
    gpu = f"no less accurate, {min(times):.2f} to {max(times):.2f}" if times else "none is as accurate"
    return (
        f"Time is not FLOPs: a cascade takes {mean_of(rows, 'time_median'):.2f} of one ResNet-18's on two CPU cores "
        f"({100 * mean_of(rows, 'accuracy'):.2f} against {100 * network['single']:.2f} %, "
        f"{title(network['dataset'])}), on an H200, {gpu}."
    )


def learned_halting(cascades: Sequence[Row], same: Sequence[Gain]) -> str:
    """Where a selector is better than a threshold on the margin: on unequal members, and on equal ones."""
    unequal = [point["gain"] for one in cascades for point in one["policies"]["selector"].values()]
    sure = [mean for mean, low, _ in unequal if low > 0]
    most = f"up to {max(sure):+.2f} points" if sure else "no clear gain"
    return (
        f"**Learning when to stop {pays(unequal)} where members differ in size**: {most} over a margin threshold at "
        f"the same cost, {ahead(unequal)} cases of {len(cascades)} cascades. **On equal members it {pays(same)}**: "
        f"{span(same)} points, {ahead(same)} settings."
    )


def joint_training(other: Sequence[Gain], going_on: dict[str, Any]) -> str:
    """IRENE as a whole against independent members that stop by their margin, also where later members go on."""
    later = [about["independent"]["gain"]["all"] for about in going_on.values() if "independent" in about]
    also = f"; where later ones go on from the one before {span(later)}, {ahead(later)}" if later else ""
    return (
        f"**Beside the paper**: training members and selector together (IRENE) {pays(other)}: {span(other)} over "
        f"independent members, {ahead(other)} settings{also}."
    )


def against_the_paper(rows: Sequence[Row], slugs: Sequence[str], going_on: Sequence[str]) -> str:
    """How often IRENE's utility is the paper's or more, by length of training; where it is less after the longest."""
    counts, below = utilities_reached(rows, slugs, IRENE)
    if not counts:
        return ""
    later, _ = utilities_reached(rows, going_on, GOING_ON)
    also = f"; going on {later}" if later else ""
    return f"Settings where IRENE's utility reaches the paper's: {counts}{f' ({below})' if below else ''}{also}."


def utilities_reached(rows: Sequence[Row], slugs: Sequence[str], method: str) -> tuple[str, str]:
    """In how many settings the utility of a method is the paper's or more, and where it is less after the longest."""
    reached: dict[int, list[bool]] = {}
    less: dict[int, list[str]] = {}
    for slug in slugs:
        dataset, backbone, epochs, _ = parts_of(slug)
        setting, paper = rows_of(slug, rows), irene_in_paper(dataset, backbone)
        runs = [row for row in setting if row["method"] == method]
        ours = utility_of(runs, setting)
        if ours is not None and paper is not None:
            theirs = paper["utility"]
            reached.setdefault(epochs, []).append(ours >= theirs)
            told = less.setdefault(epochs, [])
            where = f"{title(dataset)}, {title(backbone)}, {seeds(len(runs))}"
            told += [f"{where}: {ours:.2f}, paper {theirs:.2f}"] * (ours < theirs)
    counts = [f"{sum(found)} of {len(found)} after {epochs} epochs" for epochs, found in sorted(reached.items())]
    return ", ".join(counts), "; ".join(less[max(less)]) if less else ""


def trained_like_the_paper(rows: Sequence[Row]) -> str:
    """One network and three averaged beside the paper's, where they had its images and its epochs."""
    paper = {(row["dataset"], row["backbone"], row["method"]): row["accuracy"] for row in load_paper()}
    alike = [row for row in rows if row["images"] == ALL_IMAGES and row["epochs"] == PAPER_EPOCHS]
    told = []
    for (dataset, backbone), here in grouped(alike, "dataset", "backbone").items():
        by_method = grouped(here, "method")
        methods = ("single", "average")
        ours = percent([mean_of(by_method[method,], "accuracy") for method in methods])
        theirs = " and ".join(f"{paper[dataset, backbone, method]:.2f}" for method in methods)
        many = seeds(len(by_method["single",]))
        told.append(
            f"one {title(backbone)} and three averaged have {ours} % on {title(dataset)} (paper: {theirs}; {many})"
        )
    return f"With the paper's images and epochs {'; '.join(told)}." if told else ""


def gains_of(against: dict[str, Any], kind: str) -> list[Gain]:
    """What IRENE gains on margin + temperature over all costs, on the same or on independent members."""
    return [about["gains"][f"{MARGIN}, {kind} members"]["all"] for about in against.values()]


def pays(gains: Sequence[Gain]) -> str:
    """Whether something is worth it, by how often it is clearly ahead."""
    clear = count_ahead(gains)
    if not clear:
        return "is not seen to pay"
    return "pays" if clear == len(gains) else "mostly pays" if 2 * clear >= len(gains) else "seldom pays"


def ahead(gains: Sequence[Gain]) -> str:
    behind = sum(high < 0 for _, _, high in gains)
    return f"clearly ahead in {count_ahead(gains)}{f' and behind in {behind}' if behind else ''} of {len(gains)}"


def percent(values: Sequence[float]) -> str:
    return " and ".join(f"{100 * value:.2f}" for value in values)


def written(datasets: Sequence[str]) -> str:
    return " and ".join(map(title, datasets))
