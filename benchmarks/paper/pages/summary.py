"""The results in one paragraph for who reads no further: what pays, what does not, with its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from names import ALL_IMAGES, IRENE, PAPER_EPOCHS, seeds, setting_title, title

from pages import beyond_text
from pages.conclusions import MARGIN, best_cascades, recipe_sentence
from pages.rows import Row, grouped, in_lines, load_paper, mean_of, networks, of_setting, taught, utility_of

Gains = dict[str, tuple[float, float, float]]  # by setting: points, and their interval


def summary(study: dict[str, Any], beyond: dict[str, Any], datasets: Sequence[str]) -> str:
    """Of these data sets the cascades, and of all settings IRENE."""
    rows, gains = study["rows"], gains_by_setting(study["against"])
    sentences = [
        starting_small(study["small_first"], rows, datasets),
        learned_halting(study["small_first"], gains["the same"], study["against"]),
        joint_training(gains["independent"], study["against"]),
        *(beyond_text.in_short(slug, about) for slug, about in beyond.items()),
        against_the_paper(rows, list(study["against"])),
        trained_like_the_paper(rows),
        recipe_sentence(rows).replace("**", ""),
    ]
    return in_lines(" ".join(filter(None, sentences)))


def starting_small(cascades: Sequence[Row], rows: Sequence[Row], datasets: Sequence[str]) -> str:
    """What taught cascades reach at a quarter and at half of the cost of one large network."""
    best = best_cascades(cascades, datasets)[0]

    def have(values: list[float]) -> str:
        return " and ".join(f"{100 * value:.2f}" for value in values)

    def at(cost: str) -> str:
        return have([cascade["policies"]["selector"][cost]["accuracy"] for cascade in best])

    def plain(method: str) -> str:
        return have([mean_of(networks(rows, cascade, "resnet18", method), "accuracy") for cascade in best])

    small = "small networks, which large ones taught," if taught(best[0]) else "small networks"
    return (
        f"**Starting small pays.** With {small} in front of three ResNet-18, a quarter of one ResNet-18's FLOPs is "
        f"enough for {at('0.25')} % on {' and '.join(title(name) for name in datasets)}, and half of them for "
        f"{at('0.5')}; one ResNet-18 has {plain('single')}, and three averaged, at three times its cost, "
        f"{plain('average')}."
    )


def learned_halting(cascades: Sequence[Row], same: Gains, against: dict[str, Any]) -> str:
    """Where a selector is better than a threshold on the margin: on unequal members, and on equal ones."""
    points, cost, dataset = max(
        (point["gain"][0], cost, one["dataset"])
        for one in cascades
        for cost, point in one["policies"]["selector"].items()
        if point["gain"][1] > 0
    )
    means, sure = [value for value, _, _ in same.values()], sum(low > 0 for _, low, _ in same.values())
    fitted = sum(about["fitted"]["all"][1] > 0 for about in against.values())
    return (
        f"**Learning when to stop pays where members differ in size**: up to {points:+.2f} points over {MARGIN} on the "
        f"same members at the same cost ({title(dataset)}, at {cost}: the most of all cascades and costs). On equal "
        f"members it is worth {min(means):+.2f} to {max(means):+.2f}, on the mean of costs 1.05 to 2.0, more than "
        f"other images might change in {sure} of {len(same)} settings, in {fitted} if fitted for each of these costs."
    )


def joint_training(other: Gains, against: dict[str, Any]) -> str:
    """IRENE as a whole against independent members that stop by their margin."""
    ahead = sum(low > 0 for _, low, _ in other.values())
    told = "; ".join(
        f"{setting_title(slug)}, {seeds(against[slug]['seeds'])}: {value:+.2f}" for slug, (value, _, _) in other.items()
    )
    return (
        f"IRENE's members and selector together are ahead of independent members with {MARGIN}, by more than other "
        f"images might change, in {ahead} of {len(other)} settings ({told})."
    )


def against_the_paper(rows: Sequence[Row], slugs: Sequence[str]) -> str:
    """IRENE's utility beside the paper's, for each length of training."""
    paper = {(row["dataset"], row["backbone"]): row["utility"] for row in load_paper() if row["method"] == "irene"}
    told: dict[int, list[tuple[bool, str]]] = {}
    for slug in slugs:
        dataset, backbone, length = slug.split("-")
        epochs, theirs = int(length[1:]), paper.get((dataset, backbone))
        setting = of_setting(rows, dataset, backbone, epochs)
        runs = [row for row in setting if row["method"] == IRENE]
        ours = utility_of(runs, setting)
        if ours is not None and theirs is not None:
            where = f"{title(dataset)}, {title(backbone)}, {seeds(len(runs))}: {ours:.2f} and {theirs:.2f}"
            told.setdefault(epochs, []).append((ours >= theirs, where))
    if not told:
        return ""
    lengths = [
        f"after {epochs} epochs in {sum(reached for reached, _ in found)} of {len(found)} settings (ours and theirs: "
        f"{'; '.join(where for _, where in found)})"
        for epochs, found in sorted(told.items())
    ]
    return (
        "IRENE's utility, which sets accuracy against cost and is 1 for one member and for three averaged, is at or "
        f"above the paper's {', and '.join(lengths)}; it is counted from our own `single` and `average` of as many "
        f"epochs, the paper's from its own of {PAPER_EPOCHS}."
    )


def trained_like_the_paper(rows: Sequence[Row]) -> str:
    """One network and three averaged beside the paper's, where they had its images and its epochs."""
    paper = {(row["dataset"], row["backbone"], row["method"]): row["accuracy"] for row in load_paper()}
    alike = [row for row in rows if row["images"] == ALL_IMAGES and row["epochs"] == PAPER_EPOCHS]
    told = []
    for (dataset, backbone), here in grouped(alike, "dataset", "backbone").items():
        by_method = grouped(here, "method")
        single, average = (
            f"{100 * mean_of(by_method[method,], 'accuracy'):.2f} (paper: {paper[dataset, backbone, method]:.2f})"
            for method in ("single", "average")
        )
        of = f"{title(dataset)}, {seeds(len(by_method['average',]))}"
        told.append(f"one {title(backbone)} has {single} and three averaged {average} on {of}")
    if not told:
        return ""
    return f"On all {ALL_IMAGES:,} images and for the paper's {PAPER_EPOCHS} epochs {'; '.join(told)}."


def gains_by_setting(against: dict[str, Any]) -> dict[str, Gains]:
    """What IRENE gains on margin + temperature over all costs, on the same and on independent members."""
    return {
        kind: {slug: about["gains"][f"{MARGIN}, {kind} members"]["all"] for slug, about in against.items()}
        for kind in ("the same", "independent")
    }
