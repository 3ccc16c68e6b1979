"""Cells of CSV files: what is read, what is a number, and where an error is."""

from __future__ import annotations

from pathlib import Path

import pytest

from irene.data.cells import as_number, holds_text, numbers, read_cells
from irene.errors import DataError


def write(tmp_path: Path, text: str, encoding: str = "utf-8") -> Path:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_quotes_blank_lines_and_byte_order_marks(tmp_path: Path) -> None:
    cells = read_cells(write(tmp_path, '\ufeffa, b\r\n1,"x, y"\r\n\r\n2,"two\nlines"\r\n'))
    assert cells.names == ("a", "b")
    assert cells.rows == [["1", "x, y"], ["2", "two\nlines"]]
    assert cells.place(1, "b").endswith("row 2 (line 5), column 'b'")


@pytest.mark.parametrize(
    ("cell", "number"),
    [("1", 1.0), ("-2.5e3", -2500.0), ("1_000", None), ("red", None), ("", None), ("1,5", None)],
)
def test_numbers_in_cells(cell: str, number: float | None) -> None:
    assert as_number(cell) == number


def test_a_column_is_text_when_half_of_it_is(tmp_path: Path) -> None:
    cells = read_cells(write(tmp_path, "a,b,c\n1,x,x\n2,2,2\n3,y,3\n4,4,4\n"))
    assert [holds_text(cells, name) for name in "abc"] == [False, True, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows"),
        ("a,b\n", "has no rows"),
        ("a,b\n1,2\n1,2,3\n", r"line 3: expected 2 cells, one per column, got 3"),
        ("a,a\n1,2\n", "the column name 'a' twice"),
        ("a,\n1,2\n", "a column without a name"),
        ('a,b\n1,"2\n', "cannot be read as comma-separated"),
    ],
)
def test_files_that_are_no_table_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_cells(write(tmp_path, text))


def test_other_encodings_and_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"t\.csv cannot be read as comma-separated UTF-8"):
        read_cells(write(tmp_path, "a,b\nü,1\n", "latin-1"))
    with pytest.raises(DataError, match=r"gone\.csv is not a file"):
        read_cells(tmp_path / "gone.csv")


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("red", r"row 2 \(line 3\), column 'a': expected a number, got 'red'"),
        ("", r"row 2 \(line 3\), column 'a': the value is missing"),
        ("NaN", r"row 2 \(line 3\), column 'a': the value is missing"),
        ("inf", "expected a number, got 'inf'"),
        ("1e39", "expected a number, got '1e39'"),
    ],
)
def test_a_cell_that_is_no_number_is_placed(tmp_path: Path, cell: str, message: str) -> None:
    cells = read_cells(write(tmp_path, f"a,b\n1,1\n{cell},1\n3,1\n"))
    with pytest.raises(DataError, match=message):
        numbers(cells, "a")


def test_a_column_without_values_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 'b' has no values"):
        holds_text(read_cells(write(tmp_path, "a,b\n1,\n2,NA\n")), "b")
