"""What the results page says of corrupted images and of promises: benchmarks/results/beyond.json in, markdown out."""

from __future__ import annotations

from typing import Any

import names
from comparison import gain, verdict
from replay.beyond_promises import splits_table
from training.corruptions import AMOUNTS

SHOWN = "1.3"  # the cost whose rows are shown; beyond.md has the others
OWN, MARGIN = "own selector", "margin"
LEARNED = {OWN: "IRENE's selector", "selector": "a selector fitted on independent members"}
SETS = ("clean", *(f"{kind}, all levels" for kind in AMOUNTS), *(f"{kind}-5" for kind in AMOUNTS), "all corruptions")


def section(found: dict[str, Any]) -> str:
    return "\n\n".join(of_setting(name, about) for name, about in found.items())


def of_setting(slug: str, about: dict[str, Any]) -> str:
    parts = [f"### {title(slug)}, {names.seeds(about['runs'])}", corruption_table(about)]
    if "promises on fresh splits" in about:
        parts += ["#### Promises on fresh splits", splits_table(about["promises on fresh splits"], about["runs"])]
    return "\n\n".join(parts)


def title(slug: str) -> str:
    *dataset, backbone, method, epochs = slug.split("-")
    return f"{names.title('+'.join(dataset))}, {names.title(backbone)}, {method}, {epochs[1:]} epochs"


def wrong_labels(slug: str) -> str:
    """How many labels were wrong in training and held-out; nothing where they were right."""
    return title(slug).partition(",")[0].partition(" with ")[2]


def learned(about: dict[str, Any]) -> str:
    """The learned policy that is told of: the runs' own selector, or one fitted on their members."""
    return OWN if OWN in about["sets"]["clean"]["asked"][SHOWN] else "selector"


def sentences(found: dict[str, Any]) -> list[str]:
    """What corruption does to the cost and to the answers, who is ahead there, and whether promises are kept."""
    return [sentence(slug, about) for slug, about in found.items()]


def in_short(slug: str, about: dict[str, Any]) -> str:
    """Whether learned halting is the better one where confidence fails."""
    policy = learned(about)
    clean, corrupted = (
        about["sets"][name]["asked"][SHOWN][policy]["gain at the same cost"] for name in ("clean", "all corruptions")
    )
    margin = f"{names.title(MARGIN)} at the same cost"
    labels = wrong_labels(slug)
    if not labels:
        return f"On corrupted images {LEARNED[policy]} {verdict(corrupted)} {margin} ({gain(corrupted)} points)."
    return (
        f"With {labels} in training {LEARNED[policy]} {verdict(clean)} {margin} ({gain(clean)} points), and on "
        f"corrupted images it {verdict(corrupted)} it ({gain(corrupted)})."
    )


def sentence(slug: str, about: dict[str, Any]) -> str:
    policy = learned(about)
    clean, corrupted = (about["sets"][name]["asked"] for name in ("clean", "all corruptions"))
    before, after = clean[SHOWN][policy], corrupted[SHOWN][policy]

    def ahead(asked: dict[str, Any]) -> str:
        return ", ".join(f"at {cost} {gain(here[policy]['gain at the same cost'])}" for cost, here in asked.items())

    where = f"{title(slug)} ({names.seeds(about['runs'])})"
    if wrong_labels(slug):
        said = (
            f"**Wrong labels**, {where}: thresholds set for {SHOWN} members on held-out images, whose labels are wrong "
            f"as often, spend {before['cost']:.2f} on clean and {after['cost']:.2f} on corrupted test images, with "
            f"answers {gain(before['against all members'])} and {gain(after['against all members'])} points from those "
            f"of all members. Over {names.title(MARGIN)} at the same cost {LEARNED[policy]} gains {ahead(clean)} "
            f"on clean and {ahead(corrupted)} on corrupted ones."
        )
    else:
        said = (
            f"**Corrupted images**, {where}: thresholds set for {SHOWN} members on clean images spend "
            f"{before['cost']:.2f} on clean and {after['cost']:.2f} on corrupted ones, with answers "
            f"{gain(after['against all members'])} points from those of all members. Over {names.title(MARGIN)} at "
            f"the same cost {LEARNED[policy]} gains {ahead(corrupted)}."
        )
    return f"{said} {promises_made(about['promises on held-out samples'])}{promises_on_fresh_splits(slug, about)}"


def promises_made(found: dict[str, Any]) -> str:
    """Whether risks that were promised on held-out images are kept on test images as they are, and under corruption."""
    risks = [rows for by_policy in found.values() for rows in by_policy.values() if "risk" in rows["clean"]["wish"]]
    clean = [rows["clean"] for rows in risks]
    corrupted = [row for rows in risks for name, row in rows.items() if name != "clean"]
    worst = max(corrupted, key=lambda row: row["realised"] / row["wish"]["risk"])
    return (
        f"A risk promised on held-out images is kept in {kept(clean)} cases on clean test images and in "
        f"{kept(corrupted)} on corrupted ones, for which nothing was promised: up to {worst['realised']:.2%} there, "
        f"where {worst['wish']['risk']:.2%} was asked for."
    )


def promises_on_fresh_splits(slug: str, about: dict[str, Any]) -> str:
    splits = about.get("promises on fresh splits")
    if splits is None:
        return ""
    rows = [row for rows in splits["policies"].values() for row in rows]
    risks, drops = ([row for row in rows if kind in row["wish"]] for kind in ("risk", "max_drop"))
    of = "of wrong and right labels together" if wrong_labels(slug) else "of clean images"
    return (
        f" On fresh splits {of}, which share samples, a risk promised at {splits['confidence']:.0%} is kept in "
        f"{kept(risks)} calibrations; a largest drop is an estimate, kept in {kept(drops)}."
    )


def kept(rows: list[dict[str, Any]]) -> str:
    return f"{sum(row['kept'] for row in rows)} of {sum(row['calibrations'] - row['refused'] for row in rows)}"


def corruption_table(about: dict[str, Any]) -> str:
    """What thresholds set for 1.3 members on clean held-out images cost and lose elsewhere."""
    first = about["sets"]["clean"]["asked"][SHOWN]
    shown = [name for name in (MARGIN, "change", learned(about)) if name in first]
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
