"""Write docs/engine.md and its figure from the JSON files in docs/benchmarks.

    python benchmarks/write_engine.py [--check]

`--check` writes nothing and fails if the document does not say what the files say.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from documents import ROOT, asked_to_check, filled, machine, table, write_or_check

from irene.pictures import rendered
from irene.runtime.bench_picture import growth_picture

HERE = Path(__file__).resolve().parent
DOCS = ROOT / "docs"
FILES = ("engine-h200", "engine-cpu", "cpu-backends", "growth-cpu")
GOALS = (
    ("stream", 1024, 0.95),
    ("stream", 256, 0.95),
    ("engine", 1024, 0.90),
    ("engine", 256, 0.80),
    ("engine", 1, 0.85),
)
SURVIVORS_MS = 0.29  # of one ResNet-18 in a bucket of 48, by the engine's table of costs on this card
MODES = {"single": "one member", "full": "whole", "plain": "plain", "engine": "engine", "stream": "stream"}


def main() -> None:
    check = asked_to_check(__doc__)
    gpu, engine, backends, growth = (json.loads((DOCS / f"benchmarks/{name}.json").read_text()) for name in FILES)
    parts = {
        "gpu_hardware": machine(gpu["hardware"]),
        "gpu_rows": mode_table(gpu["rows"]),
        "gpu_overhead": overheads(gpu["overhead"]),
        "gpu_equality": equality(gpu["equality"]),
        "gpu_bound": bound(gpu["rows"]),
        "gpu_goals": goals(gpu["rows"], gpu["overhead"]),
        "cpu_hardware": machine(engine["hardware"]),
        "cpu_rows": mode_table(engine["rows"]),
        "cpu_whole": whole_at_one(engine["rows"]),
        "int8_speed": int8_speed(engine["rows"]),
        "cpu_backends": backend_table(backends["rows"]),
        "int8_accuracy": int8_accuracy(backends["accuracy"]),
        "flat": flat(growth["flat"][0]),
    }
    written = {DOCS / "engine.md": filled(HERE / "engine.md.in", parts)}
    write_or_check(written, "benchmarks/write_engine.py", check=check)
    picture = growth_picture(growth["growth"])
    (DOCS / "benchmarks/growth-cpu.svg").write_bytes(rendered(picture, "svg"))


def overheads(rows: list[dict[str, Any]]) -> str:
    return " and ".join(f"{100 * row['share']:.1f} % ({row['policy']})" for row in rows if row["fuse"])


def goals(rows: list[dict[str, Any]], overhead: list[dict[str, Any]]) -> str:
    """Each goal beside what every policy reaches of it."""
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    lines = [f"| | goal | {' | '.join(policies)} |", "|---|---|" + "---|" * len(policies)]
    for mode, batch, goal in GOALS:
        found = {row["policy"]: row["ratio"] for row in rows if (row["mode"], row["batch"]) == (mode, batch)}
        cells = [f"{found[policy]:.3f}" if policy in found else "not measured" for policy in policies]
        lines.append(f"| {mode}, batch {batch}: ratio | {goal:.2f} | {' | '.join(cells)} |")
    shares = {row["policy"]: row["share"] for row in overhead if row["fuse"]}
    cells = [f"{100 * shares[policy]:.1f} %" for policy in policies]
    lines.append(f"| overhead on a member, batch 1024 | 2 % | {' | '.join(cells)} |")
    return "\n".join(lines)


def int8_speed(rows: list[dict[str, Any]]) -> str:
    """How many times as fast as eager the streams in int8 are."""
    speeds = {row["backend"]: row["images_per_s"] for row in rows if (row["mode"], row["batch"]) == ("stream", 64)}
    said = [f"{speeds[name] / speeds['eager']:.1f} times ({name})" for name in speeds if name.endswith("int8")]
    said[0] = f"In int8 and batches of 64, a stream answers {said[0]}"
    return f"{' and '.join(said)}\nas many images a second as with eager."


def whole_at_one(rows: list[dict[str, Any]]) -> str:
    """The most that the whole ensemble takes in batches of one, in times of one member."""
    ms = {(row["backend"], row["mode"]): row["ms"] for row in rows if row["batch"] == 1}
    return f"{max(ms[name, 'full'] / ms[name, 'single'] for name, mode in ms if mode == 'full'):.1f}"


def bound(rows: list[dict[str, Any]]) -> str:
    """What ratio members one after the other reach at 256, by what survivors take and by what one sample takes."""
    found = {(row["mode"], row["batch"]): row for row in rows if row["policy"] == "selector"}
    first, least = found["single", 256]["ms"], found["single", 1]["ms"]
    cost = found["engine", 256]["mean_cost"]
    alone, best = (cost * first / (first + 2 * later) for later in (SURVIVORS_MS, least))
    return textwrap.fill(
        f"At 256 some 40 survivors remain, for which a fused ResNet-18 needs {SURVIVORS_MS} ms and not the "
        f"{first * 40 / 256:.2f} ms of their share: few samples leave most of the card idle. Members one after the "
        f"other, with nothing between them, would reach {alone:.2f}; the engine exceeds that by running two at once. "
        f"Even if survivors took no longer than a single sample, {least:.2f} ms, the ratio would be {best:.2f}.",
        120,
    )


def equality(rows: list[dict[str, Any]]) -> str:
    """How many answers of the engines differ from those of the plain loop."""
    exact, networks = ([row for row in rows if (row["members"] == "exact") is kind] for kind in (True, False))
    unequal, policies = sum(row["unequal"] for row in exact), len({row["policy"] for row in exact})
    said = [
        "Both engines against `Cascade.predict` on this card: with members whose answers do not depend on the batch,",
        f"{unequal} of the answers under {policies} policies differ; with ResNet-18,",
    ]
    for backend in dict.fromkeys(row["backend"] for row in networks):
        found = [row for row in networks if row["backend"] == backend]
        members, labels = (100 * min(row[key] for row in found) for key in ("same_members", "same_labels"))
        precision = backend.partition(":")[2] or "fp32"
        said.append(
            f"in {precision} {members:.2f} % of samples use as many members and {labels:.2f} % get the same label,"
        )
    return "\n".join(said).removesuffix(",") + "."


def flat(row: dict[str, Any]) -> str:
    first, last = row["bytes_in_course"][0] / 2**20, row["bytes_in_course"][-1] / 2**20
    samples, speed = row["samples"] / 1e6, row["samples_per_s"] / 1e6
    size = f"{samples:.1f} million samples through tiny members: {speed:.2f} million a second,"
    return f"{size}\n{first:,.0f} MiB held at the beginning and {last:,.0f} MiB at the end."


def mode_table(rows: list[dict[str, Any]]) -> str:
    """Images a second in every mode, then speed-up, limit and ratio of the engines: one line a kind and batch."""
    heads = ["backend, policy", "batch", *MODES.values(), "limit", "ratio: plain", "engine", "stream"]
    lines = []
    kinds = [(f"{row['backend']}, {row['policy']}", row["batch"]) for row in rows]
    for kind, batch in dict.fromkeys(kinds):
        found = {row["mode"]: row for row, of in zip(rows, kinds, strict=True) if of == (kind, batch)}
        speeds = [f"{found[mode]['images_per_s']:,.0f}" for mode in MODES]
        ratios = [f"{found[mode]['ratio']:.2f}" for mode in ("plain", "engine", "stream")]
        lines.append([kind, str(batch), *speeds, f"{found['stream']['limit']:.2f}", *ratios])
    return table(heads, lines)


def backend_table(rows: list[dict[str, Any]]) -> str:
    batches = sorted({row["batch"] for row in rows})
    heads = ["model", "backend", *(head for batch in batches for head in (f"batch {batch}", "x eager"))]
    lines = []
    for model, backend, precision in dict.fromkeys((row["model"], row["backend"], row["precision"]) for row in rows):
        found = {
            row["batch"]: row
            for row in rows
            if (row["model"], row["backend"], row["precision"]) == (model, backend, precision)
        }
        lines.append([model, f"{backend} {precision}"])
        for batch in batches:
            lines[-1] += [f"{found[batch]['images_per_s']:,.0f}", f"{found[batch]['speedup']:.1f}"]
    return table(heads, lines)


def int8_accuracy(rows: list[dict[str, Any]]) -> str:
    heads = ["int8 on digits, thresholds set again", "accuracy, fp32", "int8", "same label", "same members used"]
    keys = ("accuracy_fp32", "accuracy_int8", "same_labels", "same_members_used")
    return table(heads, [[row["backend"], *(f"{100 * row[key]:.1f} %" for key in keys)] for row in rows])


if __name__ == "__main__":
    main()
