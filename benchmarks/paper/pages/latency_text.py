"""What the results page says of measured time: docs/benchmarks/latency-*.json in, markdown out."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from documents import ROOT, machine, table
from names import (
    WARM_STARTED,
    file_name,
    in_short,
    number,
    seeds,
    title,
    trained,
    without_seed,
)

from pages.rows import Row, deviation, grouped, mean_of, spread, taught

FOLDER = ROOT / "docs/benchmarks"
Latency = dict[str, dict[str, list[Row]]]  # what was measured: networks and rows, by machine
UNITS = {"flops": "FLOPs", "ms": "time"}
POLICIES = {"own selector": "selector trained with the members", "selector": "selector", "margin": title("margin")}


def load_files(folder: Path = FOLDER) -> Latency:
    """What was measured, by machine: latency-h200.json is that of h200."""
    paths = sorted(folder.glob("latency-*.json"))
    found = {path.stem.removeprefix("latency-"): json.loads(path.read_text()) for path in paths}
    return {
        place: {part: [with_kind(entry) for entry in entries] for part, entries in content.items()}
        for place, content in found.items()
    }


def with_kind(entry: Row) -> Row:
    """With what seeds of a cascade share, and with quartiles as numbers of the row."""
    flat = {
        f"{key}_{part}": number
        for key in ("time", "images_per_s", "alone_images_per_s")
        for part, number in (entry[key].items() if isinstance(entry.get(key), dict) else ())
    }
    gains = {f"{key}_gain": entry[key][0] for key in ("over_single", "over_ensemble") if key in entry}
    kind = (without_seed(entry["run"]), *entry["backbones"])
    going = f", {WARM_STARTED}" * entry["training"].endswith(WARM_STARTED)
    large = {"large_training": f"{epochs_of(entry.get('networks_of', ''))} epochs{going}"}
    return {**entry, **flat, **gains, **large, "kind": kind}


def epochs_of(runs: str) -> str:
    """How long the members of runs were trained, by their names."""
    return " and ".join(dict.fromkeys(re.findall(r"-e(\d+)", runs)))


def section(files: Latency) -> str:
    """The section with its heading; nothing while nothing is measured."""
    if not files:
        return ""
    parts = [INTRODUCTION]
    for place, content in files.items():
        for (dataset,), networks in grouped(content["networks"], "dataset").items():
            rows = [row for row in content["rows"] if row["dataset"] == dataset]
            parts.append(f"### {title(dataset)}, {machine(networks[0]['hardware'])}")
            if rows:
                parts.append(f"![{CAPTION}: {title(dataset)}](figures/{figure_name(place, dataset)})")
            for (kind,), members in grouped(networks, "kind").items():
                parts += of_kind(members, [row for row in rows if row["kind"] == kind])
    return "\n\n".join(parts) + "\n\n"


def asked_for_half(files: Latency) -> tuple[Row, list[Row]]:
    """The CPU's cascade in 8-bit integers, the longest taught if one was, and its rows asked for half of one's time."""
    content = files["cpu"]
    cascades = [one for one in content["networks"] if one["backend"] == "onnx:int8"]
    network = max(cascades, key=lambda one: (taught(one), len(one["training"])))
    asked = [row for row in content["rows"] if (row["backend"], row["unit"], row["asked"]) == ("onnx:int8", "ms", 0.5)]
    return network, [row for row in asked if row["kind"] == network["kind"]]


def as_accurate_on_a_gpu(files: Latency) -> list[float]:
    """The share of one network's time in which each cascade is as accurate on an H200."""
    content = files["h200"]
    fastest = [
        shortest(networks, [row for row in content["rows"] if row["kind"] == kind], "single")
        for (kind,), networks in grouped(content["networks"], "kind").items()
    ]
    return [found[0] for found in fastest if found is not None]


CAPTION = "Accuracy against FLOPs and against measured time"
INTRODUCTION = """## In measured time

`python benchmarks/paper/latency.py` streams the test images through `irene.Stream` with the cascade's own weights, in
turns with one large network alone in batches of the same size; raw rows are in `docs/benchmarks/latency-*.json`.
Thresholds, weights and temperatures are set on held-out images by what the members answer on that very backend. *FLOPs*
and *time* are those of one large network; a cost is asked for in either. Time is the median of several passes, each
over that of the network alone in the same round, with quartiles. *60 and 30 epochs* are those of the small and of the
large members: there, one large network has trained half as long as the small ones. Differences are in points of
accuracy on the same test images, with 95 % intervals where there is one seed and the standard deviation where there are
more."""


def figure_name(place: str, dataset: str) -> str:
    return file_name(f"latency-{place}-{dataset}.svg")


def of_kind(networks: Sequence[Row], rows: Sequence[Row]) -> list[str]:
    """All about one cascade: what it is compared with, its rows, and what int8 costs it."""
    parts = [f"#### {kind_title(networks[0])}, {seeds(len({one['seed'] for one in networks}))}"]
    parts += [references(found) for found in grouped(networks, "backend").values()]
    if rows:
        parts += [reached(networks, rows), asked_and_measured(networks[0], rows)]
    reduced = [one for one in networks if "whole_fp32" in one]
    return [*parts, int8_table(reduced, rows)] if reduced else parts


def kind_title(about: Row) -> str:
    epochs = epochs_of(about["run"])
    return f"{in_short(about['backbones'])}, {trained(about['training'])}" + (f", {epochs} epochs" if epochs else "")


def large(about: Row) -> str:
    """The network that costs are counted in."""
    return title(max(about["members"], key=lambda member: member["flops"])["backbone"])


def several(about: Row) -> str:
    return f"{number(about['networks'])} averaged"


def references(networks: Sequence[Row]) -> str:
    """Accuracy of the single networks and of all members, and what the small members take."""
    first = networks[0]
    name = large(first)
    small = {
        title(member["backbone"]): f"{member['flops']:.3f} of its FLOPs and {member['time']:.2f} of its time"
        for member in first["members"]
        if member["flops"] < 1
    }
    taking = "".join(f"; one {backbone} takes {share}" for backbone, share in small.items())
    us = 1000 * mean_of(networks, "network_ms")
    alone = f"{us:,.0f} µs" if us >= 100 else f"{us:.3g} µs"
    return (
        f"{first['backend']}, batches of {first['bucket']:,}: one {name} {spread(networks, 'single', 100)} %, "
        f"{several(first)} {spread(networks, 'ensemble', 100)} %, all members of the cascade "
        f"{spread(networks, 'whole', 100)} %. One {name} alone takes {alone} an image{taking}."
        + " Saved weights were rounded to half precision."
        * any(one["half_precision"] for one in networks)
    )


def reached(networks: Sequence[Row], rows: Sequence[Row]) -> str:
    """From which time on a cascade is as accurate as one network and as the ensemble, by backend."""
    lines = []
    for (backend,), here in grouped(rows, "backend").items():
        about = [one for one in networks if one["backend"] == backend]
        said = []
        for goal, name in (("single", f"one {large(about[0])}"), ("ensemble", several(about[0]))):
            found = shortest(about, here, goal)
            if found is not None:
                took, flops, policy = found
                said.append(f"as {name}: {took:.2f} ({flops:.2f} FLOPs, {POLICIES[policy]})")
            else:
                said.append(f"as {name}: at none of these costs")
        lines.append(f"- {backend}: {'; '.join(said)}.")
    head = "The shortest time, as a share of one network's, of a row below whose test accuracy is not lower:"
    return f"{head}\n\n" + "\n".join(lines)


def shortest(networks: Sequence[Row], rows: Sequence[Row], goal: str) -> tuple[float, float, str] | None:
    """Time, FLOPs and policy of the fastest rows that are as accurate as the goal; None where none is."""
    good = [
        (mean_of(found, "time_median"), mean_of(found, "flops"), policy)
        for (policy, _, _), found in grouped(rows, "policy", "unit", "asked").items()
        if mean_of(found, "accuracy") >= mean_of(networks, goal)
    ]
    return min(good, default=None)


def asked_and_measured(about: Row, rows: Sequence[Row]) -> str:
    one = large(about)
    lines = []
    for (backend, policy, unit, asked), found in grouped(rows, "backend", "policy", "unit", "asked").items():
        took = [mean_of(found, f"time_{part}") for part in ("median", "low", "high")]
        cells = [
            backend,
            POLICIES[policy],
            f"{asked:g} {UNITS[unit]}",
            spread(found, "accuracy", 100),
            difference(found, "over_single"),
            difference(found, "over_ensemble"),
            f"{mean_of(found, 'flops'):.3f}",
            "{:.2f} ({:.2f} to {:.2f})".format(*took),
            f"{mean_of(found, 'images_per_s_median'):,.0f}",
            f"{mean_of(found, 'alone_images_per_s_median'):,.0f}",
        ]
        lines.append(cells)
    heads = ["backend", "policy", "asked", "accuracy %", f"over one {one}", f"over {several(about)}"]
    return table([*heads, "FLOPs", "time", "images/s", f"one {one}, images/s"], lines)


def difference(rows: Sequence[Row], key: str) -> str:
    """In points: with its interval for one seed, with the spread over several."""
    if len(rows) == 1:
        mean, low, high = (100 * value for value in rows[0][key])
        return f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]"
    mean, apart = 100 * mean_of(rows, f"{key}_gain"), deviation(rows, f"{key}_gain")
    return f"{mean:+.2f}" + (f" ± {100 * apart:.2f}" if apart else "")


def int8_table(networks: Sequence[Row], rows: Sequence[Row]) -> str:
    """Accuracy in float32 and in 8-bit integers: members, all of them, and the cascades."""
    lines = []
    for (backend,), found in grouped(networks, "backend").items():
        for t, member in enumerate(found[0]["members"]):
            each = [one["members"][t] for one in found]
            accuracies = [spread(each, key, 100) for key in ("accuracy_fp32", "accuracy", "same_labels")]
            lines.append([backend, f"member {t + 1}, {title(member['backbone'])}", *accuracies])
        lines.append([backend, "all members", spread(found, "whole_fp32", 100), spread(found, "whole", 100), ""])
        here = [row for row in rows if row["backend"] == backend and "accuracy_fp32" in row and row["unit"] == "flops"]
        for (policy, asked), same in grouped(here, "policy", "asked").items():
            name = f"cascade, {POLICIES[policy]} at {asked:g} FLOPs"
            lines.append([backend, name, spread(same, "accuracy_fp32", 100), spread(same, "accuracy", 100), ""])
    shown = table(["backend", "", "accuracy %, fp32", "int8", "same label %"], lines)
    return f"8-bit integers, thresholds set again on what they answer:\n\n{shown}"
