"""The tables of the results page: plain rows of JSON in, markdown out."""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jobs import R18_FLOPS
from packed import ALL_IMAGES, FOLDS, IRENE

from irene.evaluation.metrics import utility

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from policy_table import gain

TITLES = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "resnet18": "ResNet-18",
    "resnet32": "ResNet-32",
    "resnet18s2": "ResNet-18/2",
    "margin": "margin + temperature",
    "change": "change predictor",
    "selector": "selector",
}
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
    f"average, {TITLES['margin']} at 1.3",
    f"average, {TITLES['change']} at 1.3",
    "irene paper's recipe",
    IRENE,
    FOLDS,
)
Row = dict[str, Any]


class Place(NamedTuple):
    """What one table is about."""

    dataset: str
    epochs: int
    images: int

    @property
    def title(self) -> str:
        return f"{title(self.dataset)}, {self.epochs} epochs, {self.images:,} training images"


def load_paper() -> list[Row]:
    """The rows of the paper's two tables: top-1 in %, cost in members, utility, and spreads where it prints them."""
    rows: list[Row] = json.loads((Path(__file__).parent / "paper.json").read_text())
    return rows


def title(name: str) -> str:
    """The written name of a data set, a backbone or a policy; cifar10+noise20 has 20 % wrong labels."""
    plain, _, noise = name.partition("+noise")
    return TITLES.get(plain, plain) + (f" with {noise} % wrong labels" if noise else "")


def setting_title(slug: str) -> str:
    dataset, backbone, epochs, *full = slug.split("-")
    return f"{title(dataset)}, {title(backbone)}, {epochs[1:]} epochs" + ", all 50,000 images" * bool(full)


def grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in keys)].append(row)
    return groups


def mean_of(rows: Sequence[Row], key: str) -> float:
    return statistics.fmean(row[key] for row in rows)


def deviation(rows: Sequence[Row], key: str) -> float | None:
    """The standard deviation over seeds; None for one seed."""
    return statistics.stdev(row[key] for row in rows) if len(rows) > 1 else None


def written(mean: float, spread: float | None, digits: int = 2) -> str:
    """A mean with its spread, unless that is nothing."""
    return f"{mean:.{digits}f}" + (f" ± {spread:.{digits}f}" if round(spread or 0.0, digits) else "")


def spread(rows: Sequence[Row], key: str, scale: float = 1.0, digits: int = 2) -> str:
    """Mean and standard deviation over seeds."""
    one = deviation(rows, key)
    return written(scale * mean_of(rows, key), None if one is None else scale * one, digits)


def method_tables(rows: Sequence[Row]) -> str:
    """One table for each data set and number of epochs and of images, the paper's numbers beside ours."""
    parts = []
    for place, found in sorted(grouped(rows, "dataset", "epochs", "images").items()):
        equal = [row for row in found if "+" not in row["backbone"] and " without " not in row["method"]]
        if equal and place[0] in TITLES:  # label noise is no part of these tables
            parts.append(f"### {Place(*place).title}\n\n{method_table(equal)}")
    return "\n\n".join(parts)


def method_table(rows: Sequence[Row]) -> str:
    paper = {(row["dataset"], row["backbone"], row["method"]): row for row in load_paper()}
    lines = [
        "| backbone | method | seeds | top-1 % | cost | utility | NLL | ECE | GFLOPs | µs "
        "| paper: top-1, cost, utility | top-1 minus paper | utility minus paper |",
        "|---" * 13 + "|",
    ]
    for (backbone, method), found in sorted(grouped(rows, "backbone", "method").items(), key=_place):
        own = utility_of(found, [row for row in rows if row["backbone"] == backbone])
        cells = [title(backbone), method, str(len(found)), spread(found, "accuracy", 100), spread(found, "cost")]
        cells.append("" if own is None else written(own, deviation(found, "utility")))
        cells += [spread(found, "nll", digits=3), spread(found, "ece", digits=3), spread(found, "flops", 1e-9)]
        timed = [row for row in found if row["alone"]]
        cells.append(spread(timed, "ms", 1e3, 1) if timed else "")
        name = "irene" if method == IRENE else method
        cells += beside(paper.get((found[0]["dataset"], backbone, name)), found, own)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _place(entry: tuple[tuple[Any, ...], list[Row]]) -> tuple[str, int, str]:
    backbone, method = entry[0]
    return backbone, ORDER.index(method) if method in ORDER else len(ORDER), method


def utility_of(rows: Sequence[Row], setting: Sequence[Row]) -> float | None:
    """Utility of the mean accuracy at the mean cost, against the mean single and average of the setting."""
    single, average = ([row for row in setting if row["method"] == name] for name in ("single", "average"))
    if not single or not average:
        return None
    reference = {"single": mean_of(single, "accuracy"), "average": mean_of(average, "accuracy")}
    return utility(mean_of(rows, "accuracy"), mean_of(rows, "cost"), **reference)


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


def against_tables(found: dict[str, Any]) -> str:
    """What IRENE gains on each policy at each cost, and what folds gain on the slice."""
    parts = []
    for slug, about in found.items():
        costs = list(about["accuracy"])
        lines = [
            f"### {setting_title(slug)}, {seeds(about['seeds'])}",
            "",
            "| IRENE minus | " + " | ".join(costs) + " | all costs |",
            "|---" * (len(costs) + 2) + "|",
            "| *accuracy of IRENE* | " + " | ".join(f"{about['accuracy'][cost]:.2%}" for cost in costs) + " | |",
        ]
        compared = dict(about["gains"])
        if "folds" in about:  # the other way round, so that the row reads as the others
            turned = {cost: [-mean, -high, -low] for cost, (mean, low, high) in about["folds"]["gain"].items()}
            compared[f"IRENE out-of-fold ({seeds(about['folds']['seeds'])})"] = turned
        for name, gains in compared.items():
            lines.append(f"| {name} | " + " | ".join(gain(gains[cost]) for cost in (*costs, "all")) + " |")
        lines.append(
            f"| *selector fitted for each cost: minus {title('margin')}, the same members* | "
            + " | ".join(gain(about["fitted"][cost]) for cost in (*costs, "all"))
            + " |"
        )
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def asked_table(found: dict[str, list[dict[str, float]]]) -> str:
    """Mean cost on test images, by the cost asked for on held-out ones."""
    asked = list(next(iter(found.values()))[0])
    lines = ["| asked for | runs | " + " | ".join(asked) + " |", "|---" * (len(asked) + 2) + "|"]
    for name, runs in found.items():
        slug, label = name.split(": ")
        cells = [spread(runs, cost, digits=3) for cost in asked]
        lines.append(f"| {setting_title(slug)}, {label} | {len(runs)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds"


def cascade_tables(cascades: Sequence[Row], rows: Sequence[Row]) -> str:
    """Accuracy of cascades of independent members at a ladder of FLOPs."""
    parts = []
    cascades = [{**cascade, "kinds": " and ".join(trained(cascade))} for cascade in cascades]
    for (dataset, kinds, count), found in grouped(cascades, "dataset", "kinds", "seeds").items():
        costs = list(found[0]["policies"]["margin"])
        lines = [
            f"#### {title(dataset)}, {kinds} epochs, {seeds(count)}",
            "",
            references(rows, found[0]),
            "",
            "| members | policy | " + " | ".join(costs) + " | all members |",
            "|---" * (len(costs) + 3) + "|",
        ]
        for cascade in found:
            for policy, points in cascade["policies"].items():
                cells = [f"{100 * points[cost]['accuracy']:.2f}" for cost in costs]
                lines.append(
                    f"| {in_short(cascade['members'])} | {title(policy)} | "
                    + " | ".join(cells)
                    + f" | {100 * cascade['whole']:.2f} |"
                )
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def trained(cascade: Row) -> list[str]:
    """Each kind of network of a cascade, with the epochs it was trained for."""
    small, large = dict.fromkeys(cascade["members"])
    return [f"{title(small)} of {cascade['small_epochs']}", f"{title(large)} of {cascade['large_epochs']}"]


def references(rows: Sequence[Row], cascade: Row) -> str:
    """What single networks and ensembles of the same trainings give."""
    said = []
    for backbone in dict.fromkeys(cascade["members"]):
        for method, many in (("single", "one"), ("average", "three")):
            accuracy = mean_of(networks(rows, cascade, backbone, method), "accuracy")
            said.append(f"{many} {title(backbone)} {100 * accuracy:.2f}")
    return f"Of the same seeds: {', '.join(said)}. A {title(cascade['members'][0])} costs {cascade['small_flops']:.3f}."


def networks(rows: Sequence[Row], cascade: Row, backbone: str, method: str) -> list[Row]:
    """The rows of a method on one kind of the networks of a cascade, of the seeds that the cascade has."""
    small, large = (
        select(rows, cascade["dataset"], name, cascade[epochs], method)
        for name, epochs in zip(dict.fromkeys(cascade["members"]), ("small_epochs", "large_epochs"), strict=True)
    )
    both = {row["seed"] for row in small} & {row["seed"] for row in large}
    return [row for row in (*small, *large) if row["backbone"] == backbone and row["seed"] in both]


def select(rows: Sequence[Row], dataset: str, backbone: str, epochs: int, method: str) -> list[Row]:
    """The rows of a method in a setting with a held-out slice."""
    return [row for row in of_setting(rows, dataset, backbone, epochs) if row["method"] == method]


def of_setting(rows: Sequence[Row], dataset: str, backbone: str, epochs: int) -> list[Row]:
    """The rows of all methods in a setting with a held-out slice."""
    return [
        row
        for row in rows
        if (row["dataset"], row["backbone"], row["epochs"]) == (dataset, backbone, epochs)
        and row["images"] < ALL_IMAGES
    ]


def in_short(backbones: Iterable[str]) -> str:
    return ", ".join(name.replace("resnet", "R") for name in backbones)


def before_three(cascade: Row) -> bool:
    """Whether two small members stand before the ensemble of three that it is compared with."""
    small, large = cascade["members"][0], cascade["members"][-1]
    return bool(cascade["members"] == [small] * 2 + [large] * 3)


def worth_showing(cascade: Row) -> tuple[int, int, int]:
    """What a cascade is chosen by: most seeds, up to three, and of these the longest training."""
    return min(cascade["seeds"], 3), cascade["large_epochs"], cascade["small_epochs"]


def joint_table(rows: Sequence[Row]) -> str:
    """Unequal members that were trained together."""
    lines = ["| data, epochs | members | method | seeds | top-1 % | FLOPs of one ResNet-18 |", "|---" * 6 + "|"]
    unequal = [row for row in rows if "+" in row["backbone"]]
    for (dataset, epochs, backbone, method), found in grouped(
        unequal, "dataset", "epochs", "backbone", "method"
    ).items():
        lines.append(
            f"| {title(dataset)}, {epochs} | {in_short(backbone.split('+'))} | {method} "
            f"| {len(found)} | {spread(found, 'accuracy', 100)} | {spread(found, 'flops', 1 / R18_FLOPS)} |"
        )
    return "\n".join(lines)


def speed_table(rows: Sequence[Row]) -> str:
    """The median over runs that had the card to themselves."""
    lines = ["| backbone, batch 512 | runs | seconds an epoch | images/s | TFLOP/s |", "|---" * 5 + "|"]
    for (backbone,), found in grouped(rows, "backbone").items():
        epoch_s, images, tflops = (
            statistics.median(row[key] for row in found) for key in ("epoch_s", "images_per_s", "tflops")
        )
        lines.append(f"| {title(backbone)} | {len(found)} | {epoch_s:.2f} | {images:,.0f} | {tflops:.0f} |")
    return "\n".join(lines)


def time_table(rows: Sequence[Row]) -> str:
    """Training time of the runs that had the card to themselves."""
    lines = ["| data, epochs | backbone | method | runs | training s |", "|---" * 5 + "|"]
    trained = [row for row in rows if row["alone"] and "," not in row["method"] and row["method"] != "woc"]
    for (dataset, epochs, backbone, method), found in grouped(
        trained, "dataset", "epochs", "backbone", "method"
    ).items():
        shown = ", ".join(title(name) for name in backbone.split("+"))
        lines.append(
            f"| {title(dataset)}, {epochs} | {shown} | {method} | {len(found)} | {spread(found, 'train_s', digits=0)} |"
        )
    return "\n".join(lines)


def halting_table(stages: dict[str, Any]) -> str:
    """S(t) on held-out images, the expected members and the price over the training of the later members."""
    lines = ["| training | epoch | S(2) | S(3) | expected members | price |", "|---" * 6 + "|"]
    for stage, found in stages.items():
        if "S2" not in found:
            continue
        count = len(found["S2"])
        for epoch in (0, count // 3 - 1, 2 * count // 3 - 1, count - 1):
            third = f"{found['S3'][epoch]:.3f}" if "S3" in found else ""
            lines.append(
                f"| {stage} | {epoch + 1} | {found['S2'][epoch]:.3f} | {third} "
                f"| {found['expected_members'][epoch]:.3f} | {found['price'][epoch]:.3f} |"
            )
    return "\n".join(lines)
