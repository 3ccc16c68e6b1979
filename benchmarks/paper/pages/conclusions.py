"""What the numbers say, in sentences that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from comparison import gain, verdict
from names import IRENE, PAPER_EPOCHS, counted, seeds, setting_title, title, trained

from pages import beyond_text
from pages.rows import (
    Row,
    grouped,
    load_paper,
    mean_of,
    most_worth_showing,
    networks,
    of_setting,
    taught,
    utility_of,
    worth_showing,
)

MARGIN = title("margin")


def conclusions(study: dict[str, Any], beyond: dict[str, Any]) -> str:
    rows = study["rows"]
    said = [irene_sentence(slug, about, rows) for slug, about in study["against"].items()]
    said += [folds_sentence(slug, about) for slug, about in study["against"].items() if "folds" in about]
    said += filter(None, [recipe_sentence(rows)])
    said += [cascade_sentence(one, rows) for one in most_worth_showing(study["small_first"])]
    said += beyond_text.sentences(beyond)
    return "\n".join(f"- {sentence}" for sentence in said)


def irene_sentence(slug: str, about: dict[str, Any], rows: Sequence[Row]) -> str:
    """How good IRENE is in a setting, and whether its members or its stopping make it so."""
    dataset, backbone, epochs = slug.split("-")
    setting = of_setting(rows, dataset, backbone, int(epochs[1:]))
    ours = [row for row in setting if row["method"] == IRENE]
    where = (dataset, backbone, "irene")
    paper = [row for row in load_paper() if (row["dataset"], row["backbone"], row["method"]) == where]
    theirs = f" (the paper: {paper[0]['utility']:.2f} at {paper[0]['cost']:.2f})" if paper else ""
    same, other = (about["gains"][f"{MARGIN}, {kind} members"]["all"] for kind in ("the same", "independent"))
    fitted = about["fitted"]["all"]
    return (
        f"**{setting_title(slug)}** ({seeds(len(ours))}). IRENE asked for 1.3 members is right on "
        f"{100 * mean_of(ours, 'accuracy'):.2f} % of the images at {mean_of(ours, 'cost'):.2f} members, utility "
        f"{utility_of(ours, setting):.2f}{theirs}. Over costs 1.05 to 2.0 its selector {verdict(same)} {MARGIN} on its "
        f"own members ({gain(same)} points); fitted for each of these costs, not for 1.3 alone, it {verdict(fitted)} "
        f"it ({gain(fitted)}). IRENE {verdict(other)} {MARGIN} on independent members ({gain(other)}; at 1.3 seed by "
        f"seed {by_seed(ours, setting)}). {source(same, other)}"
    )


def by_seed(ours: Sequence[Row], setting: Sequence[Row]) -> str:
    theirs = {row["seed"]: row["accuracy"] for row in setting if row["method"] == f"average, {MARGIN} at 1.3"}
    found = [100 * (row["accuracy"] - theirs[row["seed"]]) for row in ours if row["seed"] in theirs]
    return ", ".join(f"{value:+.2f}" for value in found)


def source(same: Sequence[float], other: Sequence[float]) -> str:
    """Where a gain on independent members comes from."""
    if other[1] <= 0:
        return "Whether joint training and the selector pay here, these runs cannot tell."
    if same[1] <= 0:
        return "The gain comes from its members; what its stopping adds cannot be told from nothing."
    return f"Of the gain, {same[0]:.2f} points come from when it stops and the rest from its members."


def folds_sentence(slug: str, about: dict[str, Any]) -> str:
    """Whether out-of-fold predictions are worth training twice, beside a slice and in place of it."""
    folds = about["folds"]
    values = folds["gain"]["all"]
    said = (
        f"**Slice or folds**, {setting_title(slug)} ({seeds(folds['seeds'])}): IRENE with out-of-fold predictions as "
        f"the selector's data, for twice the training, {verdict(values)} IRENE with the held-out slice "
        f"({gain(values)} points)."
    )
    if "unheld" in about:
        values, cost = about["unheld"]["gain"]["all"], about["unheld"]["cost"]
        said += (
            " Without any slice, so that members learn from all images, a ninth more of them "
            f"({seeds(about['unheld']['seeds'])}), it {verdict(values)} the slice ({gain(values)}), but "
            f"costs {cost:.2f} where 1.3 was asked for."
        )
    if "longer" in about:
        values = about["longer"]["gain"]["all"]
        said += (
            f" Twice as many epochs, which take as long as folds do, give members with a slice {gain(values)} "
            f"({MARGIN}, {seeds(about['longer']['seeds'])})."
        )
    return said


def recipe_sentence(rows: Sequence[Row]) -> str:
    found = [row for row in rows if row["method"] == "irene paper's recipe"]
    collapsed = [row for row in found if row["cost"] < 1.02 or row["cost"] > row["members"] - 0.02]
    if not found:
        return ""
    return (
        f"**The paper's losses and features to the letter** (`--recipe paper`), in our {found[0]['epochs']} epochs and "
        f"not its {PAPER_EPOCHS}, collapsed in {len(collapsed)} of {len(found)} runs: the same number of members for "
        "nearly every image."
    )


def best_cascades(cascades: Sequence[Row], datasets: Sequence[str]) -> list[list[Row]]:
    """Of each training the first cascade that is most worth showing, on every data set, the longest taught first.

    A training is left out where it has fewer seeds or epochs than others on one of the data sets.
    """
    here = [one for one in most_worth_showing(cascades) if one["dataset"] in datasets]
    best = {dataset: max(map(worth_showing, alike)) for (dataset,), alike in grouped(here, "dataset").items()}
    first: dict[str, dict[str, Row]] = {}
    for one in here:
        if worth_showing(one) == best[one["dataset"]]:
            first.setdefault(one["training"], {}).setdefault(one["dataset"], one)
    found = [[by_dataset[name] for name in datasets] for by_dataset in first.values() if {*datasets} <= {*by_dataset}]
    return sorted(found, key=lambda alike: (taught(alike[0]), len(alike[0]["training"])), reverse=True)


def cascade_sentence(cascade: Row, rows: Sequence[Row]) -> str:
    """From which cost on a cascade that starts small is as good as one large network, and as three of them."""
    points = {float(cost): point["accuracy"] for cost, point in cascade["policies"]["selector"].items()}
    gains = {cost: point["gain"] for cost, point in cascade["policies"]["selector"].items()}
    won = [cost for cost, values in gains.items() if values[1] > 0]
    reached = []
    single = mean_of(networks(rows, cascade, "resnet18", "single"), "accuracy")
    for many, reference in (("one ResNet-18", single), ("its own three ResNet-18 averaged", cascade["large"])):
        enough = [cost for cost, accuracy in points.items() if accuracy >= reference]
        cost, nearest = max(points.items(), key=lambda point: point[1])
        where = (
            f"from {min(enough):g} of one ResNet-18's FLOPs on"
            if enough
            else f"at none of the costs measured: {100 * nearest:.2f} % at {cost:g}, {100 * points[0.5]:.2f} at 0.5"
        )
        reached.append(f"as good as {many} ({100 * reference:.2f} %) {where}")
    learned = f"at {', '.join(won)}" if won else "at no cost"
    return (
        f"**Small members first**, {title(cascade['dataset'])}, {counted(cascade['members'])}, {cascade['epochs']} "
        f"epochs, {trained(cascade['training'])} ({seeds(cascade['seeds'])}), selector fitted on their outputs: "
        f"{' and '.join(reached)}. The selector is significantly ahead of {MARGIN} {learned}"
        f"{most_gained(gains)}; cost-to-go, a linear policy for all costs, is {linear_gain(cascade):+.2f} points from "
        "it on their mean."
    )


def most_gained(gains: dict[str, Sequence[float]]) -> str:
    """Where learned halting gains most, if that is sure."""
    cost, values = max(gains.items(), key=lambda entry: entry[1][0])
    return f", most at {cost} ({gain(values)} points)" if values[1] > 0 else ""


def linear_gain(cascade: Row) -> float:
    """What cost-to-go gains on the selector, in points over all costs."""
    ours, linear = (cascade["policies"][name].values() for name in ("selector", "cost-to-go"))
    return 100 * fmean(other["accuracy"] - one["accuracy"] for one, other in zip(ours, linear, strict=True))
