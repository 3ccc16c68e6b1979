"""`irene evaluate --data`: which samples of other data a run is judged by, and that they are read as for predict."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

Irene = Callable[..., Any]
KINDS = {"red": "oak", "green": "elm", "blue": "ash"}


@pytest.fixture
def run(table_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(table_run, tmp_path / "run"))


def write_table(path: Path, colours: list[str], kinds: list[str]) -> str:
    """A table like the one of training, as --data names it."""
    sizes = np.random.default_rng(1).normal(1, 1, size=len(kinds))
    rows = zip(kinds, sizes, colours, strict=True)
    path.write_text("kind,size,colour\n" + "".join(f"{kind},{size:.4f},{colour}\n" for kind, size, colour in rows))
    return f"csv:{path}"


@pytest.fixture
def fresh(tmp_path: Path) -> str:
    """50 rows that no run was trained on; one in five has another kind than its colour says."""
    colours = [list(KINDS)[row % 3] for row in range(50)]
    kinds = [KINDS[colour] if row % 5 else "oak" for row, colour in enumerate(colours)]
    return write_table(tmp_path / "fresh.csv", colours, kinds)


def accuracy_of_answers(irene: Irene, run: Path, spec: str) -> float:
    """The share of rows that `irene predict` answers with their kind."""
    path = Path(spec.removeprefix("csv:"))
    answers = csv.DictReader(io.StringIO(irene("predict", run, path).out))
    rows = csv.DictReader(path.read_text().splitlines())
    return float(np.mean([answer["class"] == row["kind"] for answer, row in zip(answers, rows, strict=True)]))


def test_fresh_data_is_judged_by_all_its_samples(irene: Irene, run: Path, fresh: str) -> None:
    said = irene("evaluate", run, "--data", fresh, "--target", "kind", "--json").json
    assert (said["split"], said["samples"]) == ("all", 50)
    assert said["all"]["accuracy"] == pytest.approx(accuracy_of_answers(irene, run, fresh))
    assert "on csv:fresh.csv, all 50 samples" in irene("evaluate", run, "--data", fresh, "--target", "kind").out
    said = irene("evaluate", run, "--data", fresh, "--target", "kind", "--split", "test", "--json").json
    assert (said["split"], said["samples"]) == ("test", 10)


def test_the_target_of_training_need_not_be_named_again(irene: Irene, run: Path, fresh: str, files: Path) -> None:
    named = irene("evaluate", run, "--data", fresh, "--target", "kind", "--json").json
    assert irene("evaluate", run, "--data", fresh, "--json").json == named
    assert irene("calibrate", run, "--data", fresh, "--cost", 1.3).code == 0
    assert irene("drift", run, "--data", fresh).code == 0
    Path(fresh.removeprefix("csv:")).write_text("colour,size,wood\nred,1,oak\ngreen,2,elm\n")
    assert irene("evaluate", run, "--data", fresh, "--target", "wood").code == 0
    assert "there is no column 'kind'" in irene("evaluate", run, "--data", fresh).mistake

    manifest = json.loads((run / "run.json").read_text())
    del manifest["data"]["target"]  # as runs of earlier versions
    (run / "run.json").write_text(json.dumps(manifest))
    assert "no target column was named: use --target" in irene("evaluate", run, "--data", fresh).mistake
    table = ("--data", f"csv:{files / 'table.csv'}", "--target", "kind")
    again = ("train", "average", *table, "--members", "2", "--epochs", "3", "--batch-size", "32")
    assert irene(*again, "--resume", "--out", run).code == 0


def test_data_of_training_or_calibration_is_judged_by_its_test_samples(
    irene: Irene, run: Path, fresh: str, files: Path
) -> None:
    for name, flags in (("there", ("--data", fresh, "--target", "kind")), ("here", ())):
        assert irene("calibrate", run, "--max-drop", "50%", "--name", name, *flags).code == 0
    own = f"csv:{files / 'table.csv'}"
    for data, point, split, samples in (
        (own, (), "test", 48),
        (own, ("--point", "there"), "test", 48),
        (fresh, ("--point", "there"), "test", 10),
        (fresh, ("--point", "here"), "all", 50),
        (fresh, (), "all", 50),
    ):
        said = irene("evaluate", run, "--data", data, "--target", "kind", *point, "--json").json
        assert (said["split"], said["samples"]) == (split, samples)
    drift = irene("drift", run, "--point", "here", "--data", fresh, "--target", "kind", "--json").json
    assert drift["samples"] == 50


def test_a_table_is_read_as_predict_reads_it(irene: Irene, run: Path, tmp_path: Path) -> None:
    """No blue, a colour of its own, a kind with one row, none of a kind: the columns are those of training."""
    spec = write_table(tmp_path / "few.csv", ["red", "green", "red", "pink", "green"], ["oak"] * 4 + ["elm"])
    done = irene("evaluate", run, "--data", spec, "--target", "kind", "--json")
    assert done.json["samples"] == 5
    assert done.json["all"]["accuracy"] == pytest.approx(accuracy_of_answers(irene, run, spec))
    assert "'pink' was not seen in training" in done.err
    spec = write_table(tmp_path / "one.csv", ["red"], ["oak"])
    assert irene("evaluate", run, "--data", spec, "--target", "kind", "--json").json["samples"] == 1
    spec = write_table(tmp_path / "other.csv", ["red", "green"], ["oak", "yew"])
    assert "has the class 'yew'" in irene("evaluate", run, "--data", spec, "--target", "kind").mistake


def test_images_are_resized_as_for_predict(irene: Irene, photo_run: Path, tmp_path: Path) -> None:
    for name, level in (("dark", 20), ("light", 230)):
        (tmp_path / "new" / name).mkdir(parents=True)
        Image.new("RGB", (9, 7), (level,) * 3).save(tmp_path / "new" / name / "one.png")
    said = irene("evaluate", photo_run, "--data", f"folder:{tmp_path / 'new'}", "--json").json
    assert (said["samples"], said["all"]["accuracy"]) == (2, 1.0)
