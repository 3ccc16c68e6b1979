"""Records as lines of CSV, JSON or parquet."""

from __future__ import annotations

import io
import json

import pytest
from pyarrow import parquet

from irene.cli.predict_files import Format, encode, flatten


def test_values_named_as_other_columns_do_not_take_their_place() -> None:
    record = {"file": "a.csv", "row": 3, "values": {"row": 0.5, "value_row": 0.25}, "members_used": 2}
    assert flatten(record) == {"file": "a.csv", "row": 3, "value_row": 0.5, "value_value_row": 0.25, "members_used": 2}
    assert flatten(record | {"values": {"height": 0.5}})["height"] == 0.5


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_what_is_no_number_can_be_read_back(kind: Format) -> None:
    content = encode([{"file": "a.csv", "row": 0, "values": {"y": float("nan")}, "members_used": 1}], kind, first=True)
    if kind == "jsonl":
        line = json.loads(content, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        assert line["values"] == {"y": None}
    elif kind == "csv":
        assert content.decode().splitlines() == ["file,row,y,members_used", "a.csv,0,nan,1"]
    else:
        (row,) = parquet.read_table(io.BytesIO(content)).to_pylist()
        assert row["y"] != row["y"]
