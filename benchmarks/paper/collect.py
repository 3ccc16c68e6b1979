"""Turn the packed runs of the study into benchmarks/paper/results.json.

    python benchmarks/paper/collect.py DIR

DIR holds the unpacked tars that train.py left, one folder a run. Everything is a replay of banks: nothing is trained.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from irene.bank import Bank
from irene.calibration.fit import fit_policy
from irene.evaluation.evaluate import figures_of
from irene.evaluation.metrics import utility
from irene.halting.policies import Confidence
from irene.halting.policy import Policy
from irene.halting.rule import Aggregation
from irene.training.methods.woc import choose_threshold

HERE = Path(__file__).parent
HARDWARE = "NVIDIA H200, torch 2.11, bf16"
KEPT = ("accuracy", "cost", "flops", "nll", "ece")


def main() -> None:
    runs = [read(folder) for folder in sorted(Path(sys.argv[1]).iterdir()) if (folder / "run.json").exists()]
    rows = [row for run in runs for row in rows_of(run)]
    add_utilities(rows)
    training = {run["name"]: progress(run) for run in runs if run["method"] == "irene"}
    content = {"hardware": HARDWARE, "rows": rows, "training": training, "speed": speed(runs)}
    (HERE / "results.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"{len(rows)} rows of {len(runs)} runs")


def read(folder: Path) -> dict[str, Any]:
    manifest = json.loads((folder / "run.json").read_text())
    banks = {split: Bank.load(folder / "banks" / f"{split}.safetensors") for split in ("heldout", "test")}
    epochs = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {**manifest, "name": folder.name, "loaded": banks, "lines": epochs}


def rows_of(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The run itself and, for an average ensemble, the methods that share its members."""
    heldout, test = run["loaded"]["heldout"], run["loaded"]["test"]
    about = {
        "dataset": run["data"]["data"],
        "backbone": "+".join(run["backbones"]) if len(set(run["backbones"])) > 1 else run["backbones"][0],
        "members": len(run["backbones"]),
        "seed": run["seed"],
        "epochs": run["options"]["loop"]["epochs"],
        "train_s": round(run["seconds"], 1),
    }
    if run["method"] != "average":
        return [{**about, "method": label(run), **kept(run["figures"]["test"])}]

    def replayed(method: str, bank: Bank, policy: Policy | None = None, aggregation: Aggregation | None = None) -> Any:
        return {
            **about,
            "method": method,
            **kept(figures_of(bank.replay(policy, aggregation), bank.targets, bank.costs)),
        }

    margin = fit_policy(heldout, "margin", cost=1.3)
    change = fit_policy(heldout, "change", cost=1.3)
    return [
        replayed("single", test.members([0])) | {"train_s": round(run["seconds"] / about["members"], 1)},
        replayed("average", test),
        replayed("woc", test, Confidence(choose_threshold(heldout.trajectory(Confidence()), heldout.targets))),
        replayed("average, margin + temperature at 1.3", test, margin.policy, margin.aggregation),
        replayed("average, change predictor at 1.3", test, change.policy, change.aggregation),
    ]


def label(run: dict[str, Any]) -> str:
    own = run["options"]["method"]
    if run["method"] != "irene":
        return str(run["method"])
    parts = ["irene"]
    if own["recipe"] == "paper":
        parts.append("paper's recipe")
    elif own["cost_unit"] == "members":
        parts.append(f"at {own['cost']:g}")
    else:
        parts.append(f"at {own['cost'] / 1.11085e9:.2g} ResNet-18 FLOPs")
    if own["selector_data"] == "folds":
        parts.append("out-of-fold")
    return " ".join(parts)


def kept(figures: dict[str, Any]) -> dict[str, float]:
    return {key: figures[key] for key in KEPT}


def add_utilities(rows: list[dict[str, Any]]) -> None:
    """Utility against the mean single and average of the same setting."""
    means: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in rows:
        means[row["dataset"], row["backbone"], row["method"]].append(row["accuracy"])
    for row in rows:
        single = means.get((row["dataset"], row["backbone"], "single"))
        average = means.get((row["dataset"], row["backbone"], "average"))
        row["utility"] = None
        if single and average:
            reference = {"single": statistics.mean(single), "average": statistics.mean(average)}
            row["utility"] = utility(row["accuracy"], row["cost"], **reference)


def progress(run: dict[str, Any]) -> dict[str, Any]:
    """Seconds an epoch of each member, and S(t) and the expected cost over training."""
    stages: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in run["lines"]:
        if line["stage"].startswith("member"):
            stages[line["stage"]].append(line)
    wanted = ("S2", "S3", "S4", "expected_members", "price")
    return {
        stage: {
            "median_epoch_s": round(statistics.median(line["seconds"] for line in lines), 4),
            **{key: [round(line[key], 4) for line in lines] for key in wanted if key in lines[0]},
        }
        for stage, lines in stages.items()
    }


def speed(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Images a second and TFLOP/s of plain training, from the median epoch of each average run."""
    found = []
    for run in runs:
        if run["method"] != "average":
            continue
        seconds = statistics.median(line["seconds"] for line in run["lines"])
        batch = run["options"]["loop"]["batch_size"]
        images = run["data"]["sizes"]["train"] // batch * batch
        flops = run["loaded"]["test"].costs[0].flops
        found.append(
            {
                "run": run["name"],
                "epoch_s": round(seconds, 4),
                "images_per_s": round(images / seconds),
                "tflops": round(3 * flops * images / seconds / 1e12, 1),
            }
        )
    return found


if __name__ == "__main__":
    main()
