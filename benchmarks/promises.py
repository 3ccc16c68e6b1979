"""What was asked of calibration against what came, on samples it has never seen.

    python benchmarks/promises.py NAME=RUN [NAME=RUN ...] [--seeds 5]

Each RUN is a folder with banks/heldout.safetensors and banks/test.safetensors: outputs on samples that no member was
trained on. For each seed they are put together and cut anew, a third to calibrate on and the others to look at what
came of it. Runs with the same NAME are one line of the table. The wishes are those of `irene calibrate`, the policy is
`auto`; latencies are asked for as multiples of one member's measured ms.

Writes benchmarks/results/promises.json and promises.md, and prints the latter.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from documents import write_results

from irene.bank import Bank
from irene.calibration.wishes import p99_of
from irene.errors import CalibrationError
from irene.fitting import fit_policy
from irene.halting.policies import Never
from irene.point import OperatingPoint

CONFIDENCE = 0.9
WISHES: tuple[dict[str, Any], ...] = (
    *({"cost": cost} for cost in (1.05, 1.1, 1.2, 1.3, 1.5, 2.0)),
    *({"cost": cost, "guaranteed": True} for cost in (1.1, 1.3)),
    *({"max_drop": drop} for drop in (0.001, 0.0025, 0.005, 0.01)),
    *({"p99": times} for times in (1.5, 2.5, 3.5)),  # in units of the dearest member's ms
    *({"risk": risk} for risk in (0.0025, 0.005, 0.01, 0.02)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("runs", metavar="NAME=RUN", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = list(dict.fromkeys(run.partition("=")[0] for run in arguments.runs))
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for run in arguments.runs:
        name, _, folder = run.partition("=")
        banks = [Bank.load(Path(folder) / "banks" / f"{split}.safetensors") for split in ("heldout", "test")]
        for seed in range(arguments.seeds):
            calibration, unseen = resplit(banks, seed)
            found[name] += [look(calibration, unseen, wish, seed) for wish in WISHES]
    summary = {name: [summarise(entries, wish) for wish in WISHES] for name, entries in found.items()}
    report = {"seeds": arguments.seeds, "confidence": CONFIDENCE, "summary": summary, "every": found}
    write_results("promises", report, [markdown(name, found[name], rows) for name, rows in summary.items()])


def resplit(banks: Sequence[Bank], seed: int) -> tuple[Bank, Bank]:
    """A third of all samples, and the others."""
    outputs, targets = (torch.cat([getattr(bank, field) for bank in banks]) for field in ("outputs", "targets"))
    everything = Bank.from_arrays(outputs, targets, costs=banks[0].costs, task=banks[0].task)
    order = torch.randperm(len(everything), generator=torch.Generator().manual_seed(seed))
    cut = len(order) // 3
    return everything.rows(order[:cut]), everything.rows(order[cut:])


def look(calibration: Bank, unseen: Bank, wish: dict[str, Any], seed: int) -> dict[str, Any]:
    """Calibrate for a wish, and see what it gives on other samples."""
    asked = dict(wish)
    if "p99" in wish:
        asked["p99"] = wish["p99"] * max(cost.ms for cost in unseen.costs)
    samples = {"samples": len(calibration), "unseen": len(unseen)}
    try:
        point = fit_policy(calibration, "auto", confidence=CONFIDENCE, seed=seed, **asked)
    except CalibrationError as error:
        return {"wish": wish, **samples, "refused": str(error)}
    return {"wish": wish, **samples, "policy": point.policy.name, **realised(point, unseen, asked)}


def realised(point: OperatingPoint, unseen: Bank, asked: dict[str, Any]) -> dict[str, Any]:
    """Cost, accuracy, drop and risk against the whole ensemble, and latency, on samples calibration has not seen."""
    bank = unseen.members(point.members)
    prediction = bank.replay(point.policy, point.aggregation)
    right = prediction.labels == unseen.targets
    mean = point.aggregation if len(point.members) == unseen.steps else None
    whole = unseen.replay(Never(), mean).labels == unseen.targets
    ms = prediction.cost_in(bank.costs, "ms")
    figures = {
        "cost": float(prediction.cost.mean()),
        "expected cost": point.expected["cost"],
        "accuracy": float(right.double().mean()),
        "expected accuracy": point.expected["accuracy"],
        "drop": float((whole.double() - right.double()).mean()),
        "risk": float((whole & ~right).double().mean()),
        "p99": p99_of(ms),
    }
    if "p99" in asked:
        figures["late"] = float((ms > asked["p99"]).double().mean())
    return figures


def summarise(entries: Sequence[dict[str, Any]], wish: dict[str, Any]) -> dict[str, Any]:
    """One wish over all runs and seeds: what came on average and at worst, and how often it was kept."""
    mine = [entry for entry in entries if entry["wish"] == wish]
    answered = [entry for entry in mine if "refused" not in entry]
    row: dict[str, Any] = {"wish": wish, "calibrations": len(mine), "refused": len(mine) - len(answered)}
    if not answered:
        return row
    kind, value = next(iter(wish.items()))
    figure = {"cost": "cost", "max_drop": "drop", "p99": "late", "risk": "risk"}[kind]
    limit = 0.01 if kind == "p99" else value
    values = [entry[figure] for entry in answered]
    exact = kind == "cost" and "guaranteed" not in wish
    worst = max(values, key=lambda one: abs(one - limit)) if exact else max(values)
    return row | {
        "figure": figure,
        "realised": fmean(values),
        "worst": worst,
        "kept": None if exact else sum(one <= limit for one in values),
        "cost": fmean(entry["cost"] for entry in answered),
        "drop": fmean(entry["drop"] for entry in answered),
    }


def markdown(name: str, entries: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        f"### {name}: calibrated on {entries[0]['samples']:,} samples, looked at on {entries[0]['unseen']:,} others",
        "",
        "| asked for | realised, mean | realised, worst | kept | mean cost | mean drop |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        wanted = words(row["wish"])
        answered = row["calibrations"] - row["refused"]
        if not answered:
            lines.append(f"| {wanted} | refused: too few samples to promise it | | | | |")
            continue
        kept = "" if row["kept"] is None else f"{row['kept']} of {answered}"
        if row["refused"]:
            kept += f" ({row['refused']} refused)"
        shown = [shape(row["figure"], row[key]) for key in ("realised", "worst")]
        lines.append(f"| {wanted} | {shown[0]} | {shown[1]} | {kept} | {row['cost']:.3f} | {row['drop']:.2%} |")
    return "\n".join(lines)


def words(wish: dict[str, Any]) -> str:
    kind, value = next(iter(wish.items()))
    if kind == "cost":
        return f"cost {value:g}" + (f", guaranteed at {CONFIDENCE:.0%}" if "guaranteed" in wish else "")
    if kind == "p99":
        return f"p99 of {value:g} members' ms, at {CONFIDENCE:.0%}"
    return f"{kind.replace('_', ' ')} {value:.2%}" + (f", at {CONFIDENCE:.0%}" if kind == "risk" else "")


def shape(figure: str, value: float) -> str:
    return f"{value:.3f}" if figure == "cost" else f"{value:.2%}" + (" late" if figure == "late" else "")


if __name__ == "__main__":
    main()
