"""Promises of a risk or a drop: how often they are kept on fresh splits, and what is left of them under corruption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from promises import CONFIDENCE, realised, resplit, summarise, words
from scipy.stats import binom

from irene.bank import Bank
from irene.calibration.selection import Fitter
from irene.data.fingerprint import tensor_digest
from irene.errors import CalibrationError
from irene.fitting import fit_policy
from irene.halting.policy import Policy
from irene.halting.rule import Aggregation
from irene.training.afterwards import selector_fitter
from irene.types import CostUnit

WISHES: tuple[dict[str, Any], ...] = ({"risk": 0.005}, {"risk": 0.01}, {"max_drop": 0.0025}, {"max_drop": 0.005})
SHOWN = 0.05  # how unlikely chance must be for a broken promise to count as shown
Entry = dict[str, Any]


def remembering(fit: Fitter) -> Fitter:
    """The same fitter, which does not fit again for the samples it was given last."""
    last: dict[str, Policy] = {}

    def fitted(bank: Bank, aggregation: Aggregation, unit: CostUnit) -> Policy:
        key = tensor_digest(bank.outputs, bank.targets)
        if key not in last:
            last.clear()
            last[key] = fit(bank, aggregation, unit)
        return last[key]

    return fitted


def fitters() -> dict[str, str | Fitter]:
    return {"margin": "margin", "change": "change", "selector": remembering(selector_fitter())}


def promise(
    calibration: Bank, looked_at: Mapping[str, Bank], wish: dict[str, Any], policy: str | Fitter, **how: Any
) -> dict[str, Entry]:
    """Calibrate for a wish, and see what it gives on other samples."""
    about = {"wish": wish, "samples": len(calibration)}
    try:
        point = fit_policy(calibration, policy, confidence=CONFIDENCE, **how, **wish)
    except CalibrationError as error:
        return {name: {**about, "refused": str(error)} for name in looked_at}
    return {
        name: {**about, "unseen": len(bank), **realised(point, bank, dict(wish))} for name, bank in looked_at.items()
    }


def on_fresh_splits(runs: Sequence[tuple[Bank, Bank]], splits: int, *, weights: bool) -> dict[str, Any]:
    """How often promises of each policy are kept, over runs and random splits of held-out and test samples."""
    entries: dict[str, list[Entry]] = {}
    for banks in runs:
        for seed in range(splits):
            calibration, unseen = resplit(banks, seed)
            for name, policy in fitters().items():
                for wish in WISHES:
                    found = promise(calibration, {"": unseen}, wish, policy, seed=seed, weights=weights)
                    entries.setdefault(name, []).append(found[""])
    return {
        "confidence": CONFIDENCE,
        "splits": splits,
        "policies": {
            name: [{**summarise(mine, wish), "shown broken": shown_broken(mine, wish)} for wish in WISHES]
            for name, mine in entries.items()
        },
    }


def shown_broken(entries: Sequence[Entry], wish: dict[str, Any]) -> int | None:
    """How many realised risks are too high for chance; None for a drop, of which nothing is promised."""
    if "risk" not in wish:
        return None
    mine = [entry for entry in entries if entry["wish"] == wish and "refused" not in entry]
    events = ((round(entry["risk"] * entry["unseen"]), entry["unseen"]) for entry in mine)
    return sum(float(binom.sf(count - 1, samples, wish["risk"])) < SHOWN for count, samples in events)


def under_corruption(runs: Sequence[tuple[Bank, Mapping[str, Bank]]], *, weights: bool) -> dict[str, Any]:
    """What promises made with held-out samples give on each set of images: by wish, policy and set, over runs."""
    found: dict[str, Any] = {}
    for heldout, sets in runs:
        for name, policy in fitters().items():
            for wish in WISHES:
                for images, entry in promise(heldout, sets, wish, policy, weights=weights).items():
                    found.setdefault(words(wish), {}).setdefault(name, {}).setdefault(images, []).append(entry)
    return {
        wish: {
            name: {images: summarise(entries, entries[0]["wish"]) for images, entries in by_set.items()}
            for name, by_set in by_policy.items()
        }
        for wish, by_policy in found.items()
    }


def promises_markdown(found: dict[str, Any]) -> str:
    parts = [corruption_table(wish, by) for wish, by in found["promises on held-out samples"].items()]
    if "promises on fresh splits" in found:
        parts.append(splits_table(found["promises on fresh splits"], found["runs"]))
    return "\n\n".join(parts)


def corruption_table(wish: str, by_policy: dict[str, Any]) -> str:
    """One wish: what came of it on each set of images, in bold where that is more than was asked for."""
    lines = [
        f"Asked for {wish}, on held-out samples: what came of it on these images, at which mean cost in members.",
        "",
        "| images | " + " | ".join(by_policy) + " |",
        "|---" * (len(by_policy) + 1) + "|",
    ]
    for images in next(iter(by_policy.values())):
        lines.append(f"| {images} | " + " | ".join(cell(by[images]) for by in by_policy.values()) + " |")
    return "\n".join(lines)


def cell(row: dict[str, Any]) -> str:
    if "realised" not in row:
        return "refused"
    (limit,) = row["wish"].values()
    shown = f"{row['realised']:.2%}"
    return (f"**{shown}**" if row["realised"] > limit else shown) + f" at {row['cost']:.2f}"


def splits_table(about: dict[str, Any], runs: int) -> str:
    lines = [
        f"Fresh splits, {about['splits']} of each of {runs} runs, promises of a risk at {about['confidence']:.0%}.",
        "",
        "| asked for | policy | realised, mean | realised, worst | kept | shown broken | mean cost in members |",
        "|---|---|---|---|---|---|---|",
    ]
    for index, wish in enumerate(WISHES):
        for name, rows in about["policies"].items():
            lines.append(f"| {words(wish)} | {name} | " + " | ".join(split_cells(rows[index])) + " |")
    return "\n".join(lines)


def split_cells(row: dict[str, Any]) -> list[str]:
    answered = row["calibrations"] - row["refused"]
    if not answered:
        return ["refused: too few samples to promise it", "", "", "", ""]
    kept = f"{row['kept']} of {answered}" + (f" ({row['refused']} refused)" if row["refused"] else "")
    broken = "" if row["shown broken"] is None else str(row["shown broken"])
    return [f"{row['realised']:.2%}", f"{row['worst']:.2%}", kept, broken, f"{row['cost']:.3f}"]
