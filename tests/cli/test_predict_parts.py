"""A prediction that was interrupted goes on where it was, and ends as if it had not been."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from irene.cli.predict_parts import Parts
from irene.errors import OptionError

Irene = Callable[..., Any]


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
    assert "continue with --resume, or remove it" in irene(*call).mistake
    assert "was started with another run, other files or other options" in irene(*call, "--probs", "--resume").mistake
    done = irene(*call, "--resume")
    assert done.code == 0
    assert "1,920 samples" in done.err
    assert resumed.read_bytes() == whole.read_bytes()
    assert not list(many.parent.glob("*.parts"))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_answers_are_on_the_disk_before_their_parts_go_and_for_whom_the_umask_allows(
    irene: Irene, run_folder: Path, many: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = many.with_name(f"answers.{ending}")
    fsync, remove = os.fsync, Parts._remove
    synced: set[int] = set()
    modes: list[int] = []

    def note(handle: int) -> None:
        synced.add(os.fstat(handle).st_ino)
        fsync(handle)

    def check(parts: Parts) -> None:
        assert {out.stat().st_ino, out.parent.stat().st_ino} <= synced
        modes.extend(path.stat().st_mode & 0o777 for path in (out, parts.folder))
        remove(parts)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Parts, "_remove", check)
    before = os.umask(0o077)
    try:
        assert irene("predict", run_folder, many, "--out", out).code == 0
    finally:
        os.umask(before)
    assert modes == [0o600, 0o700]


@contextmanager
def interrupted_after(count: int) -> Iterator[None]:
    """Ctrl-C once so many parts are there."""
    add = Parts.add

    def add_or_not(parts: Parts, records: list[dict[str, Any]]) -> None:
        if parts.done.parts == count:
            raise KeyboardInterrupt
        add(parts, records)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parts, "add", add_or_not)
        yield


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_other_formats_are_resumed_too(irene: Irene, run_folder: Path, many: Path, ending: str) -> None:
    whole, resumed = many.with_name(f"whole.{ending}"), many.with_name(f"resumed.{ending}")
    call = ("predict", run_folder, many, "--batch-size", "10", "--out")
    assert irene(*call, whole).code == 0
    with interrupted_after(2):
        done = irene(*call, resumed)
    assert done.code == 130
    kept = "1,280 answers are kept: go on from there with the same command and --resume"
    assert done.err.splitlines()[-2:] == [kept, "irene: interrupted"]
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


@pytest.mark.parametrize("flags", [(), ("--resume",), ("--probs",)])
def test_killed_before_the_first_part_is_there(
    flags: tuple[str, ...], irene: Irene, run_folder: Path, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = many.with_name("answers.csv")
    call = ("predict", run_folder, many, "--out", out)

    def killed(path: Path, content: bytes) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("irene.cli.predict_parts.write_atomically", killed)
        done = irene(*call)
        assert (done.code, done.err.splitlines()) == (130, ["irene: interrupted"])
        assert not list(out.parent.glob("*.parts"))
        patch.setattr(Parts, "_remove", lambda parts: None)  # who is killed does not remove anything
        assert irene(*call).code == 130
    left = sorted(path.name for path in out.with_name("answers.csv.parts").iterdir())
    assert left == ["done.json", "lock"]
    assert irene(*call, *flags).code == 0, "there are no answers to go on from, nor to lose"
    assert len(out.read_text().splitlines()) == 1921


def test_killed_while_the_parts_are_removed(
    irene: Irene, run_folder: Path, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = many.with_name("answers.csv")
    call = ("predict", run_folder, many, "--out", out)

    def killed(folder: Path, **_: object) -> None:
        next(folder.glob("*.csv")).unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("irene.cli.predict_parts.shutil.rmtree", killed)
        done = irene(*call)
    assert (done.code, done.err.splitlines()[-1]) == (130, "irene: interrupted")
    assert "kept" not in done.err
    assert len(out.read_text().splitlines()) == 1921
    assert not list(out.parent.glob("*.parts"))
    assert irene(*call).code == 0
    assert irene(*call, "--resume").code == 0


def test_only_one_call_at_a_time_writes_a_file(
    irene: Irene, run_folder: Path, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out = many.with_name("whole.csv"), many.with_name("answers.csv")
    call = ("predict", run_folder, many, "--batch-size", "10", "--out")
    assert irene(*call, whole).code == 0
    add = Parts.add
    refused: list[str] = []

    def meanwhile(parts: Parts, records: list[dict[str, Any]]) -> None:
        monkeypatch.setattr(Parts, "add", add)
        add(parts, records)
        refused.extend(irene(*call, out, *more).mistake for more in ([], ["--resume"]))

    monkeypatch.setattr(Parts, "add", meanwhile)
    assert irene(*call, out).code == 0
    assert refused == [f"another call is writing {out}: wait until it has ended, or give another --out"] * 2
    assert out.read_bytes() == whole.read_bytes()
    assert not list(out.parent.glob("*.parts"))


def test_of_two_calls_that_begin_at_once_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (Parts(tmp_path / "a.csv", "csv", "asked", [], resume=False) for _ in range(2))
    with first:
        monkeypatch.setattr(Path, "exists", lambda path: monkeypatch.undo())  # not there yet when the second one looks
        with pytest.raises(OptionError, match="another call is writing"), second:
            pass
        assert [path.name for path in tmp_path.iterdir()] == ["a.csv.parts"]


def test_what_else_is_calibrated_does_not_matter(irene: Irene, run_folder: Path, many: Path) -> None:
    run = Path(shutil.copytree(run_folder, many.with_name("run")))
    assert irene("calibrate", run, "--cost", "1.5", "--name", "mine").code == 0
    call = ("predict", run, many, "--batch-size", "10", "--point", "mine", "--out", many.with_name("a.csv"))
    with interrupted_after(1):
        assert irene(*call).code == 130
        assert irene("calibrate", run, "--cost", "1.2", "--name", "other").code == 0
        assert irene(*call, "--resume").code == 130
    assert irene("calibrate", run, "--cost", "1.1", "--name", "mine").code == 0
    assert "was started with another run" in irene(*call, "--resume").mistake


@pytest.fixture
def album(photo_run: Path, tmp_path: Path) -> Path:
    """A folder of images for two chunks of 64 batches with one image each."""
    image = photo_run.parent / "photos" / "dark" / "00.png"
    (tmp_path / "album").mkdir()
    for number in range(80):
        shutil.copy(image, tmp_path / "album" / f"{number:02}.png")
    return tmp_path / "album"


def test_what_is_wrong_with_a_later_file_can_be_mended(irene: Irene, photo_run: Path, album: Path) -> None:
    """The answers are written into the folder that is read, and are no part of what is read."""
    out = album / "answers.csv"
    call = ("predict", photo_run, album, "--batch-size", "1", "--out", out)
    good = (album / "70.png").read_bytes()
    (album / "70.png").write_bytes(b"no image")
    done = irene(*call)
    assert done.code == 2
    kept, mistake = done.err.splitlines()
    assert kept == "64 answers are kept: go on from there with the same command and --resume"
    assert "70.png cannot be read as an image" in mistake
    (album / "70.png").write_bytes(good)
    assert irene(*call, "--resume").code == 0
    assert len(out.read_text().splitlines()) == 81
    assert irene(*call).code == 0


def test_what_was_answered_must_stay_as_it_was(irene: Irene, photo_run: Path, album: Path) -> None:
    call = ("predict", photo_run, album, "--batch-size", "1", "--out", album / "answers.csv")
    (album / "70.png").write_bytes(b"no image")
    assert irene(*call).code == 2
    shutil.copy(photo_run.parent / "photos" / "light" / "00.png", album / "03.png")
    assert "holds answers for files that have changed since" in irene(*call, "--resume").mistake
    (album / "70.png").unlink()
    assert "was started with another run, other files or other options" in irene(*call, "--resume").mistake
