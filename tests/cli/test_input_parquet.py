"""Samples in parquet files: the same answers as for any other file that holds them."""

from __future__ import annotations

import csv
import datetime
import io
import re
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pyarrow import parquet
from torch import Tensor

from irene.cli.inputs import read_rows
from irene.errors import DataError
from irene.run import Run

CATEGORIES = {"flag": ["", "false", "true"], "code": ["1", "2.50", "NA", "x"], "day": ["2024-02-29", "never"]}
ABOUT = {
    "shape": (10,),
    "columns": [{"name": "size", "categories": None}]
    + [{"name": name, "categories": found} for name, found in CATEGORIES.items()],
}
Irene = Callable[..., Any]


def test_parquet_in_and_out(irene: Irene, run_folder: Path, files: Path, tmp_path: Path) -> None:
    inputs = np.load(files / "points.npz")["x"].astype(np.float32)
    parquet.write_table(pyarrow.table({"note": ["-"] * 240, "x": list(inputs)}), tmp_path / "in.parquet")
    text = irene("predict", run_folder, files / "points.npz", "--probs").out
    out = tmp_path / "out.parquet"
    done = irene("predict", run_folder, tmp_path / "in.parquet", "--probs", "--out", out, "--batch-size", "3")
    assert (done.code, done.out) == (0, "")
    found = parquet.read_table(out).to_pylist()
    expected = list(csv.DictReader(io.StringIO(text)))
    assert list(found[0]) == list(expected[0])
    assert [row["row"] for row in found] == list(range(240))
    for name, kind in (("label", int), ("class", str), ("members_used", int)):
        assert [row[name] for row in found] == [kind(row[name]) for row in expected]
    assert [row["p_1"] for row in found] == pytest.approx([float(row["p_1"]) for row in expected], abs=2e-6)


def test_a_parquet_table_by_the_columns_of_training(irene: Irene, table_run: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("size,colour\n0.1,red\n2.2,blue\n2.5,violet\n")
    table = pyarrow.table({"colour": ["red", "blue", "violet"], "size": [0.1, 2.2, 2.5], "more": [1, 2, 3]})
    parquet.write_table(table, tmp_path / "new.parquet")
    expected = irene("predict", table_run, tmp_path / "new.csv", "--json").json["predictions"]
    found = irene("predict", table_run, tmp_path / "new.parquet", "--json").json["predictions"]
    assert [row | {"file": ""} for row in found] == [row | {"file": ""} for row in expected]
    parquet.write_table(table.set_column(0, "colour", [[b"red", b"blue", b"violet"]]), tmp_path / "bytes.parquet")
    found = irene("predict", table_run, tmp_path / "bytes.parquet", "--json").json["predictions"]
    assert [row | {"file": ""} for row in found] == [row | {"file": ""} for row in expected]


def read(path: Path) -> tuple[Tensor, list[str]]:
    """The inputs in a table and the warnings that came with them."""
    said: list[str] = []
    batches = [rows.inputs for rows in read_rows([path], ABOUT, batch_size=3, warn=said.append)]
    return torch.cat(batches), said


def outcome(path: Path) -> list[Any]:
    """What comes of reading a table, without the names of the file and of its lines, which only one format has."""
    try:
        inputs, said = read(path)
        found = [inputs.tolist()]
    except DataError as error:
        found, said = [], [str(error)]
    return found + sorted(re.sub(r" \(line \d+\)|^.*?(?=, row)", "", words) for words in said)


texts = st.text("01.truefalsTRNAx ?", max_size=5)
columns = {
    "size": st.sampled_from(
        [
            (pyarrow.float64(), st.floats(-1e6, 1e6)),
            (pyarrow.float32(), st.floats(-1e6, 1e6, width=32)),
            (pyarrow.int32(), st.integers(-1000, 1000)),
            (pyarrow.decimal128(9, 2), st.decimals(-999, 999, places=2)),
            (pyarrow.float64(), st.sampled_from([1.0, None, float("nan")])),
            (pyarrow.bool_(), st.booleans()),
            (pyarrow.string(), texts),
        ]
    ),
    "flag": st.sampled_from([(pyarrow.bool_(), st.none() | st.booleans()), (pyarrow.string(), st.none() | texts)]),
    "code": st.sampled_from(
        [
            (pyarrow.int64(), st.none() | st.integers(0, 3)),
            (pyarrow.float64(), st.none() | st.sampled_from([1.0, 2.0, 2.5])),
            (pyarrow.decimal128(5, 3), st.none() | st.sampled_from([Decimal("1.000"), Decimal("2.500")])),
            (pyarrow.string(), st.none() | texts),
        ]
    ),
    "day": st.sampled_from([(pyarrow.date32(), st.dates(datetime.date(2024, 2, 27), datetime.date(2024, 3, 1)))]),
}


@st.composite
def tables(draw: st.DrawFn) -> pyarrow.Table:
    rows = draw(st.integers(1, 8))
    drawn = {name: draw(column) for name, column in columns.items()}
    cells = {name: draw(st.lists(values, min_size=rows, max_size=rows)) for name, (_, values) in drawn.items()}
    return pyarrow.table({name: pyarrow.array(cells[name], kind) for name, (kind, _) in drawn.items()})


@settings(max_examples=150, deadline=None)
@given(table=tables())
def test_equal_tables_are_equal_inputs(table: pyarrow.Table) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "t.csv", Path(folder) / "t.parquet"
        with paths[0].open("w", newline="") as file:
            writer = csv.DictWriter(file, table.column_names)
            writer.writeheader()
            writer.writerows(table.to_pylist())
        parquet.write_table(table, paths[1])
        assert outcome(paths[1]) == outcome(paths[0])


def test_cells_of_every_type_find_their_category(tmp_path: Path) -> None:
    table = {
        "size": [Decimal("0.50"), Decimal("1.00"), Decimal("1.50")],
        "flag": [True, None, False],
        "code": [1.0, 2.5, None],
        "day": [datetime.date(2024, 2, 29)] * 3,
    }
    parquet.write_table(pyarrow.table(table), tmp_path / "t.parquet")
    inputs, said = read(tmp_path / "t.parquet")
    assert inputs.tolist() == [
        [0.5, 0, 0, 1, 1, 0, 0, 0, 1, 0],
        [1.0, 1, 0, 0, 0, 1, 0, 0, 1, 0],
        [1.5, 0, 1, 0, 0, 0, 1, 0, 1, 0],
    ]
    assert not said


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_categories_that_were_not_seen_are_told_once_a_column(
    irene: Irene, table_run: Path, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"new.{ending}"
    if ending == "csv":
        path.write_text("size,colour\n0.1,red\n2.2,violet\n2.5,pink\n")
    else:
        parquet.write_table(pyarrow.table({"size": [0.1, 2.2, 2.5], "colour": ["red", "violet", "pink"]}), path)
    done = irene("predict", table_run, path, path, "--batch-size", "1")
    assert done.code == 0
    (warning,) = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    assert "row 2" in warning
    assert "column 'colour': 'violet' was not seen in training and counts as no category" in warning


def test_parquet_with_images(irene: Irene, photo_run: Path, tmp_path: Path) -> None:
    paths = sorted((photo_run.parent / "photos").rglob("*.png"))
    contents = [path.read_bytes() for path in paths]
    pixels = [np.array(Image.open(path)).tolist() for path in paths]
    parquet.write_table(pyarrow.table({"image": contents}), tmp_path / "bytes.parquet")
    structs = [{"bytes": content, "path": None} for content in contents]
    parquet.write_table(pyarrow.table({"image": structs}), tmp_path / "structs.parquet")
    parquet.write_table(pyarrow.table({"x": pixels}), tmp_path / "lists.parquet")
    expected = [row["probability"] for row in irene("predict", photo_run, *paths, "--json").json["predictions"]]
    for name in ("bytes", "structs", "lists"):
        found = irene("predict", photo_run, tmp_path / f"{name}.parquet", "--json").json["predictions"]
        assert [row["probability"] for row in found] == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("shift", [0, 256, -1])
def test_whole_numbers_are_taken_as_in_an_npz_file(irene: Irene, photo_run: Path, tmp_path: Path, shift: int) -> None:
    shape = tuple(Run.open(photo_run).manifest["data"]["shape"])
    pixels = np.random.default_rng(0).integers(0, 2, (6, *shape)) * 100 + shift
    np.savez(tmp_path / "in.npz", x=pixels)
    parquet.write_table(pyarrow.table({"x": [image.ravel() for image in pixels]}), tmp_path / "in.parquet")
    expected, found = (
        irene("predict", photo_run, tmp_path / f"in.{ending}", "--json", "--probs").json["predictions"]
        for ending in ("npz", "parquet")
    )
    assert [row | {"file": ""} for row in found] == [row | {"file": ""} for row in expected]


def test_nested_lists_may_have_the_channels_last(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3))
    parquet.write_table(pyarrow.table({"x": images.tolist()}), tmp_path / "in.parquet")
    (rows,) = read_rows([tmp_path / "in.parquet"], {"shape": (3, 5, 6)}, batch_size=9, warn=print)
    assert rows.inputs.tolist() == np.moveaxis(images, -1, 1).tolist()


def test_parquet_files_that_do_not_fit(
    irene: Irene, run_folder: Path, table_run: Path, photo_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    for run, name, columns, words in (
        (run_folder, "names", {"a": [1.0]}, "has the columns a: expected x, of lists of numbers"),
        (run_folder, "short", {"x": [[1.0, 2.0]]}, "has samples of shape (2,), the run takes (5,)"),
        (run_folder, "ragged", {"x": [[1.0] * 5, [1.0]]}, "lists that are not samples of shape (5,)"),
        (run_folder, "hole", {"x": [[1.0] * 5, None]}, "row 2, column 'x': the value is missing"),
        (
            run_folder,
            "holes",
            {"x": [[1.0] * 5, [1.0, None, 1.0, 1.0, 1.0]]},
            "row 2, column 'x': the value is missing",
        ),
        (photo_run, "nested", {"x": [[[1.0, 2.0], [3.0, None]]]}, "row 1, column 'x': the value is missing"),
        (run_folder, "endless", {"x": [[1.0] * 5, [np.inf] * 5]}, "sample 2 has an input that is not a finite"),
        (run_folder, "none", {"x": pyarrow.array([], pyarrow.list_(pyarrow.float32()))}, "holds no samples"),
        (table_run, "column", {"size": [1.0]}, "has no column 'colour'"),
        (table_run, "cell", {"size": [1.0, None], "colour": ["red"] * 2}, "row 2, column 'size': the value is missing"),
        (
            table_run,
            "latin",
            {"size": [1.0], "colour": [b"\xff"]},
            "row 1, column 'colour': the bytes b'\\xff' are not UTF-8",
        ),
        (photo_run, "text", {"image": ["no bytes"]}, "must hold the bytes of an image file"),
        (photo_run, "noise", {"image": [b"no image"]}, "row 1: the image cannot be read as an image"),
    ):
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{name}.parquet")
        assert words in irene("predict", run, tmp_path / f"{name}.parquet").mistake
    twice = pyarrow.table([["red"], ["blue"], [1.0]], names=["colour", "colour", "size"])
    parquet.write_table(twice, tmp_path / "twice.parquet")
    mistake = irene("predict", table_run, tmp_path / "twice.parquet").mistake
    assert "has the column name 'colour' twice: give every column a name of its own" in mistake
    assert "cannot be read as a parquet file" in irene("predict", run_folder, tmp_path / "broken.parquet").mistake
    assert "name a file with --out" in irene("predict", run_folder, tmp_path, "--format", "parquet").mistake
