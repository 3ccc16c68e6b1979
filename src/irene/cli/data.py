"""`irene data`: what there is to train on, and what a data set holds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from irene.cli.options import share_or_count
from irene.cli.output import speaking
from irene.cli.params import Heldout, Json, Root, Size, Target, TaskName, sources
from irene.errors import some_of


def data(
    spec: Annotated[
        str | None,
        typer.Argument(
            metavar="SPEC", help="A source to describe; without one, all are listed.", autocompletion=sources
        ),
    ] = None,
    target: Target = None,
    task: TaskName = None,
    root: Root = None,
    size: Size = None,
    heldout: Heldout = None,
    seed: Annotated[int, typer.Option(help="Random seed that decides which samples are held out.")] = 0,
    json: Json = False,
) -> None:
    """List the sources of data, or describe one: shape, classes, sizes and balance of its splits."""
    from irene.cli.loading import Reading, load_data
    from irene.cli.tables import pairs
    from irene.data import describe, names

    with speaking(json) as output:
        if spec is None:
            listed = names()
            value: dict[str, Any] = {"sources": [{"name": name, "description": words} for name, words in listed]}
            table = pairs(listed)
        else:
            loaded = load_data(spec, Reading(target=target, task=task, root=root, size=size))
            value = describe(loaded, heldout=share_or_count(heldout), seed=seed)
            table = pairs(_lines(value), title=value["name"])
        output.result(value, lambda screen: screen.print(table))


def _lines(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """A description in words, one line a fact."""
    classes = summary["classes"]
    lines = [
        ("task", summary["task"]),
        ("shape", " x ".join(map(str, summary["shape"]))),
        ("classes" if summary["task"] == "classification" else "predicts", f"{len(classes)}: {some_of(classes, 12)}"),
        ("augmentation", _augmentation(summary["augment"])),
        ("fingerprint", summary["fingerprint"]),
    ]
    for split, size in summary["sizes"].items():
        words = f"{size:,} samples"
        counts = list(summary.get("balance", {}).get(split, {}).values())
        if counts:
            few, many = f"{min(counts):,}", f"{max(counts):,}"
            words += f", {few if few == many else f'{few} to {many}'} a class"
        ranges = summary.get("values", {}).get(split, {})
        for name, limits in ranges.items():
            words += f", {name} from {limits['min']:.4g} to {limits['max']:.4g}"
        lines.append((split, words))
    if "columns" in summary:
        lines.append(("columns", some_of([column["name"] for column in summary["columns"]], 12)))
    return lines


def _augmentation(augment: dict[str, Any]) -> str:
    parts = [f"crop within {augment['crop']} pixels"] if augment["crop"] else []
    return ", ".join(parts + ["mirror flip"] * augment["flip"]) or "none"
