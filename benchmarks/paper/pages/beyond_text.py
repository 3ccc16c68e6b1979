"""What the results page says of corrupted images and of promises: benchmarks/results/beyond.json in, markdown out."""

from __future__ import annotations

from typing import Any

import names
from comparison import count_ahead, gain, span
from replay.beyond_promises import splits_table
from training.corruptions import AMOUNTS

SHOWN = "1.3"  # the cost whose rows are shown; beyond.md has the others
OWN, MARGIN = "own selector", "margin"
FRESH = "promises on fresh splits"
LEARNED = {OWN: "IRENE's selector", "selector": "A selector fitted on independent members"}
COMMON = (
    f"**Corrupted images and wrong labels.** Thresholds are set for {SHOWN} members on held-out images; where "
    "labels are wrong they are so in training and held-out, and right in test. Told are the cost on test images "
    "and how far the answers are from those of all members, in points; what learned stopping gains on "
    f"{names.title(MARGIN)} at the same cost; and how many promises are kept. A risk is promised for images like "
    "the held-out ones: not for corrupted ones, nor, where labels are wrong, for test images. Fresh splits share "
    "samples. A largest drop is an estimate."
)
SETS = ("clean", *(f"{kind}, all levels" for kind in AMOUNTS), *(f"{kind}-5" for kind in AMOUNTS), "all corruptions")


def section(found: dict[str, Any]) -> str:
    return "\n\n".join(of_setting(name, about) for name, about in found.items())


def of_setting(slug: str, about: dict[str, Any]) -> str:
    parts = [f"### {title(slug)}, {names.seeds(about['runs'])}", corruption_table(about)]
    if FRESH in about:
        parts += ["#### Promises on fresh splits", splits_table(about[FRESH], about["runs"])]
    return "\n\n".join(parts)


def title(slug: str) -> str:
    *dataset, backbone, method, epochs = slug.split("-")
    return f"{names.title('+'.join(dataset))}, {names.title(backbone)}, {method}, {epochs[1:]} epochs"


def learned(about: dict[str, Any]) -> str:
    """The learned policy that is told of: the runs' own selector, or one fitted on their members."""
    return OWN if OWN in about["sets"]["clean"]["asked"][SHOWN] else "selector"


def sentences(found: dict[str, Any]) -> list[str]:
    """What corruption does to the cost and to the answers, who is ahead there, and whether promises are kept."""
    return [sentence(slug, about) for slug, about in found.items()]


def in_short(found: dict[str, Any]) -> str:
    """Whether learned halting is the better one where confidence fails, and what promises are worth there."""
    if not found:
        return ""
    gains = {
        slug: about["sets"]["all corruptions"]["asked"][SHOWN][learned(about)]["gain at the same cost"]
        for slug, about in found.items()
    }
    noisy = [slug for slug in gains if "-noise" in slug]
    ahead, ahead_noisy = (count_ahead([gains[slug] for slug in slugs]) for slugs in (gains, noisy))
    where = " (with wrong labels)" * (0 < ahead == ahead_noisy and len(noisy) < len(gains))
    said = (
        f"On corrupted images, at {SHOWN}, it gains {span([*gains.values()])}, clearly in {ahead} of "
        f"{len(gains)}{where}."
    )
    fresh = [row for about in found.values() for row in fresh_rows(about, "risk")]
    corrupted = [row for about in found.values() for row in held_out_rows(about)[1]]
    like = f" in {kept(fresh)} cases," if fresh else ""
    return f"{said} Promised risks are kept{like} on corrupted images in {kept(corrupted)}."


def sentence(slug: str, about: dict[str, Any]) -> str:
    policy = learned(about)
    clean, corrupted = (about["sets"][name]["asked"] for name in ("clean", "all corruptions"))
    before, after = clean[SHOWN][policy], corrupted[SHOWN][policy]

    def ahead(asked: dict[str, Any]) -> str:
        return ", ".join(gain(here[policy]["gain at the same cost"]) for here in asked.values())

    return (
        f"**{title(slug)}** ({names.seeds(about['runs'])}): cost {before['cost']:.2f} on clean images, "
        f"{gain(before['against all members'])} from all members, and {after['cost']:.2f} on corrupted ones, "
        f"{gain(after['against all members'])}. {LEARNED[policy]} gains, asked for {', '.join(clean)}: {ahead(clean)} "
        f"on clean images, {ahead(corrupted)} on corrupted ones. {promises(about)}"
    )


def promises(about: dict[str, Any]) -> str:
    """How many risks are kept on fresh splits, and on test images as they are and under corruption."""
    clean, corrupted = held_out_rows(about)
    worst = max(corrupted, key=lambda row: row["realised"] / row["wish"]["risk"])
    risks, drops = (fresh_rows(about, kind) for kind in ("risk", "max_drop"))
    split = f"{kept(risks)} on fresh splits, at {about[FRESH]['confidence']:.0%}, " if risks else ""
    said = (
        f"Promised risks kept: {split}{kept(clean)} on clean test images and {kept(corrupted)} on corrupted ones, at "
        f"worst {worst['realised']:.2%} where {worst['wish']['risk']:.2%} was asked for."
    )
    return f"{said} Largest drops kept: {kept(drops)} on fresh splits." if drops else said


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
    lines = ["| images | all members % | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for name in SETS:
        here = about["sets"][name]
        asked = here["asked"][SHOWN]
        cells = [f"{asked[policy]['cost']:.2f}, {gain(asked[policy]['against all members'])}" for policy in shown]
        cells += [gain(asked[policy]["gain at the same cost"]) for policy in shown[1:]]
        lines.append(f"| {name} ({here['samples']:,}) | {100 * here['all members']:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
