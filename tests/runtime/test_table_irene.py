"""An exported run on a table takes the rows of such a table, and encodes them as irene does."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from irene.data import load
from irene.data.cells import Cells
from irene.data.samples import Column
from irene.data.table import encode as encode_cells
from irene.data.table import read_features
from irene.run import Run
from irene.runtime.export.folder import export
from irene.runtime.export.table_irene import encode
from irene.training.options import LoopOptions
from irene.training.train import TrainOptions, train

TEXTS = st.sampled_from(["brown", "white", "1", "1.0", "true", "True", "", "NA", "nan", "1_0", "other", " brown "])


def folder_of(columns: list[Column], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {"input": {"columns": [column.to_dict() for column in columns]}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@given(
    categories=st.lists(TEXTS.map(str.strip), min_size=1, max_size=5, unique=True),
    rows=st.lists(st.tuples(TEXTS, st.floats(-1e6, 1e6)), min_size=1, max_size=8),
)
def test_rows_become_the_numbers_they_become_in_irene(
    categories: list[str], rows: list[tuple[str, float]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    columns = [Column("colour", tuple(categories)), Column("weight")]
    cells = Cells(Path("table"), ("weight", "colour"), [[str(weight), colour.strip()] for colour, weight in rows])
    colours, weights = (list(column) for column in zip(*rows, strict=True))
    folder = folder_of(columns, tmp_path_factory.getbasetemp() / "encoded")
    found = encode({"weight": weights, "colour": colours, "more": []}, folder)
    assert found.dtype == np.float32
    assert np.array_equal(found, encode_cells(cells, columns).numpy())


def test_numbers_may_stand_where_texts_stood(tmp_path: Path) -> None:
    folder = folder_of([Column("size", ("1", "2.5", "True"))], tmp_path)
    found = encode({"size": np.array([2.5, 1.0])}, folder)
    assert found.tolist() == [[0, 1, 0], [1, 0, 0]]
    assert encode({"size": [True, None]}, folder).tolist() == [[0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ({"colour": ["brown"]}, "has no column 'weight'"),
        ({"colour": ["brown"] * 2, "weight": [1.0]}, "column 'weight' has 1 rows, expected 2"),
        ({"colour": ["brown"], "weight": ["heavy"]}, "row 1, column 'weight': expected a number, got 'heavy'"),
        ({"colour": ["brown"] * 2, "weight": [1.0, None]}, "row 2, column 'weight': expected a number, got None"),
        ({"colour": ["brown"], "weight": [1e39]}, "expected a number, got 1e"),
        ({"colour": "brown", "weight": 1.0}, "column 'colour': expected a sequence with a value for each row, got 'br"),
        ({"colour": ["brown"], "weight": 1.0}, "column 'weight': expected a sequence with a value for each row, got 1"),
        ([["brown", 1.0]], "has no column 'colour': give columns by the names"),
    ],
)
def test_rows_that_mean_nothing_are_refused(table: object, wrong: str, tmp_path: Path) -> None:
    folder = folder_of([Column("colour", ("brown",)), Column("weight")], tmp_path)
    with pytest.raises(ValueError, match=wrong):
        encode(table, folder)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    path = tmp_path / "trees.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["bark", "height", "kind"])
        for _ in range(120):
            kind = int(generator.integers(2))
            rows.writerow(
                [["white", "brown"][kind], f"{20 + 5 * kind + generator.normal():.2f}", ["birch", "oak"][kind]]
            )
    return path


def test_the_folder_runs_as_its_readme_says_and_answers_as_the_run_does(table: Path, tmp_path: Path) -> None:
    data = load(f"csv:{table}", target="kind")
    options = TrainOptions(members=2, backbones=("mlp", "mlp"), device="cpu")
    train("average", data, tmp_path / "run", options=options, loop=LoopOptions(epochs=1, batch_size=16))
    run = Run.open(tmp_path / "run")
    export(run, tmp_path / "out")
    (code,) = re.findall(r"```python\n(.*?)```", (tmp_path / "out" / "README.md").read_text(), re.DOTALL)
    assert "encode({'bark': ['brown', 'brown', 'brown', 'brown'], 'height': [0.0, 0.0, 0.0, 0.0]})" in code
    rows = {"bark": ["white", "brown", "blue"], "height": [21.5, 24, 30]}
    lines = code.replace(re.findall(r"encode\((\{.*?\})\)", code)[0], repr(rows))
    printed = subprocess.run(
        [sys.executable, "-c", f"{lines}\nprint(answer.outputs.tolist())"],
        check=True,
        cwd=tmp_path / "out",
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    (tmp_path / "rows.csv").write_text("bark,height\nwhite,21.5\nbrown,24\nblue,30\n")
    expected = run.cascade().predict(read_features(tmp_path / "rows.csv", data.columns))
    classes = run.manifest["data"]["classes"]
    used = expected.members_used.tolist()
    assert printed[:-1] == [f"{classes[label]} {one}" for label, one in zip(expected.labels, used, strict=True)]
    torch.testing.assert_close(torch.tensor(json.loads(printed[-1])), expected.outputs, atol=1e-5, rtol=0)
