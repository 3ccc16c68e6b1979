"""Figures as tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from irene.evaluation.table import Table as Comparison
from irene.evaluation.table_files import cells, heads
from irene.numbers import milliseconds, plain, si

_CLASSES = {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE"}
_GAP = 3  # between columns
_VALUES = {"rmse": "RMSE", "mae": "MAE", "r2": "R2"}


def figures_table(rows: Mapping[str, Mapping[str, Any]], *, title: str) -> Group:
    """One row a run: how good, at what cost; the utility where some run has one."""
    figures = list(rows.values())
    quality = _CLASSES if "accuracy" in figures[0] else _VALUES
    with_utility = any("utility" in row for row in figures)
    lines = [["", *quality.values(), "members", "FLOPs", "ms", *["utility"] * with_utility]]
    for name, row in rows.items():
        cells = [_quality(key, row[key]) for key in quality]
        cells += [f"{row['cost']:.2f} of {len(row['used'])}", si(row["flops"]), milliseconds(row["ms"])]
        lines.append([name, *cells, *[plain(row.get("utility"))] * with_utility])
    return _titled(title, Folding([[Text(cell) for cell in line] for line in lines]))


def comparison_tables(table: Comparison, *, width: int) -> list[Table]:
    """The table of a comparison, the best of each column in bold; columns beyond this width go on below."""
    rows = [[Text(head) for head in heads(table)]]
    for row in table.rows:
        rows.append(
            [
                Text.assemble((cell.text, "bold green" if cell.best else ""), f" ±{cell.spread}" if cell.spread else "")
                for cell in cells(table, row)
            ]
        )
    return _folded(rows, width)


class Folding:
    """A table that goes on below with the columns that a terminal has no room for beside the others.

    The first row has the heads, and the first columns, as many as `names`, name the rows of every part.
    """

    def __init__(self, rows: Sequence[Sequence[Text]], *, names: int = 1, gap: int = _GAP) -> None:
        self.rows, self.names, self.gap = rows, names, gap

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        for index, part in enumerate(_folded(self.rows, options.max_width, names=self.names, gap=self.gap)):
            yield from ("", part) if index else (part,)


def _folded(rows: Sequence[Sequence[Text]], width: int, *, names: int = 1, gap: int = _GAP) -> list[Table]:
    """Tables of this width or less, each with the names of the rows; the first row has the heads."""
    columns = [[row[index] for row in rows] for index in range(len(rows[0]))]
    parts = [columns[:names]]
    for column in columns[names:]:
        wide = sum(max(text.cell_len for text in one) + gap for one in (*parts[-1], column)) - gap
        if len(parts[-1]) > names and wide > width:
            parts.append(columns[:names])
        parts[-1].append(column)
    return [_of_columns(part, names, gap) for part in parts]


def _of_columns(columns: Sequence[Sequence[Text]], names: int, gap: int) -> Table:
    """A table of columns, each with its head first."""
    shown = _table(gap)
    for index, column in enumerate(columns):
        shown.add_column(column[0], justify="right" if index >= names else "left", no_wrap=True)
    for row in zip(*(column[1:] for column in columns), strict=True):
        shown.add_row(*row)
    return shown


def every_figure(figures: Mapping[str, Any], *, title: str) -> Group:
    """All figures of one run, one a line."""
    rows = []
    for name, value in figures.items():
        if name == "used":
            rows += [(f"used {count}", f"{share:.1%}") for count, share in enumerate(value, 1)]
        elif name == "flops":
            rows.append((name, si(value)))
        elif name == "ms":
            rows.append((name, milliseconds(value)))
        else:
            rows.append((name, _quality(name, value)))
    return pairs(rows, title=title)


def pairs(rows: Sequence[tuple[str, str]], *, title: str = "") -> Group:
    """Names with their values, side by side."""
    table = _table()
    table.show_header = False
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    return _titled(title, table)


def _table(gap: int = _GAP) -> Table:
    return Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))


def _titled(title: str, table: RenderableType) -> Group:
    # Text and not a string: names come from users and are no markup.
    return Group(*[Text(title, style="bold")] * bool(title), table)


def _quality(name: str, value: float | None) -> str:
    if name in ("accuracy", "top5") and value is not None:
        return f"{value:.2%}"
    return plain(value) if value is None or name == "cost" else f"{value:.4g}"
