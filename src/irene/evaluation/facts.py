"""What a run's files say of how it came to be, for reading."""

from __future__ import annotations

import json
from typing import Any

from irene.numbers import plain
from irene.run import Run
from irene.types import Cost


def learning(run: Run) -> dict[str, list[float]]:
    """The training loss of each model by epoch, as metrics.jsonl has it; empty without that file."""
    return {
        stage: [record.get("base", record["loss"]) for record in records]
        for stage, records in run.epochs().items()
        if stage != "selector"  # whose loss is of another kind
    }


def facts(run: Run) -> dict[str, str]:
    """What it takes to run it again, as text."""
    about = run.manifest
    data, environment, policy = about["data"], about["environment"], about["policy"]["name"]
    sizes = ", ".join(f"{count:,} {split}" for split, count in data["sizes"].items())
    found = {
        "run": str(run.path),
        "command": about.get("command", ""),
        "method": run.method,
        "members": ", ".join(about["backbones"]),
        "parameters": f"{sum(cost.parameters for cost in (*run.costs, run.gate_cost or Cost())):,}",
        "data": f"{data['data']} ({sizes})",
        "fingerprint": data["fingerprint"],
        "seed": str(about["seed"]),
        "options": ", ".join(f"{key}={value}" for key, value in flatten(about["options"]).items()),
        "policy": policy if policy == "never" else f"{policy}, threshold {plain(about['policy']['threshold'])}",
        "versions": f"irene {environment['irene']}, torch {environment['torch']}, Python {environment['python']}",
        "commit": environment.get("commit") or "",
        "begun": environment["begun"],
        "took": f"{about['seconds']:,.0f} s",
        "notes": " ".join(about["notes"]),
    }
    return {key: value for key, value in found.items() if value}


def flatten(values: dict[str, Any]) -> dict[str, str]:
    """Nested options as dotted names, for reading."""
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": shown for inner, shown in flatten(value).items()}
        else:
            flat[key] = json.dumps(value)
    return flat
