"""Single numbers that the text of the pages names, by what its templates call them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from comparison import count_ahead, gain, span
from jobs import JOBS, Job
from names import (
    ALL_IMAGES,
    DATASETS,
    DISTILLED,
    IRENE,
    PAPER_EPOCHS,
    PLAIN,
    SHORT_EPOCHS,
    WARM,
    file_name,
    parts_of,
    seeds,
    title,
)

from pages import beyond_text
from pages.latency_text import Latency, as_accurate_on_a_gpu, asked_for_half
from pages.rows import (
    Row,
    best_cascades,
    in_paper,
    mean_of,
    networks,
    of_method,
    of_slug,
    taught_alone,
    utility_of,
)

Facts = dict[str, str]
Gain = Sequence[float]  # points, and the ends of their interval
MARGIN = title("margin")
SHOWN = "cifar10", "resnet18"  # the setting with the longest training and with folds


def facts(study: dict[str, Any], beyond: dict[str, Any], latency: Latency) -> Facts:
    rows, best = study["rows"], best_cascades(study["small_first"], DATASETS)
    return {
        **cascades(best, rows),
        **distilled_and_warm(best[0], study["teachers"]),
        **taught_by_themselves(study, best[0]),
        **trained_longest(rows, best[0]),
        **in_time(latency),
        **learned_stopping(study),
        **simpler_stopping(study),
        **utilities(study),
        **trained_like_the_paper(rows),
        **selector_data(study["against"]),
        **papers_recipe(rows),
        **under_corruption(beyond),
        **speed(study["speed"], study["side_by_side"]),
        **to_be_trained(JOBS, study["time"]["runs"]),
    }


def cascades(best: Sequence[Sequence[Row]], rows: Sequence[Row]) -> Facts:
    """What the cascade that was taught longest and the plain one reach, beside one large network and three."""
    found = {"best-seeds": seeds(best[0][0]["seeds"]), "best-epochs": str(best[0][0]["epochs"])}
    for name, alike in (("best", best[0]), ("plain", best[-1])):
        for cascade in alike:
            points = cascade["policies"]["selector"]
            found |= {f"{name}-{cascade['dataset']}-{cost}": percent(points[cost]["accuracy"]) for cost in points}
    for cascade in best[0]:
        large = large_alone(rows, cascade)
        found |= {f"{name}-{cascade['dataset']}": percent(accuracy) for name, accuracy in large.items()}
        found[f"as-three-{cascade['dataset']}"] = cheapest(cascade, large["three"])
    return found


def large_alone(rows: Sequence[Row], cascade: Row) -> dict[str, float]:
    """Accuracy of one large network and of three averaged, independent, trained as long as a cascade."""
    methods = {"single": "single", "three": "average"}
    return {name: mean_of(networks(rows, cascade, "resnet18", method), "accuracy") for name, method in methods.items()}


def cheapest(cascade: Row, accuracy: float) -> str:
    """The lowest of its costs at which a cascade is as accurate."""
    points = cascade["policies"]["selector"].items()
    return next(cost for cost, point in points if point["accuracy"] >= accuracy)


def distilled_and_warm(best: Sequence[Row], teachers: Sequence[Row]) -> Facts:
    """How accurate the first large member alone is in the cascades that were taught longest."""
    first = {one["dataset"]: one["alone"][0]["accuracy"] for one in teachers if one["training"] == best[0]["training"]}
    return {f"warm-{name}": percent(accuracy) for name, accuracy in first.items()}


def taught_by_themselves(study: dict[str, Any], best: Sequence[Row]) -> Facts:
    """The widest small member alone: in the cascades taught longest, taught as long as others, and untaught."""
    found = {}
    for one in best:
        widest = taught_alone(study, one)[-1]
        as_long = taught_alone(study, {**one, "training": DISTILLED})[-1]
        untaught = networks(study["rows"], one, widest["backbone"], "single")
        accuracies = {
            "alone": widest["accuracy"],
            "taught": as_long["accuracy"],
            "untaught": mean_of(untaught, "accuracy"),
        }
        found |= {f"{name}-{one['dataset']}": percent(accuracy) for name, accuracy in accuracies.items()}
    return found


def trained_longest(rows: Sequence[Row], best: Sequence[Row]) -> Facts:
    """One network and three averaged that trained for longest, with a held-out slice."""
    epochs = max(row["epochs"] for row in rows if row["images"] < ALL_IMAGES)
    found = {"long-epochs": str(epochs)}
    for one in best:
        large = large_alone(rows, {**one, "epochs": epochs})
        found |= {f"long-{name}-{one['dataset']}": percent(accuracy) for name, accuracy in large.items()}
    return found


def in_time(latency: Latency) -> Facts:
    network, rows = asked_for_half(latency)
    times = as_accurate_on_a_gpu(latency)
    asked = [row for content in latency.values() for row in content["rows"] if row["unit"] == "flops"]
    dearer = [100 * (row["flops"] / row["asked"] - 1) for row in asked]
    return {
        "cpu-time": f"{mean_of(rows, 'time_median'):.2f}",
        "cpu-accuracy": percent(mean_of(rows, "accuracy")),
        "cpu-single": percent(network["single"]),
        "dearer": f"{min(dearer):+.0f} to {max(dearer):+.0f} %",
        "dearer-in": f"{sum(more > 0 for more in dearer)} of {len(dearer)}",
        "gpu-least": f"{min(times):.2f}",
        "gpu-most": f"{max(times):.2f}",
    }


def learned_stopping(study: dict[str, Any]) -> Facts:
    """Where learned stopping is ahead of margin + temperature at the same cost."""
    against, warm = study["against"].values(), study["warm_started"].values()
    unequal = [point["gain"] for one in study["small_first"] for point in one["policies"]["selector"].values()]
    return {
        "unequal-cascades": str(len(study["small_first"])),
        "unequal-most": f"{max(mean for mean, low, _ in unequal if low > 0):.2f}",
        "unequal-behind": str(sum(high < 0 for _, _, high in unequal)),
        **told("unequal", unequal),
        **told("equal", [about["gains"][f"{MARGIN}, the same members"]["all"] for about in against]),
        **told("joint", [about["gains"][f"{MARGIN}, independent members"]["all"] for about in against]),
        **told("warm", [about["independent"]["gain"]["all"] for about in warm if "independent" in about]),
    }


def simpler_stopping(study: dict[str, Any]) -> Facts:
    """Mean gains on margin + temperature of each policy, and of the selector where the margin's members are chosen."""
    gains = {
        policy: fmean(point["gain"][0] for one in study["small_first"] for point in one["policies"][policy].values())
        for policy in ("selector", "cost-to-go", "change")
    }
    on_margin = {
        which: fmean(
            100 * (point["accuracy"] - about[which]["margin"][cost]["accuracy"])
            for about in study["searched"]
            for cost, point in about["all"]["selector"].items()
        )
        for which in ("all", "chosen")
    }
    return {
        **{f"mean-{policy}": f"{points:.2f}" for policy, points in gains.items()},
        "pools": str(len(study["searched"])),
        **{f"on-{which}": f"{points:.2f}" for which, points in on_margin.items()},
    }


def told(name: str, gains: Sequence[Gain]) -> Facts:
    """From the least to the most, and in how many of the cases clearly above zero."""
    return {
        f"{name}-span": span(gains),
        f"{name}-ahead": str(count_ahead(gains)),
        f"{name}-cases": str(len(gains)),
    }


def utilities(study: dict[str, Any]) -> Facts:
    """In how many of the paper's settings its utility is reached after a short training; and after the longest."""
    rows = study["rows"]
    slugs = [slug for slug in study["against"] if in_paper(*parts_of(slug)[:2])]
    short, long = ([slug for slug in slugs if parts_of(slug)[2] == epochs] for epochs in (SHORT_EPOCHS, PAPER_EPOCHS))
    paper = in_paper(*SHOWN)
    assert paper is not None
    return {
        "settings": str(len(short)),
        **{f"reached-{name}": reached(short, rows, method) for name, method in REACHED.items()},
        "long-utility": f"{utility_in(long[0], rows, IRENE):.2f}",
        "long-warm": f"{utility_in(long[0], rows, WARM):.2f}",
        "long-margin": f"{utility_in(long[0], rows, PLAIN):.2f}",
        "paper-utility": f"{paper['utility']:.2f}",
    }


REACHED = {"irene": IRENE, "warm": WARM, "margin": PLAIN}


def reached(slugs: Sequence[str], rows: Sequence[Row], method: str) -> str:
    """In how many settings the utility of a method is at least what the paper prints for IRENE."""
    printed = [in_paper(*parts_of(slug)[:2]) for slug in slugs]
    found = zip(slugs, printed, strict=True)
    return str(sum(utility_in(slug, rows, method) >= paper["utility"] for slug, paper in found if paper))


def utility_in(slug: str, rows: Sequence[Row], method: str) -> float:
    """The utility of a method in a setting that has a single network and an average ensemble."""
    setting = of_slug(slug, rows)
    found = utility_of(of_method(setting, method), setting)
    assert found is not None
    return found


def trained_like_the_paper(rows: Sequence[Row]) -> Facts:
    """One network and three averaged on the paper's images for its epochs, beside the paper's own."""
    found = {}
    for name, method in (("single", "single"), ("three", "average")):
        ours = [
            row
            for row in of_method(rows, method)
            if (row["dataset"], row["backbone"]) == SHOWN
            and (row["images"], row["epochs"]) == (ALL_IMAGES, PAPER_EPOCHS)
        ]
        paper = in_paper(*SHOWN, method)
        assert paper is not None
        found |= {f"full-{name}": percent(mean_of(ours, "accuracy")), f"paper-{name}": f"{paper['accuracy']:.2f}"}
    return found


def selector_data(against: dict[str, Any]) -> Facts:
    """What out-of-fold predictions gain on a held-out slice as the selector's data."""
    about = against["-".join((*SHOWN, f"e{SHORT_EPOCHS}"))]
    return {
        **{name: gain(about[name]["gain"]["all"]) for name in ("folds", "unheld", "longer")},
        "folds-seeds": seeds(about["folds"]["seeds"]),
        "unheld-seeds": seeds(about["unheld"]["seeds"]),
        "unheld-cost": f"{about['unheld']['cost']:.2f}",
    }


def papers_recipe(rows: Sequence[Row]) -> Facts:
    """In how many runs the paper's losses and features to the letter gave nearly every image as many members."""
    found = of_method(rows, "irene paper's recipe")
    collapsed = [row for row in found if row["cost"] < 1.02 or row["cost"] > row["members"] - 0.02]
    return {"recipe-runs": str(len(found)), "recipe-collapsed": str(len(collapsed))}


def under_corruption(beyond: dict[str, Any]) -> Facts:
    clean, wrong = (
        [
            row
            for slug, about in beyond.items()
            if ("noise" in slug) is noisy
            for row in beyond_text.held_out_rows(about)[0]
        ]
        for noisy in (False, True)
    )
    fresh = [row for about in beyond.values() for row in beyond_text.fresh_rows(about, "risk")]
    corrupted = [row for about in beyond.values() for row in beyond_text.held_out_rows(about)[1]]
    return {
        **told("corrupted", [beyond_text.gain_at_same_cost(about, beyond_text.CORRUPTED) for about in beyond.values()]),
        "kept-clean": beyond_text.kept(clean),
        "kept-wrong": beyond_text.kept(wrong),
        "kept-fresh": beyond_text.kept(fresh),
        "kept-corrupted": beyond_text.kept(corrupted),
    }


def speed(alone: Sequence[Row], side_by_side: Sequence[Row]) -> Facts:
    """Minutes that three ResNet-18 of the paper's epochs take, three at a time and one after the other."""
    one_by_one = median(row["epoch_s"] for row in alone if row["backbone"] == "resnet18")
    (together,) = (row["epoch_s"] for row in side_by_side if (row["backbone"], row["at_once"]) == ("resnet18", 3))
    minutes = (3 * PAPER_EPOCHS * epoch_s / 60 for epoch_s in (together, one_by_one))
    return {f"three-of-{PAPER_EPOCHS}": " to ".join(f"{took:.1f}" for took in minutes)}


def to_be_trained(groups: Mapping[str, Sequence[Job]], trained: Sequence[str]) -> Facts:
    """How many runs of the study are planned, and how many of them are missing, by the first group that has them."""
    first = {job.name: group for group, jobs in reversed(groups.items()) for job in jobs if group not in DATASETS}
    missing = Counter(group for name, group in first.items() if file_name(name) not in trained)
    groups_left = ", ".join(f"`{group}` {missing[group]}" for group in groups if missing[group])
    return {"planned": str(len(first)), "missing": str(missing.total()), "missing-by-group": groups_left}


def percent(share: float) -> str:
    return f"{100 * share:.2f}"
