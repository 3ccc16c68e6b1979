"""`irene predict` gives what the run's cascade answers, whatever the files and the format."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from PIL import Image
from pyarrow import parquet

from irene.cli import main
from irene.cli.predict_files import Parts
from irene.run import Run

Irene = Callable[..., Any]


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="session")
def photo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on dark and light images, in the folder beside them."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for name, level in (("dark", 40), ("light", 200)):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(12):
            pixels = rng.integers(level - 30, level + 30, (6, 6), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number:02}.png")
    flags = ["--members", "2", "--epochs", "5", "--batch-size", "8", "--out", str(folder / "run")]
    assert main(["train", "average", "--data", f"folder:{folder / 'photos'}", *flags]) == 0
    return folder / "run"


def test_arrays(irene: Irene, run_folder: Path, files: Path) -> None:
    done = irene("predict", run_folder, files / "points.npz", "--probs", "--batch-size", "50")
    assert done.code == 0
    rows = rows_of(done.out)
    assert list(rows[0]) == ["file", "row", "label", "class", "probability", "members_used", "p_0", "p_1", "p_2"]
    inputs = torch.from_numpy(np.load(files / "points.npz")["x"]).float()
    answer = Run.open(run_folder).cascade().predict(inputs)
    assert [int(row["label"]) for row in rows] == answer.labels.tolist()
    assert [int(row["members_used"]) for row in rows] == answer.members_used.tolist()
    assert [int(row["row"]) for row in rows] == list(range(240))
    probs = torch.tensor([[float(row[f"p_{name}"]) for name in range(3)] for row in rows])
    torch.testing.assert_close(probs, answer.probs, atol=1e-5, rtol=0)
    mean = answer.members_used.double().mean()
    assert f"240 samples, {mean:.2f} members a sample" in done.err


def test_a_table_by_the_columns_of_training(irene: Irene, table_run: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("note,size,colour\nfirst,0.1,red\nsecond,2.2,blue\nthird,2.2,violet\n")
    rows = irene("predict", table_run, tmp_path / "new.csv", "--json").json["predictions"]
    inputs = torch.tensor([[0, 0, 1, 0.1], [1, 0, 0, 2.2], [0, 0, 0, 2.2]])  # blue, green, red; size
    answer = Run.open(table_run).cascade().predict(inputs)
    names = ["ash", "elm", "oak"]
    assert [row["class"] for row in rows] == [names[label] for label in answer.labels.tolist()]
    assert [row["probability"] for row in rows] == pytest.approx(answer.probs.max(1).values.tolist(), abs=1e-5)


def test_images_and_folders_in_the_order_named(irene: Irene, photo_run: Path) -> None:
    photos = photo_run.parent / "photos"
    single = photos / "dark" / "03.png"
    rows = rows_of(irene("predict", photo_run, single, photos / "light", "--batch-size", "5").out)
    assert [row["file"] for row in rows] == [str(single), *(str(path) for path in sorted((photos / "light").iterdir()))]
    assert [row["class"] for row in rows] == ["dark", *["light"] * 12]
    assert {row["members_used"] for row in rows} == {"2"}


def test_images_in_another_scale_are_noticed(irene: Irene, photo_run: Path, tmp_path: Path) -> None:
    run = Run.open(photo_run)
    images = np.random.default_rng(0).integers(0, 256, (9, *run.manifest["data"]["shape"])).astype(np.float32)
    for name, x, warnings in (("same", images, 0), ("other", images / 255, 1)):
        np.savez(tmp_path / f"{name}.npz", x=x)
        done = irene("predict", photo_run, tmp_path / f"{name}.npz", "--batch-size", "4")
        assert done.code == 0
        assert done.err.count("in another scale, such as 0 to 1 in place of 0 to 255?") == warnings
        assert len(rows_of(done.out)) == 9


def test_values_by_their_names(irene: Irene, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    np.savez(tmp_path / "curve.npz", x=x, y=x.sum(1), classes=np.array(["height"]))
    data = ("--data", f"npz:{tmp_path / 'curve.npz'}", "--epochs", "2", "--batch-size", "16")
    assert irene("train", "average", *data, "--members", "2", "--out", tmp_path / "run").code == 0
    out = tmp_path / "deep" / "answers.jsonl"
    done = irene("predict", tmp_path / "run", tmp_path / "curve.npz", "--out", out)
    assert (done.code, done.out) == (0, "")
    values = [json.loads(line)["values"]["height"] for line in out.read_text().splitlines()]
    expected = Run.open(tmp_path / "run").cascade().predict(torch.from_numpy(x).float()).values[:, 0]
    assert values == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-5)
    rows = rows_of(irene("predict", tmp_path / "run", tmp_path / "curve.npz").out)
    assert list(rows[0]) == ["file", "row", "height", "members_used"]


def test_out_and_format(irene: Irene, run_folder: Path, files: Path, tmp_path: Path) -> None:
    points = files / "points.npz"
    printed = irene("predict", run_folder, points).out
    said = irene("predict", run_folder, points, "--out", tmp_path / "a.csv", "--json").json
    assert (tmp_path / "a.csv").read_text() == printed
    assert (said["samples"], said["out"]) == (240, str(tmp_path / "a.csv"))
    lines = irene("predict", run_folder, points, "--format", "jsonl").out.splitlines()
    rows = rows_of(printed)
    assert [json.loads(line)["class"] for line in lines] == [row["class"] for row in rows]
    assert said["mean_members"] == pytest.approx(sum(int(row["members_used"]) for row in rows) / 240)


def test_parquet_in_and_out(irene: Irene, run_folder: Path, files: Path, tmp_path: Path) -> None:
    inputs = np.load(files / "points.npz")["x"].astype(np.float32)
    parquet.write_table(pyarrow.table({"note": ["-"] * 240, "x": list(inputs)}), tmp_path / "in.parquet")
    text = irene("predict", run_folder, files / "points.npz", "--probs").out
    out = tmp_path / "out.parquet"
    done = irene("predict", run_folder, tmp_path / "in.parquet", "--probs", "--out", out, "--batch-size", "3")
    assert (done.code, done.out) == (0, "")
    found = parquet.read_table(out).to_pylist()
    expected = rows_of(text)
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


def test_parquet_files_that_do_not_fit(
    irene: Irene, run_folder: Path, table_run: Path, photo_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    for run, name, columns, words in (
        (run_folder, "names", {"a": [1.0]}, "has the columns a: expected x, of lists of numbers"),
        (run_folder, "short", {"x": [[1.0, 2.0]]}, "lists that are no samples of shape (5,)"),
        (run_folder, "ragged", {"x": [[1.0] * 5, [1.0]]}, "lists that are no samples of shape (5,)"),
        (run_folder, "hole", {"x": [[1.0] * 5, None]}, "row 1, column 'x': the value is missing"),
        (run_folder, "none", {"x": pyarrow.array([], pyarrow.list_(pyarrow.float32()))}, "holds no samples"),
        (table_run, "column", {"size": [1.0]}, "has no column 'colour'"),
        (table_run, "cell", {"size": [1.0, None], "colour": ["red", "red"]}, "row 1, column 'size': expected a number"),
        (photo_run, "text", {"image": ["no bytes"]}, "must hold the bytes of an image file"),
        (photo_run, "noise", {"image": [b"no image"]}, "row 0: the image cannot be read as an image"),
    ):
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{name}.parquet")
        assert words in irene("predict", run, tmp_path / f"{name}.parquet").mistake
    assert "cannot be read as a parquet file" in irene("predict", run_folder, tmp_path / "broken.parquet").mistake
    assert "name a file with --out" in irene("predict", run_folder, tmp_path, "--format", "parquet").mistake


def test_runs_with_a_gate_have_no_order_to_stream(irene: Irene, files: Path, tmp_path: Path) -> None:
    points = files / "points.npz"
    flags = ("--epochs", "1", "--batch-size", "32", "--members", "2", "--out", tmp_path / "run")
    assert irene("train", "moe", "--data", f"npz:{points}", *flags).code == 0
    rows = rows_of(irene("predict", tmp_path / "run", points, "--batch-size", "100").out)
    inputs = torch.from_numpy(np.load(points)["x"]).float()
    assert [int(row["label"]) for row in rows] == Run.open(tmp_path / "run").predictor().predict(inputs).labels.tolist()
    mistake = irene("predict", tmp_path / "run", points, "--backend", "eager:bf16").mistake
    assert "a moe run that picks members for each sample runs on the eager backend alone, got eager:bf16" in mistake


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Samples for thirty chunks of 64 batches with one sample each."""
    np.savez(tmp_path / "many.npz", x=np.random.default_rng(0).normal(size=(1920, 5)) * 2)
    return tmp_path / "many.npz"


def test_killed_and_resumed_equals_uninterrupted(irene: Irene, run_folder: Path, many: Path) -> None:
    whole, resumed = many.with_name("whole.csv"), many.with_name("resumed.csv")
    assert irene("predict", run_folder, many, "--out", whole, "--batch-size", "1").code == 0
    call = ["predict", str(run_folder), str(many), "--out", str(resumed), "--batch-size", "1"]
    kill_at(many.with_name("resumed.csv.parts") / "000003.csv", call)
    assert not resumed.exists()
    assert "go on with --resume, or remove it" in irene(*call).mistake
    assert "was begun with other files or options" in irene(*call, "--probs", "--resume").mistake
    done = irene(*call, "--resume")
    assert done.code == 0
    assert "1,920 samples" in done.err
    assert resumed.read_bytes() == whole.read_bytes()
    assert not list(many.parent.glob("*.parts"))


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_other_formats_are_resumed_too(
    irene: Irene, run_folder: Path, many: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, resumed = many.with_name(f"whole.{ending}"), many.with_name(f"resumed.{ending}")
    call = ("predict", run_folder, many, "--batch-size", "10", "--out")
    assert irene(*call, whole).code == 0
    add = Parts.add

    def interrupted(parts: Parts, records: list[dict[str, Any]]) -> None:
        if parts.done.parts == 2:
            raise KeyboardInterrupt
        add(parts, records)

    with monkeypatch.context() as patch:
        patch.setattr(Parts, "add", interrupted)
        done = irene(*call, resumed)
    assert done.code == 130
    assert done.err.splitlines()[-2:] == ["go on with the same command and --resume", "irene: interrupted"]
    assert irene(*call, resumed, "--resume").code == 0
    if ending == "parquet":
        assert parquet.read_table(resumed).equals(parquet.read_table(whole))
    else:
        assert resumed.read_bytes() == whole.read_bytes()


def kill_at(sign: Path, call: list[str]) -> None:
    """Run the command in a process of its own, and kill it as soon as a file is there."""
    process = subprocess.Popen([sys.executable, "-m", "irene", *call], stderr=subprocess.DEVNULL)
    try:
        for _ in range(6000):
            assert process.poll() is None, "finished before it was killed"
            if sign.exists():
                break
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL


def test_resume_needs_a_file(irene: Irene, run_folder: Path, files: Path, tmp_path: Path) -> None:
    points = files / "points.npz"
    assert "name it with --out" in irene("predict", run_folder, points, "--resume").mistake
    (tmp_path / "a.csv.parts").mkdir()
    mistake = irene("predict", run_folder, points, "--out", tmp_path / "a.csv", "--resume").mistake
    assert "was not left by irene predict" in mistake
    assert irene("predict", run_folder, points, "--out", tmp_path / "b.csv", "--resume").code == 0


def test_backends(irene: Irene, run_folder: Path, files: Path) -> None:
    points = files / "points.npz"
    eager = rows_of(irene("predict", run_folder, points).out)
    reduced = rows_of(irene("predict", run_folder, points, "--backend", "eager:bf16").out)
    same = sum(one["label"] == other["label"] for one, other in zip(eager, reduced, strict=True))
    assert 220 <= same <= 240
    assert "a backend is one of" in irene("predict", run_folder, points, "--backend", "fast").mistake
    assert "thresholds shift" in irene("predict", run_folder, points, "--backend", "onnx:int8").mistake


def test_files_that_do_not_fit(irene: Irene, run_folder: Path, photo_run: Path, files: Path, tmp_path: Path) -> None:
    image = next((photo_run.parent / "photos" / "dark").iterdir())
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG and no more")
    np.savez(tmp_path / "narrow.npz", x=np.zeros((2, 3)))
    np.savez(tmp_path / "none.npz", x=np.zeros((0, 5)))
    np.savez(tmp_path / "other.npz", y=np.zeros(2))
    np.savez(tmp_path / "pickled.npz", x=np.array([{}, {}], dtype=object))
    (tmp_path / "empty").mkdir()
    out = tmp_path / "answers.csv"
    for run, file, words in (
        (run_folder, tmp_path / "nowhere.npz", "nowhere.npz is not there"),
        (run_folder, tmp_path / "notes.txt", "is of no kind that can be read"),
        (run_folder, tmp_path / "broken.npz", "is not a .npz file, or it is cut short"),
        (run_folder, tmp_path / "pickled.npz", "cannot be read as a .npz file"),
        (run_folder, tmp_path / "narrow.npz", "samples of shape (3,), the run takes (5,)"),
        (run_folder, tmp_path / "none.npz", "holds no samples"),
        (run_folder, tmp_path / "other.npz", "has no array x"),
        (run_folder, image, "holds images and the run takes rows of 5 features"),
        (run_folder, files / "table.csv", "has no names of columns to read it by"),
        (photo_run, tmp_path / "broken.png", "cannot be read as an image"),
        (photo_run, tmp_path / "empty", "holds no images"),
    ):
        assert words in irene("predict", run, file, "--out", out).mistake
    assert "is a folder: name a file" in irene("predict", run_folder, files / "points.npz", "--out", tmp_path).mistake
    assert "--format must be csv, jsonl or parquet" in irene("predict", run_folder, image, "--format", "xml").mistake
    assert not out.exists()
    assert not list(tmp_path.glob("*.parts"))
