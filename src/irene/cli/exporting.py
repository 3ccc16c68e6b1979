"""What `irene export` does with its flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from irene.cli.loading import Reading, load_data
from irene.cli.output import Output, say
from irene.cli.tables import pairs
from irene.data import Data, names
from irene.errors import OptionError
from irene.evaluation.banks import like_training
from irene.run import Run


def heldout_data(run: Run, spec: str | None, how: Reading, *, int8: bool) -> Data | None:
    """The data whose held-out samples int8 is calibrated on: the one named, or the run's if that is a bundled one."""
    if not int8:
        if spec is not None or how != Reading():
            raise OptionError("--data and how to read it are for --int8, which is calibrated on it: leave them out")
        return None
    if spec is None:
        spec = str(run.manifest["data"]["data"])
        if spec not in dict(names()):
            raise OptionError(f"--int8 is calibrated on the run's held-out samples: name its data ({spec}) with --data")
    return load_data(spec, how, like=like_training(run))


def show_export(run: Run, out: Path, manifest: dict[str, Any], output: Output) -> None:
    """Say what was written, and what int8 cost."""
    size = sum((out / file).stat().st_size for file in manifest["files"])
    changes = manifest.get("quantisation", {}).get("changes", {})
    value = {
        "run": str(run.path),
        "out": str(out),
        "format": manifest["runtime"],
        "precision": manifest["precision"],
        "members": len(manifest["members"]),
        "points": list(manifest["points"]),
        "bytes": size,
        "changes": changes,
        "left_out": manifest.get("left_out", {}),
    }
    rows = [
        ("members", f"{len(manifest['members'])} in {manifest['runtime']}, {manifest['precision']}"),
        ("points", ", ".join(manifest["points"]) or "none: a gate chooses the members"),
        ("size", f"{size / 1e6:.1f} MB"),
    ]
    rows += [(name, f"left out: {why}") for name, why in manifest.get("left_out", {}).items()]
    for name, change in changes.items():
        kept = "" if change["agreement"] is None else f", {change['agreement']:.2%} of answers the same"
        digits = ".2%" if change["figure"] == "accuracy" else ".4g"
        rows.append(
            (
                name,
                f"{change['figure']} {change['before']:{digits}} before int8, {change['after']:{digits}} after{kept}; "
                f"{change['cost_before']:.2f} members before, {change['cost_after']:.2f} after",
            )
        )

    def show(screen: Console) -> None:
        screen.print(pairs(rows, title=f"{run.path} in {out}"))
        line = f'python -c "from load_irene import load; print(load().points)"  # in {out}'
        words = f"\ntry it: {line}\nhow to use it: {out / 'README.md'}"
        say(screen, words)

    output.result(value, show)
