"""Tables keep every figure, whatever the width of the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from irene.cli.bench_output import row_table
from irene.cli.tables import figures_table
from irene.runtime.bench import Row

ROW = {
    "accuracy": 0.713,
    "nll": 2.115,
    "ece": 0.589,
    "cost": 1.25,
    "used": [0.75, 0.25, 0.0],
    "flops": 2.25e6,
    "ms": 0.02,
}


@pytest.mark.parametrize(("width", "tables"), [(80, 1), (40, 2), (20, 6)])
def test_columns_without_room_go_on_below(width: int, tables: int) -> None:
    shown = io.StringIO()
    Console(file=shown, width=width).print(figures_table({"heldout": ROW, "test": ROW}, title="average"))
    words = shown.getvalue().split()
    assert words.count("heldout") == words.count("test") == tables
    assert all(words.count(figure) == 2 for figure in ("71.30%", "2.115", "0.589", "1.25", "2.25M", "0.02"))


@pytest.mark.parametrize(("width", "tables"), [(80, 1), (60, 2), (40, 4)])
def test_every_part_of_a_table_names_its_rows_by_all_that_tells_them_apart(width: int, tables: int) -> None:
    row: Row = {
        "backend": "eager",
        "mode": "engine",
        "batch": 4096,
        "mean_cost": 1.25,
        "ms": 12.5,
        "images_per_s": 327680.0,
        "speedup": 2.11,
        "limit": 2.41,
        "ratio": 0.87,
    }
    shown = io.StringIO()
    Console(file=shown, width=width).print(row_table([row, {**row, "batch": 1}]))
    assert all(len(line) <= width for line in shown.getvalue().splitlines())
    words = shown.getvalue().split()
    assert words.count("4096") == words.count("1") == tables
    assert words.count("engine") == 2 * tables
    assert all(words.count(figure) == 2 for figure in ("1.25", "12.5", "327,680", "2.11", "2.41", "0.87"))
