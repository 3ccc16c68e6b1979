"""`irene predict` gives what the run's cascade answers, whatever the files and the format."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet

from irene.cli.predictions import Answers, bucket_for
from irene.run import Run
from irene.runtime.backend import installed_backends

Irene = Callable[..., Any]


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


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
    for name, x, example in (
        ("same", images, None),
        ("small", images / 255, "0 to 1 in place of 0 to 255"),
        ("large", images * 255, "0 to 255 in place of 0 to 1"),
    ):
        np.savez(tmp_path / f"{name}.npz", x=x)
        done = irene("predict", photo_run, tmp_path / f"{name}.npz", "--batch-size", "4")
        assert done.code == 0
        assert done.err.count("in another scale") == (example is not None)
        assert example is None or f"in another scale, such as {example}?" in done.err
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
    mistake = irene("predict", tmp_path / "run", tmp_path / "curve.npz", "--probs").mistake
    assert "answers with values, which have no probabilities: leave out --probs" in mistake


def test_small_values_keep_their_digits(irene: Irene, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = np.stack([3e-8 * x.sum(1), 1e6 + x.sum(1)], 1)
    np.savez(tmp_path / "curve.npz", x=x, y=y, classes=np.array(["tiny", "large"]))
    data = ("--data", f"npz:{tmp_path / 'curve.npz'}", "--epochs", "2", "--batch-size", "16")
    assert irene("train", "average", *data, "--members", "2", "--out", tmp_path / "run").code == 0
    found = irene("predict", tmp_path / "run", tmp_path / "curve.npz", "--json").json["predictions"]
    expected = Run.open(tmp_path / "run").cascade().predict(torch.from_numpy(x).float()).values
    assert 0 < float(expected[:, 0].abs().max()) < 1e-6
    values = torch.tensor([[row["values"]["tiny"], row["values"]["large"]] for row in found])
    torch.testing.assert_close(values, expected, rtol=1e-5, atol=1e-14)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_sample_that_is_no_number_is_told_and_holds_up_no_other(
    irene: Irene, run_folder: Path, files: Path, tmp_path: Path, kind: str
) -> None:
    x = np.load(files / "points.npz")["x"].astype(np.float32)[:20]
    usual = irene("predict", run_folder, files / "points.npz", "--json").json["predictions"]
    x[3] = np.finfo(np.float32).max  # a number, and more than members can take
    np.savez(tmp_path / "far.npz", x=x)
    out = tmp_path / f"answers.{kind}"
    done = irene("predict", run_folder, tmp_path / "far.npz", "--out", out, "--probs")
    assert done.code == 0
    assert "far.npz, row 3: a member gave NaN or infinity, so this sample has no answer" in " ".join(done.err.split())
    rows: list[dict[str, Any]] = {
        "csv": lambda: rows_of(out.read_text()),
        "jsonl": lambda: [json.loads(line) for line in out.read_text().splitlines()],
        "parquet": lambda: parquet.read_table(out).to_pylist(),
    }[kind]()
    assert (int(rows[3]["label"]), rows[3]["class"]) == (-1, "")
    assert rows[3]["probability"] is None if kind == "jsonl" else np.isnan(float(rows[3]["probability"]))
    assert int(rows[3]["members_used"]) == len(Run.open(run_folder).costs)
    others = [number for number in range(20) if number != 3]
    assert [int(rows[number]["label"]) for number in others] == [usual[number]["label"] for number in others]


def test_names_that_are_no_utf8(irene: Irene, photo_run: Path, tmp_path: Path) -> None:
    image = tmp_path / os.fsdecode(b"\xff\xc3\xa9.png")
    shutil.copy(photo_run.parent / "photos" / "dark" / "00.png", image)
    name = f"{tmp_path}/\\xffé.png"
    call = ("predict", photo_run, image)
    done = irene(*call)
    assert "1 sample, " in done.err
    assert [row["file"] for row in rows_of(done.out)] == [name]
    assert [row["file"] for row in irene(*call, "--json").json["predictions"]] == [name]
    for ending in ("csv", "jsonl", "parquet"):
        out = tmp_path / os.fsdecode(b"\xfe." + ending.encode())
        assert irene(*call, "--out", out, "--json").json["out"] == f"{tmp_path}/\\xfe.{ending}"
        if ending == "parquet":
            found = parquet.read_table(io.BytesIO(out.read_bytes())).to_pylist()
        elif ending == "jsonl":
            found = [json.loads(line) for line in out.read_text().splitlines()]
        else:
            found = list(rows_of(out.read_text()))
        assert [row["file"] for row in found] == [name]
    table = tmp_path / os.fsdecode(b"\xfd.parquet")
    table.write_bytes(parquet_bytes({"image": [image.read_bytes()]}))
    assert [row["row"] for row in irene("predict", photo_run, table, "--json").json["predictions"]] == [0]


def parquet_bytes(columns: dict[str, list[Any]]) -> bytes:
    content = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), content)
    return content.getvalue()


def test_progress_keeps_away_from_answers_on_a_terminal(run_folder: Path, files: Path, tmp_path: Path) -> None:
    call = [sys.executable, "-m", "irene", "predict", str(run_folder), str(files / "points.npz"), "--batch-size", "8"]
    for more, rows in (([], 240), (["--out", str(tmp_path / "answers.csv")], 0)):
        ours, theirs = os.openpty()
        process = subprocess.Popen([*call, *more], stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"})
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how Linux tells that nobody writes to it any more
            while read := os.read(ours, 4096):
                shown += read
        os.close(ours)
        assert process.wait() == 0
        assert (b"\x1b" in shown) == (rows == 0)
        assert shown.count(b"points.npz,") == rows
        assert b"240 samples" in shown


def test_a_huge_batch_size_takes_no_more_than_is_of_use(irene: Irene, run_folder: Path, photo_run: Path) -> None:
    shape = Run.open(run_folder).manifest["data"]["shape"]
    np.savez(run_folder.parent / "few.npz", x=np.zeros((3, *shape)))
    done = irene("predict", run_folder, run_folder.parent / "few.npz", "--batch-size", 10**11)
    assert (done.code, len(rows_of(done.out))) == (0, 3)
    cpu, table = torch.device("cpu"), [Path("table.parquet")]
    assert bucket_for(Run.open(run_folder), table, cpu, 10**8) == 2**14
    photos = Run.open(photo_run)
    assert bucket_for(photos, [Path("a.png"), Path("b.png")], cpu, 10**8) == 2
    photos.manifest["data"]["shape"] = [3, 1024, 1024]
    assert bucket_for(photos, table, cpu, 10**8) == 170  # 2 GiB


def test_the_speed_is_that_of_answering(
    irene: Irene, run_folder: Path, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, stream = [0.0], Answers._stream

    def slow(*arguments: Any) -> Any:
        now[0] += 1000
        return stream(*arguments)

    def answering(*arguments: Any, **more: Any) -> Any:
        now[0] += 2
        return chunks(*arguments, **more)

    chunks = Answers.chunks
    monkeypatch.setattr(Answers, "_stream", slow)
    monkeypatch.setattr(Answers, "chunks", answering)
    for module in ("predictions", "predict_progress"):
        monkeypatch.setattr(f"irene.cli.{module}.perf_counter", lambda: now[0])
    said = irene("predict", run_folder, files / "points.npz", "--out", tmp_path / "a.csv", "--json").json
    assert (said["samples"], said["samples_per_s"]) == (240, 120)


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


def test_what_is_read_is_not_written_over(irene: Irene, run_folder: Path, files: Path, tmp_path: Path) -> None:
    points = Path(shutil.copy(files / "points.npz", tmp_path / "points.npz"))
    before = points.read_bytes()
    (tmp_path / "link.npz").symlink_to(points)
    own = [run_folder / name for name in ("run.json", "metrics.jsonl", "members/0.safetensors")]
    for out in (points, tmp_path / "." / "points.npz", tmp_path / "link.npz", *own):
        mistake = irene("predict", run_folder, points, "--out", out, "--format", "csv").mistake
        assert "is one of the files to read" in mistake
    assert points.read_bytes() == before
    for name in ("answers", "answers.npz", "answers.csv.gz"):
        mistake = irene("predict", run_folder, points, "--out", tmp_path / name).mistake
        assert "ends in none of .csv, .jsonl, .json, .parquet: rename it, or set the format with --format" in mistake
    assert irene("predict", run_folder, points, "--out", tmp_path / "answers", "--format", "jsonl").code == 0
    assert json.loads((tmp_path / "answers").read_text().splitlines()[0])["row"] == 0


def test_runs_with_a_gate_have_no_order_to_stream(irene: Irene, files: Path, tmp_path: Path) -> None:
    points = files / "points.npz"
    flags = ("--epochs", "1", "--batch-size", "32", "--members", "2", "--out", tmp_path / "run")
    assert irene("train", "moe", "--data", f"npz:{points}", *flags).code == 0
    rows = rows_of(irene("predict", tmp_path / "run", points, "--batch-size", "100").out)
    inputs = torch.from_numpy(np.load(points)["x"]).float()
    assert [int(row["label"]) for row in rows] == Run.open(tmp_path / "run").predictor().predict(inputs).labels.tolist()
    mistake = irene("predict", tmp_path / "run", points, "--backend", "eager:bf16").mistake
    assert f"the gate of {tmp_path / 'run'} picks the members of each sample" in mistake
    assert "they run on the eager backend alone, got eager:bf16" in mistake


def test_a_point_that_skips_members_has_no_order_to_stream(
    irene: Irene, run_folder: Path, files: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(run_folder, tmp_path / "run"))
    assert irene("calibrate", run, "--cost", "1.5", "--policy", "skipping", "--name", "quick").code == 0
    call = ("predict", run, files / "points.npz", "--point", "quick")
    assert irene(*call).code == 0
    assert "the skipping policy of quick picks the members of each sample" in irene(*call, "--backend", "onnx").mistake


@pytest.mark.parametrize("backend", ["onnx", "openvino", "compile"])
def test_every_backend_answers_alike(irene: Irene, run_folder: Path, files: Path, backend: str) -> None:
    if backend not in installed_backends():
        pytest.skip(f"{backend} is not installed")
    call = ("predict", run_folder, files / "points.npz", "--batch-size", "64", "--json")
    expected = irene(*call).json["predictions"]
    found = irene(*call, "--backend", backend).json["predictions"]
    for name in ("row", "class", "members_used"):
        assert [row[name] for row in found] == [row[name] for row in expected]
    assert [row["probability"] for row in found] == pytest.approx([row["probability"] for row in expected], abs=1e-5)


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
        (run_folder, tmp_path / "notes.txt", "is not of a kind that can be read"),
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
