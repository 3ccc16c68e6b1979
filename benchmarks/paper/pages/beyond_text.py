"""What the results page says of corrupted images and of promises: benchmarks/results/beyond.json in, markdown out."""

from __future__ import annotations

from typing import Any

import names
from comparison import gain
from replay.beyond_promises import splits_table
from training.corruptions import AMOUNTS

SHOWN = "1.3"  # the cost whose rows are shown; beyond.md has the others
OWN, MARGIN = "own selector", "margin"
SETS = ("clean", *(f"{kind}, all levels" for kind in AMOUNTS), *(f"{kind}-5" for kind in AMOUNTS), "all corruptions")


def section(found: dict[str, Any]) -> str:
    return "\n\n".join(of_setting(name, about) for name, about in found.items())


def of_setting(slug: str, about: dict[str, Any]) -> str:
    parts = [f"### {title(slug)}, {names.seeds(about['runs'])}", corruption_table(about)]
    if "promises on fresh splits" in about:
        parts += ["#### Promises on fresh splits", splits_table(about["promises on fresh splits"], about["runs"])]
    return "\n\n".join(parts)


def title(slug: str) -> str:
    dataset, backbone, method, epochs = slug.split("-")
    return f"{names.title(dataset)}, {names.title(backbone)}, {method}, {epochs[1:]} epochs"


def sentences(found: dict[str, Any]) -> list[str]:
    """What corruption does to the cost and to the answers, who is ahead there, and whether promises are kept."""
    return [sentence(slug, about) for slug, about in found.items()]


def sentence(slug: str, about: dict[str, Any]) -> str:
    clean, corrupted = (about["sets"][name]["asked"] for name in ("clean", "all corruptions"))
    policy = OWN if OWN in clean[SHOWN] else "selector"
    before, after = clean[SHOWN][policy], corrupted[SHOWN][policy]
    ahead = ", ".join(f"at {cost} {gain(here[policy]['gain at the same cost'])}" for cost, here in corrupted.items())
    said = (
        f"**Corrupted images**, {title(slug)} ({names.seeds(about['runs'])}): thresholds set for {SHOWN} members on "
        f"clean images spend {before['cost']:.2f} on clean and {after['cost']:.2f} on corrupted ones, with answers "
        f"{gain(after['against all members'])} points from those of all members. Over margin + temperature at the same "
        f"cost {names.title(policy)} gains {ahead}."
    )
    splits = about.get("promises on fresh splits")
    return said if splits is None else f"{said} {promise_sentence(splits)}"


def promise_sentence(splits: dict[str, Any]) -> str:
    rows = [row for rows in splits["policies"].values() for row in rows]
    told = []
    for kind in ("risk", "max_drop"):
        mine = [row for row in rows if kind in row["wish"]]
        answered = sum(row["calibrations"] - row["refused"] for row in mine)
        told.append(f"{sum(row['kept'] for row in mine)} of {answered}")
    return (
        f"On fresh splits a risk promised at {splits['confidence']:.0%} is kept in {told[0]} calibrations; a largest "
        f"drop is an estimate, kept in {told[1]}."
    )


def corruption_table(about: dict[str, Any]) -> str:
    """What thresholds set for 1.3 members on clean held-out images cost and lose elsewhere."""
    first = about["sets"]["clean"]["asked"][SHOWN]
    shown = [name for name in (MARGIN, "change", OWN) if name in first]
    heads = [f"{names.title(name)}: cost, minus all members" for name in shown]
    heads += [f"{names.title(name)} over {MARGIN}, same cost" for name in shown[1:]]
    lines = ["| images | all members % | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for name in SETS:
        here = about["sets"][name]
        asked = here["asked"][SHOWN]
        cells = [f"{asked[policy]['cost']:.2f}, {gain(asked[policy]['against all members'])}" for policy in shown]
        cells += [gain(asked[policy]["gain at the same cost"]) for policy in shown[1:]]
        lines.append(f"| {name} ({here['samples']:,}) | {100 * here['all members']:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
