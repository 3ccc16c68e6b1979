"""The short tables of results.md and of README.md; tables.py and its neighbours have the full ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from comparison import gain
from documents import machine, table
from names import (
    DATASETS,
    INDEPENDENT,
    IRENE,
    PLAIN,
    SHORT_EPOCHS,
    WARM,
    WARM_STARTED,
    in_short,
    parts_of,
    seeds,
    setting_title,
    title,
    trained,
)

from pages import beyond_text
from pages.facts import MARGIN, percent
from pages.latency_text import Latency, kind_title, shortest
from pages.rows import (
    Row,
    grouped,
    in_paper,
    mean_of,
    most_worth_showing,
    networks,
    of_method,
    of_most_seeds,
    of_setting,
    of_slug,
    spread,
    taught_alone,
    utility_of,
    written,
)
from pages.tables import ORDER

LARGE = (("single", "one ResNet-18", 1), ("average", "three ResNet-18, averaged", 3))
HEADLINE_COSTS = ("0.25", "0.5")
PAPER_BACKBONES = ("resnet18", "resnet32")


def headline(best: Sequence[Sequence[Row]], study: dict[str, Any]) -> str:
    """Cascades of each training at two costs on every data set, beside one large network, three, and one taught."""
    rows = study["rows"]
    as_long = best[0][0]["epochs"]
    lines = []
    for epochs in dict.fromkeys([as_long, max(row["epochs"] for row in rows)]):
        for method, name, cost in LARGE:
            found = [networks(rows, {**cascade, "epochs": epochs}, "resnet18", method) for cascade in best[0]]
            if not any(found):
                continue
            longer = f", {epochs} epochs ({seeds(max(map(len, found)))})" * (epochs != as_long)
            cells = [spread(here, "accuracy", 100) if here else "" for here in found]
            lines.append([f"{name}{longer}", f"{cost:.2f}", *cells])
    widest = [small for one in best[0] for small in taught_alone(study, one)[-1:]]
    if widest:
        lines.append(alone(widest, best[0][0]["training"]))
    single = [mean_of(networks(rows, one, "resnet18", "single"), "accuracy") for one in best[0]]
    for alike in best:
        name = f"cascade, {trained(alike[0]['training'])}"
        for cost in HEADLINE_COSTS:
            points = [one["policies"]["selector"][cost] for one in alike]
            cells = [
                bold(percent(ours["accuracy"]), ours["low"] > one) for ours, one in zip(points, single, strict=True)
            ]
            lines.append([name, f"{float(cost):.2f}", *cells])
            name = ""
    return table(["", "cost", *(title(cascade["dataset"]) for cascade in best[0])], lines)


def alone(networks: Sequence[Row], training: str) -> list[str]:
    """A line of the headline: a network that was taught, by itself, on every data set."""
    name = f"one {title(networks[0]['backbone'])}, {training.removesuffix(WARM_STARTED).strip()}, alone"
    cells = [written(100 * one["accuracy"], 100 * (one["spread"] or 0)) for one in networks]
    return [name, f"{networks[0]['flops']:.2f}", *cells]


def bold(text: str, wanted: bool) -> str:
    return f"**{text}**" if wanted else text


def ladder(cascades: Sequence[Row], rows: Sequence[Row]) -> str:
    """For each data set: accuracy by cost of cascades with a selector, and what that gains on a margin."""
    shown = of_most_seeds(most_worth_showing(cascades))
    parts = []
    for (dataset,), alike in grouped(shown, "dataset").items():
        costs = sorted({cost for one in alike for cost in one["policies"]["selector"]}, key=float)
        lines = []
        for method, name, cost in LARGE:
            found = networks(rows, alike[0], "resnet18", method)
            cells = [spread(found, "accuracy", 100) if float(at) == cost else "" for at in (*costs, "3")]
            lines.append([name, *cells])
        for one in sorted(alike, key=lambda one: one["training"] == INDEPENDENT):
            points = one["policies"]["selector"]
            name = f"{in_short(one['members'])}: {trained(one['training'])}, {seeds(one['seeds'])}"
            lines.append([name, *(at_cost(points[cost]) if cost in points else "" for cost in costs), ""])
        heads = [f"{title(dataset)}, {alike[0]['epochs']} epochs", *costs, "3"]
        parts.append(table(heads, lines))
    return "\n\n".join(parts)


def at_cost(point: Row) -> str:
    """Accuracy, and what the selector gains on a margin."""
    mean, low, high = point["gain"]
    return f"{percent(point['accuracy'])} ({bold(f'{mean:+.2f}', low > 0 or high < 0)})"


def fastest(latency: Latency) -> str:
    """In which share of one network's time the cascades are as accurate as one and as three."""
    lines = []
    for content in latency.values():
        for (kind, backend), found in grouped(content["networks"], "kind", "backend").items():
            rows = [row for row in content["rows"] if (row["kind"], row["backend"]) == (kind, backend)]
            cells = []
            for goal in ("single", "ensemble"):
                best = shortest(found, rows, goal)
                cells.append("never" if best is None else f"{best[0]:.2f} ({best[1]:.2f})")
            where = f"{machine(found[0]['hardware']).split(', torch')[0]}, {backend}"
            lines.append([where, f"{title(found[0]['dataset'])}, {kind_title(found[0])}", *cells])
    return table(["measured on", "cascade", "as accurate as one: time (FLOPs)", "as three averaged"], lines)


def paper_tables(rows: Sequence[Row]) -> str:
    """Tables 1 and 2: all methods on both backbones in the short schedule, the paper's numbers beside ours."""
    heads = ["top-1 %", "cost", "utility", "paper"]
    parts = []
    for dataset in DATASETS:
        lines = []
        settings = {name: of_setting(rows, dataset, name, SHORT_EPOCHS) for name in PAPER_BACKBONES}
        for method in ORDER:
            cells = []
            for backbone, setting in settings.items():
                found = of_method(setting, method)
                paper = in_paper(dataset, backbone, method)
                cells += [*reached(found, setting), "" if paper is None or not found else in_print(paper)]
            if any(cells):
                lines.append([method, *cells])
        sides = [f"{title(name)}: {heads[0]}" if head == heads[0] else head for name in settings for head in heads]
        parts.append(f"### {title(dataset)}\n\n{table(['', *sides], lines)}")
    return "\n\n".join(parts)


def reached(found: Sequence[Row], setting: Sequence[Row]) -> list[str]:
    """Accuracy with its spread, cost and utility; empty where nothing was run."""
    if not found:
        return ["", "", ""]
    fewer = f" ({seeds(len(found))})" * (len(found) < 3)
    return [
        spread(found, "accuracy", 100) + fewer,
        f"{mean_of(found, 'cost'):.2f}",
        f"{utility_of(found, setting):.2f}",
    ]


def in_print(paper: Row) -> str:
    return f"{paper['accuracy']:.2f}, {paper['cost']:.2f}, {paper['utility']:.2f}"


def equal_members(study: dict[str, Any]) -> str:
    """IRENE in each setting, beside the paper and a threshold on independent members; cold, then warm."""
    lines = [
        equal_line(study, slug, IRENE, about["seeds"], *(about["gains"][f"{MARGIN}, {kind} members"] for kind in KINDS))
        for slug, about in study["against"].items()
    ]
    for slug, about in study["warm_started"].items():
        same, other = (about.get(kind) for kind in ("same", "independent"))
        line = equal_line(study, slug, WARM, same["seeds"], same["gain"], other and other["gain"])
        if other and other["seeds"] != same["seeds"]:
            line[-1] += f" ({seeds(other['seeds'])})"
        lines.append(line)
    heads = [
        "",
        "top-1 %",
        "cost",
        "utility",
        "paper's utility (cost)",
        f"utility of {MARGIN}",
        "its stopping",
        "all of it",
    ]
    return table(heads, lines)


KINDS = ("the same", "independent")  # members of a threshold that IRENE is compared with


def equal_line(
    study: dict[str, Any], slug: str, method: str, compared: int, same: Row | None, other: Row | None
) -> list[str]:
    setting, paper = of_slug(slug, study["rows"]), in_paper(*parts_of(slug)[:2])
    ours, plain = (of_method(setting, name) for name in (method, PLAIN))
    warm = ", warm" * (method == WARM)
    return [
        f"{setting_title(slug)}{warm} ({seeds(compared)})",
        *reached(ours, setting),
        f"{paper['utility']:.2f} ({paper['cost']:.2f})" if paper else "",
        f"{utility_of(plain, setting):.2f}",
        *("" if gains is None else gain(gains["all"]) for gains in (same, other)),
    ]


def robustness(found: dict[str, Any]) -> str:
    """What thresholds for clean images cost and lose on corrupted ones, and how many risks are kept."""
    lines = []
    for slug, about in found.items():
        policy = beyond_text.learned(about)
        points = [about["sets"][name]["asked"][beyond_text.SHOWN][policy] for name in ("clean", beyond_text.CORRUPTED)]
        clean, corrupted = beyond_text.held_out_rows(about)
        lines.append(
            [
                f"{beyond_text.title(slug)} ({seeds(about['runs'])})",
                *(f"{point['cost']:.2f}, {gain(point['against all members'])}" for point in points),
                *(gain(point["gain at the same cost"]) for point in points),
                f"{beyond_text.kept(clean)}, {beyond_text.kept(corrupted)}",
            ]
        )
    heads = ["", "clean: cost, minus all members", "corrupted", f"over {MARGIN}: clean", "corrupted"]
    return table([*heads, "risks kept: clean, corrupted"], lines)
