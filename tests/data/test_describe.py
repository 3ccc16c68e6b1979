"""The summary of a data set is JSON-able and adds up."""

from __future__ import annotations

import json
from pathlib import Path

from irene.data import describe, from_arrays, load


def test_classification() -> None:
    data = load("digits")
    summary = describe(data)
    assert json.loads(json.dumps(summary)) == summary
    assert summary["name"] == "digits"
    assert summary["shape"] == [1, 8, 8]
    assert summary["classes"] == list("0123456789")
    assert summary["sizes"] == {"train": 1150, "heldout": 288, "test": 359}
    assert summary["fingerprint"] == data.fingerprint
    for part, size in summary["sizes"].items():
        assert sum(summary["balance"][part].values()) == size


def test_regression_and_an_empty_part() -> None:
    data = from_arrays([[0.0]] * 4, [1.0, 2.0, 3.0, 6.0], test_fraction=0)
    values = describe(data, heldout=0)["values"]
    assert values == {"train": {"target": {"min": 1.0, "mean": 3.0, "max": 6.0}}, "heldout": {}, "test": {}}


def test_tables_show_their_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("colour,y\n" + "red,0\nblue,1\n" * 10)
    summary = describe(load(f"csv:{path}", target="y"))
    assert summary["columns"] == [{"name": "colour", "categories": ["blue", "red"]}]
    assert json.loads(json.dumps(summary)) == summary
