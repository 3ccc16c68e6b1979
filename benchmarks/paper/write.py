"""Write docs/results.md, docs/calibrate.md and the README's headline from the committed JSON files.

    python benchmarks/paper/write.py [--check]

`--check` writes nothing and fails if the documents do not say what the JSON files say.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAPER = {  # top-1 %, mean cost, utility of the paper's tables on CIFAR-10
    "resnet18": {
        "single": "94.94 at 1.00, 1.00",
        "average": "95.62 at 3.00, 1.00",
        "woc": "95.48 at 1.15, 2.10",
        "irene": "95.81 at 1.32, 3.10",
    },
    "resnet32": {
        "single": "93.10 at 1.00, 1.00",
        "average": "94.46 at 3.00, 1.00",
        "woc": "94.29 at 2.48, 1.05",
    },
}
HEADLINE = re.compile(r"(<!-- headline -->\n).*?(<!-- /headline -->)", re.DOTALL)


def main() -> None:
    study = json.loads((HERE / "results.json").read_text())
    policies = json.loads((ROOT / "benchmarks/results/policies.json").read_text())
    table = (ROOT / "benchmarks/results/policies.md").read_text()
    promises = (ROOT / "benchmarks/results/promises.md").read_text().strip()
    readme = ROOT / "README.md"
    written = {
        ROOT / "docs/results.md": results(study, table),
        ROOT / "docs/calibrate.md": filled("calibrate.md.in", {"promises": promises}),
        readme: HEADLINE.sub(lambda found: found[1] + headline(study, policies) + found[2], readme.read_text()),
    }
    if "--check" in sys.argv:
        stale = [str(path.relative_to(ROOT)) for path, text in written.items() if path.read_text() != text]
        sys.exit(f"out of date: {', '.join(stale)}; run python benchmarks/paper/write.py" if stale else 0)
    for path, text in written.items():
        path.write_text(text)


def headline(study: dict[str, Any], policies: dict[str, Any]) -> str:
    groups = grouped(study["rows"])
    unequal = policies["unequal"]["policies"]["selector"]
    lines = ["| | accuracy % (3 seeds) | cost |", "|---|---|---|"]
    lines.append(f"| one ResNet-18 | {spread(groups['resnet18', 'single'], 'accuracy', 100)} | 1.00 |")
    lines.append(f"| three ResNet-18, averaged | {spread(groups['resnet18', 'average'], 'accuracy', 100)} | 3.00 |")
    for cost in ("0.3", "0.5"):
        accuracy = 100 * unequal[cost]["accuracy"]
        lines.append(f"| **small-first cascade, learned halting** | **{accuracy:.2f}** | **{float(cost):.2f}** |")
    return "\n".join(lines) + "\n"


def results(study: dict[str, Any], policy_table: str) -> str:
    groups = grouped(study["rows"])
    parts = {
        "hardware": study["hardware"],
        "methods": method_table(groups),
        "small_first": small_first(groups),
        "policies": policy_table.replace("### ", "#### ").strip(),
        "speed": speed_table(study["speed"]),
        "ratios": ", ".join(f"t = {t}: {ratio:.2f}" for t, ratio in ratios(study["training"])),
        "halting": halting_table(study["training"]),
    }
    return filled("results.md.in", parts)


def filled(template: str, parts: dict[str, str]) -> str:
    text = (HERE / template).read_text()
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text


def method_table(groups: dict[tuple[str, str], list[dict[str, Any]]]) -> str:
    lines = [
        "| backbone | method | seeds | top-1 % | cost | utility | NLL | ECE | paper: top-1, cost, utility |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (backbone, method), rows in groups.items():
        if "+" in backbone:
            continue
        utility = spread(rows, "utility", 1)
        paper = PAPER[backbone].get(method.split(" ")[0] if method.startswith("irene at") else method, "")
        lines.append(
            f"| {backbone} | {method} | {len(rows)} | {spread(rows, 'accuracy', 100)} | {spread(rows, 'cost', 1)} "
            f"| {utility} | {spread(rows, 'nll', 1, 3)} | {spread(rows, 'ece', 1, 3)} | {paper} |"
        )
    return "\n".join(lines)


def small_first(groups: dict[tuple[str, str], list[dict[str, Any]]]) -> str:
    lines = ["| members | method | seeds | top-1 % | FLOPs of one ResNet-18 |", "|---|---|---|---|---|"]
    for (backbone, method), rows in groups.items():
        if "+" in backbone:
            flops = statistics.mean(row["flops"] for row in rows) / 1.11085e9
            names = backbone.replace("+", ", ")
            lines.append(f"| {names} | {method} | {len(rows)} | {spread(rows, 'accuracy', 100)} | {flops:.2f} |")
    return "\n".join(lines)


def speed_table(rows: list[dict[str, Any]]) -> str:
    by_backbone: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_backbone[row["run"].split("-")[1]].append(row)
    lines = ["| backbone, batch 512 | seconds an epoch | images/s | TFLOP/s |", "|---|---|---|---|"]
    for name, found in by_backbone.items():
        numbers = [statistics.median(row[key] for row in found) for key in ("epoch_s", "images_per_s", "tflops")]
        lines.append(f"| {name} | {numbers[0]:.2f} | {numbers[1]:,.0f} | {numbers[2]:.0f} |")
    return "\n".join(lines)


def ratios(training: dict[str, Any]) -> list[tuple[int, float]]:
    stages = training["cifar10-resnet18-irene-s0-e30"]
    first = stages["member-1"]["median_epoch_s"]
    return [(t, stages[f"member-{t}"]["median_epoch_s"] / first) for t in (2, 3)]


def halting_table(training: dict[str, Any]) -> str:
    stages = training["cifar10-resnet18-irene-s0-e30"]
    lines = [
        "| training | epoch | S(2) | S(3) | expected members | price |",
        "|---|---|---|---|---|---|",
    ]
    for stage in ("member-2", "member-3"):
        found = stages[stage]
        for epoch in (0, 9, 19, 29):
            third = f"{found['S3'][epoch]:.3f}" if "S3" in found else ""
            lines.append(
                f"| {stage} | {epoch + 1} | {found['S2'][epoch]:.3f} | {third} "
                f"| {found['expected_members'][epoch]:.3f} | {found['price'][epoch]:.3f} |"
            )
    return "\n".join(lines)


def grouped(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["backbone"], row["method"]].append(row)
    return groups


def spread(rows: list[dict[str, Any]], key: str, scale: float, digits: int = 2) -> str:
    """Mean and standard deviation over seeds."""
    values = [scale * row[key] for row in rows if row[key] is not None]
    if not values:
        return ""
    text = f"{statistics.mean(values):.{digits}f}"
    return f"{text} ± {statistics.pstdev(values):.{digits}f}" if len(values) > 1 else text


if __name__ == "__main__":
    main()
