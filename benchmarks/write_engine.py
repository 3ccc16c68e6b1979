"""Write docs/engine.md and its figure from the JSON files in docs/benchmarks.

    python benchmarks/write_engine.py [--check]

`--check` writes nothing and fails if the document does not say what the files say.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from documents import ROOT, filled, write_or_check

from irene.runtime.bench_picture import growth_picture

HERE = Path(__file__).resolve().parent
DOCS = ROOT / "docs"
FILES = ("engine-h200", "engine-cpu", "cpu-backends", "growth-cpu")
MODES = {"single": "one member", "full": "whole", "plain": "plain", "engine": "engine", "stream": "stream"}


def main() -> None:
    gpu, engine, backends, growth = (json.loads((DOCS / f"benchmarks/{name}.json").read_text()) for name in FILES)
    parts = {
        "gpu_hardware": machine(gpu["hardware"]),
        "gpu_rows": mode_table(gpu["rows"]),
        "gpu_overhead": f"{100 * max(row['share'] for row in gpu['overhead'] if row['fuse']):.1f} %",
        "cpu_hardware": machine(engine["hardware"]),
        "cpu_rows": mode_table(engine["rows"]),
        "cpu_backends": backend_table(backends["rows"]),
        "int8_accuracy": int8_accuracy(backends["accuracy"]),
        "flat": flat(growth["flat"][0]),
    }
    write_or_check({DOCS / "engine.md": filled(HERE / "engine.md.in", parts)}, "benchmarks/write_engine.py")
    growth_picture(growth["growth"]).savefig(DOCS / "benchmarks/growth-cpu.svg", metadata={"Date": None})


def flat(row: dict[str, Any]) -> str:
    first, last = row["bytes_in_course"][0] / 2**20, row["bytes_in_course"][-1] / 2**20
    samples, speed = row["samples"] / 1e6, row["samples_per_s"] / 1e6
    size = f"{samples:.1f} million samples through tiny members: {speed:.2f} million a second,"
    return f"{size}\n{first:,.0f} MiB held at the beginning and {last:,.0f} MiB at the end."


def machine(hardware: dict[str, Any]) -> str:
    place = hardware["gpu"] or f"{hardware['cpu']}, {hardware['threads']} threads"
    return f"{place}, torch {hardware['torch']}"


def mode_table(rows: list[dict[str, Any]]) -> str:
    """Images a second in every mode, then speed-up, limit and ratio of the engines: one line a backend and batch."""
    lines = [
        f"| backend | batch | {' | '.join(MODES.values())} | limit | ratio: plain | engine | stream |",
        "|---|---|" + "---|" * (len(MODES) + 4),
    ]
    settings = dict.fromkeys((row["backend"], row["batch"]) for row in rows)
    for backend, batch in settings:
        found = {row["mode"]: row for row in rows if (row["backend"], row["batch"]) == (backend, batch)}
        speeds = " | ".join(f"{found[mode]['images_per_s']:,.0f}" for mode in MODES)
        ratios = " | ".join(f"{found[mode]['ratio']:.2f}" for mode in ("plain", "engine", "stream"))
        lines.append(f"| {backend} | {batch} | {speeds} | {found['stream']['limit']:.2f} | {ratios} |")
    return "\n".join(lines)


def backend_table(rows: list[dict[str, Any]]) -> str:
    batches = sorted({row["batch"] for row in rows})
    lines = [
        "| model | backend | " + " | ".join(f"batch {batch} | x eager" for batch in batches) + " |",
        "|---|---|" + "---|" * (2 * len(batches)),
    ]
    for model, backend, precision in dict.fromkeys((row["model"], row["backend"], row["precision"]) for row in rows):
        found = {
            row["batch"]: row
            for row in rows
            if (row["model"], row["backend"], row["precision"]) == (model, backend, precision)
        }
        cells = " | ".join(f"{found[batch]['images_per_s']:,.0f} | {found[batch]['speedup']:.1f}" for batch in batches)
        lines.append(f"| {model} | {backend} {precision} | {cells} |")
    return "\n".join(lines)


def int8_accuracy(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| int8 on digits, thresholds set again | accuracy, fp32 | int8 | same label | same members used |",
        "|---|---|---|---|---|",
    ]
    keys = ("accuracy_fp32", "accuracy_int8", "same_labels", "same_members_used")
    lines += [f"| {row['backend']} | " + " | ".join(f"{100 * row[key]:.1f} %" for key in keys) + " |" for row in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
