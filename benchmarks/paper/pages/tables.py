"""The tables of the results page: plain rows of JSON in, markdown out."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from comparison import gain
from documents import table
from jobs import R18_FLOPS
from names import FOLDS, IRENE, PLAIN, SIZES, TITLES, WARM, WARM_STARTED, in_short, seeds, setting_title, title
from training_step import COMPILED, CONVOLUTIONS

from pages.rows import Row, deviation, grouped, in_paper, mean_of, networks, spread, taught, utility_of, written

ORDER = (
    "single",
    "average",
    "snapshot",
    "fge",
    "moe",
    "sparse-moe",
    "dive2",
    "mimo",
    "batch-ensemble",
    "woc",
    PLAIN,
    f"average, {TITLES['change']} at 1.3",
    f"fge last first, {TITLES['margin']} at 1.3",
    f"fge last first, {TITLES['change']} at 1.3",
    "irene paper's recipe",
    IRENE,
    WARM,
    FOLDS,
)
TRAININGS = "In *distilled* cascades the small members learned from the large ones of the same run (`distil`)."


class Place(NamedTuple):
    """What one table is about."""

    dataset: str
    epochs: int
    images: int

    @property
    def title(self) -> str:
        return f"{title(self.dataset)}, {self.epochs} epochs, {self.images:,} training images"


def method_tables(rows: Sequence[Row]) -> str:
    """One table for each data set and number of epochs and of images, the paper's numbers beside ours."""
    parts = []
    for place, found in sorted(grouped(rows, "dataset", "epochs", "images").items()):
        equal = [row for row in found if "+" not in row["backbone"] and " without " not in row["method"]]
        if equal and place[0] in TITLES:  # label noise is no part of these tables
            parts.append(f"### {Place(*place).title}\n\n{method_table(equal)}")
    return "\n\n".join(parts)


def method_table(rows: Sequence[Row]) -> str:
    lines = []
    for (backbone, method), found in sorted(grouped(rows, "backbone", "method").items(), key=_place):
        own = utility_of(found, [row for row in rows if row["backbone"] == backbone])
        cells = [title(backbone), method, str(len(found)), spread(found, "accuracy", 100), spread(found, "cost")]
        cells.append("" if own is None else written(own, deviation(found, "utility")))
        cells += [spread(found, "nll", digits=3), spread(found, "ece", digits=3), spread(found, "flops", 1e-9)]
        timed = [row for row in found if row["alone"]]
        cells.append(spread(timed, "ms", 1e3, 1) if timed else "")
        cells += beside(in_paper(found[0]["dataset"], backbone, method), found, own)
        lines.append(cells)
    heads = ["backbone", "method", "seeds", "top-1 %", "cost", "utility", "NLL", "ECE", "GFLOPs", "µs"]
    heads += ["paper: top-1, cost, utility", "top-1 minus paper", "utility minus paper"]
    return table(heads, lines)


def _place(entry: tuple[tuple[Any, ...], list[Row]]) -> tuple[str, int, str]:
    backbone, method = entry[0]
    return backbone, ORDER.index(method) if method in ORDER else len(ORDER), method


def beside(paper: Row | None, rows: Sequence[Row], own: float | None) -> list[str]:
    """The paper's numbers, and whether ours differ from them by more than the seeds do."""
    if paper is None:
        return ["", "", ""]
    numbers = f"{written(paper['accuracy'], paper['accuracy_spread'])}, {paper['cost']:.2f}, {paper['utility']:.2f}"
    theirs = paper["accuracy_spread"] or 0.0
    ours = deviation(rows, "accuracy")
    top = differs(100 * mean_of(rows, "accuracy") - paper["accuracy"], None if ours is None else 100 * ours + theirs)
    if own is None or rows[0]["method"] in ("single", "average"):  # one by definition
        return [numbers, top, ""]
    return [numbers, top, differs(own - paper["utility"], deviation(rows, "utility"))]


def differs(difference: float, room: float | None) -> str:
    if room is None:
        return f"{difference:+.2f}"
    return f"{difference:+.2f}, {'inside' if abs(difference) <= room else 'outside'}"


def against_tables(found: dict[str, Any], warm_started: dict[str, Any]) -> str:
    """What IRENE gains on each policy at each cost, and what folds gain on the slice; then with warm starts."""
    parts = []
    for slug, about in found.items():
        compared = dict(about["gains"])
        if "folds" in about:  # the other way round, so that the row reads as the others
            turned = {cost: [-mean, -high, -low] for cost, (mean, low, high) in about["folds"]["gain"].items()}
            compared[f"IRENE out-of-fold ({seeds(about['folds']['seeds'])})"] = turned
        last = f"*selector fitted for each cost: minus {title('margin')}, the same members*"
        compared[last] = about["fitted"]
        parts.append(gain_table(f"{setting_title(slug)}, {seeds(about['seeds'])}", about["accuracy"], compared))
    for slug, about in warm_started.items():
        names = {"same": "the same members", "independent": "independent members"}
        compared = {
            f"{title('margin')}, {names[kind]} ({seeds(part['seeds'])})": part["gain"] for kind, part in about.items()
        }
        parts.append(gain_table(f"{setting_title(slug)}, {WARM_STARTED}", about["same"]["accuracy"], compared))
    return "\n\n".join(parts)


def gain_table(about: str, accuracy: dict[str, float], compared: dict[str, dict[str, list[float]]]) -> str:
    """Accuracy of IRENE by cost, and what it gains on others at each cost and over all of them."""
    lines = [["*accuracy of IRENE*", *(f"{value:.2%}" for value in accuracy.values()), ""]]
    lines += [[name, *(gain(gains[cost]) for cost in (*accuracy, "all"))] for name, gains in compared.items()]
    return f"### {about}\n\n{table(['IRENE minus', *accuracy, 'all costs'], lines)}"


def asked_table(found: dict[str, list[dict[str, float]]]) -> str:
    """Mean cost on test images, by the cost asked for on held-out ones."""
    asked = list(next(iter(found.values()))[0])
    lines = []
    for name, runs in found.items():
        slug, label = name.split(": ")
        cells = [spread(runs, cost, digits=3) for cost in asked]
        lines.append([f"{setting_title(slug)}, {label}", str(len(runs)), *cells])
    return table(["asked for", "runs", *asked], lines)


def cascade_tables(cascades: Sequence[Row], rows: Sequence[Row]) -> str:
    """Accuracy of cascades at a ladder of FLOPs, side by side where they differ in numbers or in training alone."""
    parts = [TRAININGS] if any(taught(cascade) for cascade in cascades) else []
    cascades = [
        {**cascade, "small": title(cascade["members"][0]), "which_seeds": tuple(cascade["which_seeds"])}
        for cascade in cascades
    ]
    groups = grouped(cascades, "dataset", "small", "epochs", "which_seeds")
    for (dataset, small, epochs, which), found in groups.items():
        costs = list(found[0]["policies"]["margin"])
        lines = [
            [
                in_short(cascade["members"]),
                cascade["training"],
                title(policy),
                *(f"{100 * points[cost]['accuracy']:.2f}" for cost in costs),
                f"{100 * cascade['whole']:.2f}",
            ]
            for cascade in found
            for policy, points in cascade["policies"].items()
        ]
        parts += [
            f"### {title(dataset)}, {small} and ResNet-18, {epochs} epochs, {seeds(len(which))}",
            references(rows, found[0]),
            table(["members", "training", "policy", *costs, "all members"], lines),
        ]
    return "\n\n".join(parts)


def references(rows: Sequence[Row], cascade: Row) -> str:
    """What independent single networks and ensembles of the same seeds give, where there are any."""
    said = []
    for backbone in dict.fromkeys(cascade["members"]):
        for method, many in (("single", "one"), ("average", "three")):
            found = networks(rows, cascade, backbone, method)
            said += [f"{many} {title(backbone)} {100 * mean_of(found, 'accuracy'):.2f}"] if found else []
    return (
        f"Independent, of the same seeds: {', '.join(said)}. "
        f"A {title(cascade['members'][0])} costs {cascade['small_flops']:.3f}."
    )


def joint_table(rows: Sequence[Row]) -> str:
    """Unequal members that were trained in one run."""
    unequal = [row for row in rows if "+" in row["backbone"]]
    runs = grouped(unequal, "dataset", "epochs", "backbone", "method")
    lines = [
        [
            f"{title(dataset)}, {epochs}",
            in_short(backbone.split("+")),
            method,
            str(len(found)),
            spread(found, "accuracy", 100),
            spread(found, "flops", 1 / R18_FLOPS),
        ]
        for (dataset, epochs, backbone, method), found in runs.items()
    ]
    return table(["data, epochs", "members", "method", "seeds", "top-1 %", "FLOPs of one ResNet-18"], lines)


def speed_table(rows: Sequence[Row], side_by_side: Sequence[Row]) -> str:
    """The median over runs that had the card to themselves, and what it did in all for several that shared it."""
    lines = []
    for (backbone,), found in grouped(rows, "backbone").items():
        epoch_s, images, tflops = (
            statistics.median(row[key] for row in found) for key in ("epoch_s", "images_per_s", "tflops")
        )
        lines.append([title(backbone), str(len(found)), *speeds(epoch_s, images, tflops)])
    for row in side_by_side:
        name, count = title(row["backbone"]), str(row["at_once"])
        speed = speeds(row["epoch_s"], row["images_per_s"], row["tflops"])
        lines.append([f"{name}, {count} runs at a time", count, *speed])
    return table(["backbone, batch 512", "runs", "seconds an epoch", "images/s", "TFLOP/s"], lines)


def speeds(epoch_s: float, images_per_s: float, tflops: float) -> list[str]:
    return [f"{epoch_s:.2f}", f"{images_per_s:,.0f}", f"{tflops:.0f}"]


def step_table(report: dict[str, Any]) -> str:
    """What a training step takes and spends it on, as training_step.py has measured it."""
    lines = []
    for row in report["rows"]:
        spent = row["kernel_ms"]
        convolutions = sum(spent[kind] for kind in CONVOLUTIONS)
        compiled = spent[COMPILED]
        cells = [
            title(row["backbone"]),
            str(row["batch"]),
            f"{row['ms']:.2f}",
            f"{row['images_per_s']:,}",
            f"{row['tflops']:.0f}",
            f"{convolutions:.2f}",
            f"{row['tflops'] * row['ms'] / convolutions:.0f}",
            f"{compiled:.2f}",
            f"{sum(spent.values()) - convolutions - compiled:.2f}",
        ]
        lines.append(cells)
    heads = ["backbone", "batch", "ms a step", "images/s", "TFLOP/s"]
    return table([*heads, "convolutions: ms", "TFLOP/s", "compiled: ms", "rest: ms"], lines)


def trained(rows: Sequence[Row]) -> list[Row]:
    """The rows of runs, without what is a replay of another one's members."""
    return [row for row in rows if "," not in row["method"] and not row["method"].startswith("woc")]


def total_time(rows: Sequence[Row], card_s: float) -> str:
    """How long all runs trained, added up, and how long the card was at it."""

    own = [row for row in trained(rows) if row["method"] != "single" or row["backbone"] in SIZES]
    seconds = [row["train_s"] for row in own]
    return (
        f"All {len(seconds)} runs took {card_s / 3600:.1f} hours of one H200, most of them side by side: added up, "
        f"they trained for {sum(seconds) / 3600:.1f} hours. What was trained again counts once."
    )


def time_table(rows: Sequence[Row]) -> str:
    """Training time of the runs that had the card to themselves."""
    lines = []
    alone = [row for row in trained(rows) if row["alone"]]
    for (dataset, epochs, backbone, method), found in grouped(alone, "dataset", "epochs", "backbone", "method").items():
        shown = ", ".join(title(name) for name in backbone.split("+"))
        seconds = spread(found, "train_s", digits=0)
        lines.append([f"{title(dataset)}, {epochs}", shown, method, str(len(found)), seconds])
    return table(["data, epochs", "backbone", "method", "runs", "training s"], lines)


def halting_table(stages: dict[str, Any]) -> str:
    """S(t) on held-out images, the expected members and the price over the training of the later members."""
    lines = []
    for stage, found in stages.items():
        if "S2" not in found:
            continue
        count = len(found["S2"])
        for epoch in (0, count // 3 - 1, 2 * count // 3 - 1, count - 1):
            third = f"{found['S3'][epoch]:.3f}" if "S3" in found else ""
            numbers = [found["S2"][epoch], found["expected_members"][epoch], found["price"][epoch]]
            second, *rest = (f"{number:.3f}" for number in numbers)
            lines.append([stage, str(epoch + 1), second, third, *rest])
    return table(["training", "epoch", "S(2)", "S(3)", "expected members", "price"], lines)
