"""What the results page says of members that learned from others: markdown of what collect.py found of them."""

from __future__ import annotations

from collections.abc import Sequence

from documents import table
from names import DISTILLED, number, seeds, title, trained

from pages.rows import Row, networks, select, spread, written

INTRODUCTION = """## What teaching gives

Accuracy in % of small networks that learned from labels and from three ResNet-18 (`distil`), beside independent ones of
as many epochs. Where the last column is empty none were trained as long, and what teaching gives there is not known."""


TEACHERS = """The teachers, one by one in the order they run in and averaged, beside independent networks of as many
epochs each and of the same seeds:"""


def section(found: Sequence[Row], teachers: Sequence[Row], rows: Sequence[Row]) -> str:
    """The section with its heading; nothing without a distillation."""
    if not found:
        return ""
    parts = [INTRODUCTION, taught_table(found, rows)]
    parts += [TEACHERS, teachers_table(teachers, rows)] if teachers else []
    return "\n\n".join(parts) + "\n\n"


def teachers_table(teachers: Sequence[Row], rows: Sequence[Row]) -> str:
    """Accuracy of the large ones of each distillation."""
    lines = []
    for about in teachers:
        independent = [networks(rows, about, about["backbone"], method) for method in ("single", "average")]
        lines.append(
            [
                f"{title(about['dataset'])}, {about['epochs']}",
                trained(about["training"]),
                str(about["seeds"]),
                ", ".join(map(percent, about["alone"])),
                percent(about["averaged"]),
                ", ".join(spread(same, "accuracy", 100) for same in independent if same),
            ]
        )
    return table(["data, epochs", "training", "seeds", "one by one", "averaged", "one, three independent"], lines)


def taught_table(found: Sequence[Row], rows: Sequence[Row]) -> str:
    """Accuracy of those who learned, beside independent ones."""
    lines = []
    for about in found:
        taught = "" if about["training"] == DISTILLED else f", {trained(about['training'])}"
        for key, how in (("alone", ""), ("averaged", ", averaged")) if about["count"] > 1 else (("alone", ""),):
            many = f"{number(about['count'])} {title(about['backbone'])}" if how else title(about["backbone"])
            lines.append(
                [
                    f"{title(about['dataset'])}, {about['epochs']}{taught}",
                    f"{many}{how}",
                    str(about["seeds"]),
                    percent(about[key]),
                    "" if how else independent(about, rows),
                ]
            )
    return table(["data, epochs", "network", "seeds", "taught", "independent"], lines)


def independent(about: Row, rows: Sequence[Row]) -> str:
    """The accuracy of one that learned from labels alone for as long, with the number of seeds where it is another."""
    found = select(rows, about["dataset"], about["backbone"], about["epochs"], "single")
    if about["training"] != DISTILLED or not found:
        return ""
    return spread(found, "accuracy", 100) + f" ({seeds(len(found))})" * (len(found) != about["seeds"])


def percent(about: Row) -> str:
    one = about["spread"]
    return written(100 * about["accuracy"], None if one is None else 100 * one)
