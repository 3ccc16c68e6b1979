"""What the numbers say, in sentences that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from comparison import gain, verdict
from jobs import PAPER
from names import (
    GO_ON,
    GOING_ON,
    IRENE,
    PAPER_EPOCHS,
    counted,
    parts_of,
    seeds,
    setting_title,
    title,
    trained,
)

from pages import beyond_text
from pages.rows import (
    Row,
    in_lines,
    irene_in_paper,
    mean_of,
    most_worth_showing,
    networks,
    of_setting,
    taught,
    utility_of,
    worthiest,
)

MARGIN = title("margin")
PLAIN, FGE = (f"{members}, {MARGIN} at 1.3" for members in ("average", "fge last first"))
EQUAL = (
    "**IRENE on three equal members**, asked for a mean of 1.3. Utility rises with accuracy and falls with cost; "
    f"it is 1 for one member and for three averaged, ours trained as long as IRENE, the paper's for {PAPER_EPOCHS} "
    f"epochs. Gains are points over {MARGIN} at the same cost, on the mean of costs 1.05 to 2.0: of *its stopping* "
    "on its own members, with the selector of 1.3 and with one fitted for each cost, and of *all of it* on "
    "independent members. Members that *go on* begin with the weights of the one before and run last first: who runs "
    "first has learned for the epochs of all three, which together are as many as ever."
)
UNEQUAL = (
    "**Small members first**, with a selector fitted on held-out outputs for each cost, in FLOPs of one "
    "ResNet-18. *Its own three* are the ResNet-18 of the cascade, averaged. *Selector ahead*: the costs at which "
    f"it is clearly ahead of {MARGIN} on the same members. *As good* is said of mean accuracy on test images at the "
    "costs looked at, without an interval. Cost-to-go is a linear policy, fitted once for all "
    "costs: what it gains on the selector, on their mean. Large ones that *go on* each begin with the weights of the "
    "one before, and who has learned longest runs first."
)


def conclusions(study: dict[str, Any], beyond: dict[str, Any]) -> str:
    """Lists of sentences, each under what they have in common."""
    rows, against = study["rows"], study["against"]
    irene = [irene_sentence(slug, about, rows) for slug, about in against.items()]
    irene += [going_on_sentence(slug, about, rows) for slug, about in study["going_on"].items()]
    irene += [folds_sentence(slug, about) for slug, about in against.items() if "folds" in about]
    irene += filter(None, [recipe_sentence(rows)])
    cascades = [cascade_sentence(one, rows) for one in most_worth_showing(study["small_first"])]
    cascades += [teachers_sentence(one, rows) for one in study["teachers"] if one["training"].endswith(GO_ON)]
    parts = ((EQUAL, irene), (UNEQUAL, cascades), (beyond_text.COMMON, beyond_text.sentences(beyond)))
    return "\n\n".join(
        f"{in_lines(common)}\n\n" + "\n".join(f"- {sentence}" for sentence in said) for common, said in parts if said
    )


def irene_sentence(slug: str, about: dict[str, Any], rows: Sequence[Row]) -> str:
    """How good IRENE is in a setting, and whether its members or its stopping make it so."""
    setting = rows_of(slug, rows)
    same, other = (about["gains"][f"{MARGIN}, {kind} members"]["all"] for kind in ("the same", "independent"))
    return (
        f"**{setting_title(slug)}** {reached(slug, setting, IRENE, about['seeds'])} Its stopping: {gain(same)}, fitted "
        f"for each cost {gain(about['fitted']['all'])}. All of it: {gain(other)}, at 1.3 seed by seed "
        f"{by_seed(setting, IRENE, PLAIN)}. {source(same, other)}"
    )


def going_on_sentence(slug: str, about: dict[str, Any], rows: Sequence[Row]) -> str:
    """The same of IRENE whose later members go on from the one before, and what that gains on beginning anew."""
    setting, same = rows_of(slug, rows), about["same"]["gain"]["all"]
    average = mean_of([row for row in setting if row["method"] == "average"], "accuracy")
    said = (
        f"**{setting_title(slug)}, members that go on** {reached(slug, setting, GOING_ON, about['same']['seeds'])} "
        f"Three independent ones averaged have {100 * average:.2f} %. Beside IRENE whose members begin anew, at 1.3 "
        f"seed by seed: {by_seed(setting, GOING_ON, IRENE)} points."
    )
    if beside := by_seed(setting, GOING_ON, FGE):
        said += f" Beside those of FGE, which go on too, last first with {MARGIN}: {beside} points."
    said += f" Its stopping: {gain(same)}."
    if "independent" not in about:
        return said
    other = about["independent"]["gain"]["all"]
    return f"{said} All of it: {gain(other)}. {source(same, other)}"


def rows_of(slug: str, rows: Sequence[Row]) -> list[Row]:
    """The rows of a setting."""
    dataset, backbone, epochs, _ = parts_of(slug)
    return of_setting(rows, dataset, backbone, epochs)


def reached(slug: str, setting: Sequence[Row], method: str, compared: int) -> str:
    """Accuracy, cost and utility of all seeds of a method, and of how many seeds its gains are.

    Beside the utility stand that of a threshold on independent members, and the paper's.
    """
    ours, plain = ([row for row in setting if row["method"] == name] for name in (method, PLAIN))
    paper = irene_in_paper(*parts_of(slug)[:2])
    others = [f"{MARGIN} on independent members: {utility_of(plain, setting):.2f}"] if plain else []
    others += [f"paper: {paper['utility']:.2f} at {paper['cost']:.2f}"] if paper else []
    beside = f" ({'; '.join(others)})" if others else ""
    fewer = f"; gains of {compared}" if compared != len(ours) else ""
    return (
        f"({seeds(len(ours))}{fewer}): {100 * mean_of(ours, 'accuracy'):.2f} % at {mean_of(ours, 'cost'):.2f} members, "
        f"utility {utility_of(ours, setting):.2f}{beside}."
    )


def by_seed(setting: Sequence[Row], method: str, other: str) -> str:
    """What a method gains on another, in points, seed by seed."""
    ours, theirs = (
        {row["seed"]: row["accuracy"] for row in setting if row["method"] == name} for name in (method, other)
    )
    return ", ".join(f"{100 * (ours[seed] - theirs[seed]):+.2f}" for seed in ours if seed in theirs)


def source(same: Sequence[float], other: Sequence[float]) -> str:
    """Where a gain on independent members comes from, or that there is none."""
    if other[2] < 0:
        return "It does not pay here."
    if other[1] <= 0:
        return "Whether it pays, these runs cannot tell."
    if same[2] < 0:
        return f"The gain comes from its members; its stopping loses {-same[0]:.2f} points."
    if same[1] <= 0:
        return "The gain comes from its members; what its stopping adds cannot be told from nothing."
    return f"Of the gain, {same[0]:.2f} points come from when it stops and the rest from its members."


def folds_sentence(slug: str, about: dict[str, Any]) -> str:
    """Whether out-of-fold predictions are worth training twice, beside a slice and in place of it."""
    folds = about["folds"]
    values = folds["gain"]["all"]
    said = (
        f"**Slice or folds** as the selector's data, {setting_title(slug)} ({seeds(folds['seeds'])}): IRENE with "
        f"out-of-fold predictions, for twice the training, {verdict(values)} IRENE with the held-out slice "
        f"({gain(values)} points)."
    )
    if "unheld" in about:
        values, cost = about["unheld"]["gain"]["all"], about["unheld"]["cost"]
        said += (
            f" Without any slice, so that members learn from a ninth more images ({seeds(about['unheld']['seeds'])}), "
            f"it {verdict(values)} the slice ({gain(values)}) and costs {cost:.2f} where 1.3 was asked for."
        )
    if "longer" in about:
        values = about["longer"]["gain"]["all"]
        said += (
            f" Twice as many epochs, which take as long as folds do, give members with a slice {gain(values)} "
            f"({MARGIN}, {seeds(about['longer']['seeds'])})."
        )
    return said


def paper_weights() -> str:
    """The weights of Eq. 13 that its runs were trained with."""
    weights = PAPER["method_options"].loss_weights
    return f"{weights.ensemble:g}, {weights.cost:g} and {weights.rank:g}"


def recipe_sentence(rows: Sequence[Row]) -> str:
    """In how many runs the paper's losses and features to the letter collapsed; nothing where there are none."""
    found = [row for row in rows if row["method"] == "irene paper's recipe"]
    if not found:
        return ""
    collapsed = [row for row in found if row["cost"] < 1.02 or row["cost"] > row["members"] - 0.02]
    return (
        f"**The paper's losses and features to the letter** (`--recipe paper`), in our {found[0]['epochs']} epochs and "
        f"not its {PAPER_EPOCHS}, with loss weights of {paper_weights()} where it searches for them, collapsed in "
        f"{len(collapsed)} of {len(found)} runs: the same number of members for nearly every image."
    )


def best_cascades(cascades: Sequence[Row], datasets: Sequence[str]) -> list[list[Row]]:
    """Of each training the first cascade that is most worth showing, on every data set, the longest taught first.

    A training is left out where it has fewer seeds or epochs than others on one of the data sets.
    """
    first: dict[str, dict[str, Row]] = {}
    for one in worthiest(cascades, "dataset"):
        first.setdefault(one["training"], {}).setdefault(one["dataset"], one)
    found = [[by_dataset[name] for name in datasets] for by_dataset in first.values() if {*datasets} <= {*by_dataset}]
    return sorted(found, key=lambda alike: (taught(alike[0]), len(alike[0]["training"])), reverse=True)


def cascade_sentence(cascade: Row, rows: Sequence[Row]) -> str:
    """From which cost on a cascade that starts small is as good as one large network, and as three of them."""
    points = {cost: point["accuracy"] for cost, point in cascade["policies"]["selector"].items()}
    gains = {cost: point["gain"] for cost, point in cascade["policies"]["selector"].items()}
    reached = []
    single = mean_of(networks(rows, cascade, "resnet18", "single"), "accuracy")
    for many, reference in (("one ResNet-18", single), ("its own three", cascade["large"])):
        where = at_costs({cost: accuracy >= reference for cost, accuracy in points.items()})
        if max(points.values()) < reference:
            cost, nearest = max(points.items(), key=lambda point: point[1])
            where += f" ({100 * nearest:.2f} at {cost})"
        reached.append(f"as {many} ({100 * reference:.2f} %) {where}")
    won = at_costs({cost: values[1] > 0 for cost, values in gains.items()})
    return (
        f"**{title(cascade['dataset'])}, {counted(cascade['members'])}**, {cascade['epochs']} epochs, "
        f"{trained(cascade['training'])} ({seeds(cascade['seeds'])}): {100 * points['0.5']:.2f} % at 0.5, as good "
        f"{', '.join(reached)}. Selector ahead {won}{most_gained(gains)}. Cost-to-go: {linear_gain(cascade):+.2f}."
    )


def teachers_sentence(teachers: Row, rows: Sequence[Row]) -> str:
    """How good large ones are that go on, in the order they run in, beside independent ones."""
    single, average = (
        100 * mean_of(networks(rows, teachers, teachers["backbone"], method), "accuracy")
        for method in ("single", "average")
    )
    alone = ", ".join(f"{100 * one['accuracy']:.2f}" for one in teachers["alone"])
    return (
        f"**Large ones that go on**, {title(teachers['dataset'])}, {teachers['epochs']} epochs each "
        f"({seeds(teachers['seeds'])}): {alone} % one by one, first to last, and "
        f"{100 * teachers['averaged']['accuracy']:.2f} averaged; independent ones {single:.2f} and {average:.2f}."
    )


def at_costs(found: dict[str, bool]) -> str:
    """At which of the costs, in rising order, something is so."""
    costs = [cost for cost, true in found.items() if true]
    if not costs:
        return "at no cost"
    if len(costs) == len(found):
        return "at every cost"
    last = len(costs) > 1 and costs == list(found)[-len(costs) :]
    return f"from {costs[0]} on" if last else f"at {', '.join(costs)}"


def most_gained(gains: dict[str, Sequence[float]]) -> str:
    """Where learned halting gains most, if that is sure."""
    cost, values = max(gains.items(), key=lambda entry: entry[1][0])
    return f", most at {cost} ({gain(values)})" if values[1] > 0 else ""


def linear_gain(cascade: Row) -> float:
    """What cost-to-go gains on the selector, in points over all costs."""
    ours, linear = (cascade["policies"][name].values() for name in ("selector", "cost-to-go"))
    return 100 * fmean(other["accuracy"] - one["accuracy"] for one, other in zip(ours, linear, strict=True))
