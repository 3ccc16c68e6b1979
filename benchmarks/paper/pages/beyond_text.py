"""What the results page says of corrupted images and of promises: benchmarks/results/beyond.json in, markdown out."""

from __future__ import annotations

from typing import Any

import names
from comparison import gain
from documents import table
from replay.beyond_promises import splits_table
from training.corruptions import AMOUNTS

SHOWN = "1.3"  # the cost whose rows are shown; beyond.md has the others
OWN, MARGIN = "own selector", "margin"
FRESH = "promises on fresh splits"
CORRUPTED = "all corruptions"  # of the sets of images
SETS = ("clean", *(f"{kind}, all levels" for kind in AMOUNTS), *(f"{kind}-5" for kind in AMOUNTS), CORRUPTED)


def section(found: dict[str, Any]) -> str:
    return "\n\n".join(of_setting(name, about) for name, about in found.items())


def of_setting(slug: str, about: dict[str, Any]) -> str:
    parts = [f"## {title(slug)}, {names.seeds(about['runs'])}", corruption_table(about)]
    if FRESH in about:
        parts += ["### Promises on fresh splits", splits_table(about[FRESH], about["runs"])]
    return "\n\n".join(parts)


def title(slug: str) -> str:
    *dataset, backbone, method, epochs = slug.split("-")
    return f"{names.title('+'.join(dataset))}, {names.title(backbone)}, {method}, {epochs[1:]} epochs"


def learned(about: dict[str, Any]) -> str:
    """The learned policy that is told of: the runs' own selector, or one fitted on their members."""
    return OWN if OWN in about["sets"]["clean"]["asked"][SHOWN] else "selector"


def gain_at_same_cost(about: dict[str, Any], images: str) -> list[float]:
    """What learned stopping gains on the margin, with its interval, where 1.3 members were asked for."""
    gained: list[float] = about["sets"][images]["asked"][SHOWN][learned(about)]["gain at the same cost"]
    return gained


def held_out_rows(about: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Risks promised on held-out images: what came of them on clean test images, and on corrupted ones."""
    by_set = [rows for by_policy in about["promises on held-out samples"].values() for rows in by_policy.values()]
    risks = [rows for rows in by_set if "risk" in rows["clean"]["wish"]]
    return [rows["clean"] for rows in risks], [row for rows in risks for name, row in rows.items() if name != "clean"]


def fresh_rows(about: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """What came of promises of a risk or a drop on fresh splits, if there are any."""
    policies = about[FRESH]["policies"] if FRESH in about else {}
    return [row for rows in policies.values() for row in rows if kind in row["wish"]]


def kept(rows: list[dict[str, Any]]) -> str:
    return f"{sum(row['kept'] for row in rows):,} of {sum(row['calibrations'] - row['refused'] for row in rows):,}"


def corruption_table(about: dict[str, Any]) -> str:
    """What thresholds set for 1.3 members on clean held-out images cost and lose elsewhere."""
    first = about["sets"]["clean"]["asked"][SHOWN]
    shown = [name for name in (MARGIN, "change", learned(about)) if name in first]
    heads = [f"{names.title(name)}: cost, minus all members" for name in shown]
    heads += [f"{names.title(name)} over {MARGIN}, same cost" for name in shown[1:]]
    lines = []
    for name in SETS:
        here = about["sets"][name]
        asked = here["asked"][SHOWN]
        cells = [f"{asked[policy]['cost']:.2f}, {gain(asked[policy]['against all members'])}" for policy in shown]
        cells += [gain(asked[policy]["gain at the same cost"]) for policy in shown[1:]]
        lines.append([f"{name} ({here['samples']:,})", f"{100 * here['all members']:.2f}", *cells])
    return table(["images", "all members %", *heads], lines)
