"""Tables: features, categories, the task the target means, and every way a table can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from irene.data import Column, load, split
from irene.data.table import from_csv, read_features
from irene.errors import DataError, OptionError
from irene.types import Task


def write(tmp_path: Path, target: Callable[[int], object], rows: int = 40) -> Path:
    """A table of an id, a number, a colour and a target made from the row's number."""
    path = tmp_path / "t.csv"
    lines = [f"{i},{i / 4},{('red', 'green', 'blue')[i % 3]},{target(i)}" for i in range(rows)]
    path.write_text("\n".join(["id,size,colour,y", *lines]) + "\n")
    return path


def test_numbers_and_categories_become_features(tmp_path: Path) -> None:
    data = from_csv(write(tmp_path, lambda i: ("no", "yes")[i % 2]), target="y")
    assert data.task == "classification"
    assert data.classes == ("no", "yes")
    assert data.columns == (Column("id"), Column("size"), Column("colour", ("blue", "green", "red")))
    assert data.shape == (5,)
    for samples in (data.train, data.test):
        for row, sample in zip(samples.inputs.tolist(), samples.ids.tolist(), strict=True):
            colour = ("red", "green", "blue")[sample % 3]
            assert row == [sample, sample / 4, colour == "blue", colour == "green", colour == "red"]
        assert torch.equal(samples.targets, samples.ids % 2)


@pytest.mark.parametrize(
    ("target", "task", "outputs"),
    [
        (lambda i: ("a", "b", "c")[i % 3], "classification", 3),
        (lambda i: i % 4, "classification", 4),
        (lambda i: f"{i % 4}.0", "classification", 4),
        (lambda i: i, "regression", 1),
        (lambda i: i % 4 + 0.5, "regression", 1),
        (lambda i: ("a", "1")[i % 2], "classification", 2),
    ],
)
def test_the_target_tells_the_task(tmp_path: Path, target: Callable[[int], object], task: Task, outputs: int) -> None:
    data = from_csv(write(tmp_path, target), target="y")
    assert data.task == task
    assert data.outputs == outputs


def test_the_task_can_be_said(tmp_path: Path) -> None:
    path = write(tmp_path, lambda i: i % 4)
    values = load(f"csv:{path}", target="y", task="regression")
    assert values.train.targets.shape == (32, 1)
    assert values.classes == ("y",)
    assert from_csv(write(tmp_path, lambda i: i % 2 + 0.5), target="y", task="classification").classes == (
        "0.5",
        "1.5",
    )
    with pytest.raises(DataError, match=r"row 1 \(line 2\), column 'y': expected a number, got 'a'"):
        from_csv(write(tmp_path, lambda i: "ab"[i % 2]), target="y", task="regression")


def test_whole_numbers_are_ordered_as_numbers(tmp_path: Path) -> None:
    assert from_csv(write(tmp_path, lambda i: i % 2 * 8 + 2), target="y").classes == ("2", "10")


def test_categories_come_from_training_rows_alone(tmp_path: Path) -> None:
    path = write(tmp_path, lambda i: i % 2)
    test_row = int(from_csv(path, target="y").test.ids[0])
    lines = path.read_text().splitlines()
    number, size, _, target = lines[test_row + 1].split(",")
    lines[test_row + 1] = f"{number},{size},violet,{target}"
    path.write_text("\n".join(lines))
    data = from_csv(path, target="y")
    assert data.columns[2].categories == ("blue", "green", "red")
    assert data.test.inputs is not None
    assert data.test.inputs[0, 2:].tolist() == [0, 0, 0]


def test_new_rows_are_encoded_like_the_training_table(tmp_path: Path) -> None:
    data = from_csv(write(tmp_path, lambda i: i % 2), target="y")
    new = tmp_path / "new.csv"
    new.write_text("colour,size,extra,id\ngreen,2,?,1\nviolet,3,?,2\n")
    assert read_features(new, data.columns).tolist() == [[1, 2, 0, 1, 0], [2, 3, 0, 0, 0]]
    columns = [Column.from_dict(column) for column in split(data).record["columns"]]
    assert torch.equal(read_features(new, columns), read_features(new, data.columns))
    new.write_text("colour,size\ngreen,2\n")
    with pytest.raises(DataError, match=r"new\.csv has no column 'id', .* it has 'colour', 'size'; the first line"):
        read_features(new, data.columns)


def test_categories_are_known_in_other_spellings(tmp_path: Path) -> None:
    columns = [Column("flag", ("no", "true")), Column("code", ("1", "1.0", "NA", "Yes"))]
    new = tmp_path / "new.csv"
    cells = ["true,1", "TRUE,1.0", "no,1.00", "No,yes", "False,", "true,?"]
    new.write_text("\n".join(["flag,code", *cells]))
    told: list[tuple[str, str]] = []
    found = read_features(new, columns, unseen=lambda name, words: told.append((name, words)))
    assert found.tolist() == [
        [0, 1, 1, 0, 0, 0],
        [0, 1, 0, 1, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 0],
        [0, 1, 0, 0, 1, 0],
    ]
    assert [name for name, _ in told] == ["flag", "code"]
    assert "row 4 (line 5), column 'flag': 'No' was not seen in training" in told[0][1]
    assert "row 4 (line 5), column 'code': 'yes' was not seen in training" in told[1][1]


@pytest.mark.parametrize("target", [None, "z"])
def test_the_target_must_be_a_column(tmp_path: Path, target: str | None) -> None:
    with pytest.raises(OptionError, match=r"--target with one of the columns of .*: id, size, colour, y"):
        from_csv(write(tmp_path, lambda i: i % 2), target=target)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\n7,1.75,", "\n7,large,", r"row 8 \(line 9\), column 'size': expected a number, got 'large'"),
        ("\n7,1.75,", "\n7,,", r"row 8 \(line 9\), column 'size': the value is missing"),
        ("green,1\n", "green,\n", r"row 2 \(line 3\), column 'y': the target is missing"),
        ("green,1\n", "green,one\n", r"row 2 \(line 3\), column 'y': expected a number, got 'one'"),
        ("green,1\n", "green,7\n", "class '7' has too few training samples"),
    ],
)
def test_bad_cells_are_placed(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = write(tmp_path, lambda i: i % 2)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(DataError, match=message):
        from_csv(path, target="y")


def test_a_target_alone_and_too_many_texts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("y\n0\n1\n0\n1\n")
    with pytest.raises(DataError, match="has only the column 'y'"):
        from_csv(path, target="y")
    path.write_text("x;y\n0;1\n1;0\n")
    with pytest.raises(DataError, match="has only the column 'x;y': expected several with commas between"):
        from_csv(path, target="y")
    path.write_text("name,y\n" + "".join(f"n{i},{i % 2}\n" for i in range(1500)))
    with pytest.raises(DataError, match="column 'name' has 1200 different texts"):
        from_csv(path, target="y")
    path.write_text("name,y\n" + "".join(f"n{i},{i % 2}\n" for i in range(1250)))
    assert from_csv(path, target="y").shape == (1000,)


def test_nothing_is_written(tmp_path: Path) -> None:
    path = write(tmp_path, lambda i: i % 2)
    before = path.read_bytes()
    from_csv(path, target="y")
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.csv"]
    assert path.read_bytes() == before
