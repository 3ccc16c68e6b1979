"""The cells of a table, and what its columns hold: numbers or text."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from irene.errors import DataError

LARGEST = float(np.finfo(np.float32).max)  # features are float32
MISSING = frozenset({"", "?", "n/a", "na", "nan", "null", "none"})


@dataclass(frozen=True)
class Cells:
    """A table of text cells, or a piece of one, with a name for every column."""

    path: Path
    names: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    lines: Sequence[int] = ()
    """The file's line for every row, where it has lines."""
    before: int = 0
    """How many rows of the table come before these."""

    def column(self, name: str) -> list[str]:
        position = self.names.index(name)
        return [row[position] for row in self.rows]

    def place(self, row: int, name: str) -> str:
        """Where a cell is, for an error message."""
        line = f" (line {self.lines[row]})" if self.lines else ""
        return f"{self.path}, row {self.before + row + 1}{line}, column {name!r}"


def read_cells(path: Path) -> Cells:
    """The rows of a comma-separated file whose first line names the columns."""
    if not path.is_file():
        raise DataError(f"{path} is not a file: expected a comma-separated file with a line of column names")
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            names = tuple(name.strip() for name in next(reader, []))
            for row in reader:
                if not row:
                    continue
                if len(row) != len(names):
                    raise DataError(
                        f"{path}, line {reader.line_num}: expected {len(names)} cells, one per column, got {len(row)}"
                    )
                rows.append([cell.strip() for cell in row])
                lines.append(reader.line_num)
    except (csv.Error, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as comma-separated UTF-8 text: {error}") from error
    if not rows:
        raise DataError(f"{path} has no rows: expected a line of column names and one line per sample")
    check_names(path, names)
    return Cells(path, names, rows, lines)


def check_names(path: Path, names: Sequence[str]) -> None:
    """Refuse a table in which a column cannot be told by its name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or "" in names:
        what = f"the column name {twice[0]!r} twice" if twice and twice[0] else "a column without a name"
        raise DataError(f"{path} has {what}: give every column a name of its own")


def as_number(cell: str) -> float | None:
    """The number in a cell, or None for text."""
    try:
        # float() also takes 1_000, which no table means.
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def is_missing(cell: str) -> bool:
    return cell.lower() in MISSING


def meaning(cell: str) -> str | float | None:
    """What a cell says, however it is written: 1 and 1.0 are the same, true and True, and all marks of nothing."""
    if is_missing(cell):
        return None
    number = as_number(cell)
    if number is not None:
        return number
    return cell.lower() if cell.lower() in ("true", "false") else cell


def holds_text(cells: Cells, name: str) -> bool:
    """Whether at least half of a column's values are text."""
    present = [cell for cell in cells.column(name) if not is_missing(cell)]
    if not present:
        raise DataError(f"{cells.path}, column {name!r} has no values: remove the column")
    return 2 * sum(as_number(cell) is None for cell in present) >= len(present)


def numbers(cells: Cells, name: str) -> list[float]:
    """A column of numbers; a cell that is empty, not finite or text is an error that names it."""
    values = []
    for row, cell in enumerate(cells.column(name)):
        value = as_number(cell)
        if is_missing(cell):
            raise DataError(f"{cells.place(row, name)}: the value is missing; fill it in or remove the row")
        if value is None or not abs(value) <= LARGEST:  # NaN compares false
            raise DataError(f"{cells.place(row, name)}: expected a number, got {cell!r}; correct or remove it")
        values.append(value)
    return values
