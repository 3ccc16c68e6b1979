"""Tables keep every figure, whatever the width of the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from irene.cli.tables import figures_table

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
