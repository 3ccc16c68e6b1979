"""`irene compare`: train what is missing, one table, and on after a kill."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from irene.cli.experiment import tell
from irene.cli.output import speaking
from irene.evaluation.experiment import Done
from irene.evaluation.jobs import Outcome
from irene.run import Run

Irene = Callable[..., Any]
FAST = ("--epochs", "2", "--batch-size", "32", "--device", "cpu", "--workers", "2")


@pytest.fixture(scope="module")
def out(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods over two seeds, by the real command."""
    folder = tmp_path_factory.mktemp("compare") / "points"
    command = ["compare", "--methods", "average,single", "--data", f"npz:{files / 'points.npz'}", "--seeds", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "irene", *command, "--out", str(folder), *FAST],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:2] == ["method", "accuracy"]
    assert [line.split()[0] for line in lines[1:3]] == ["average", "single"]
    assert "average-t3-s1: trained in" in done.stderr
    return folder


def test_what_is_there_is_only_shown(irene: Irene, out: Path, files: Path) -> None:
    points = f"npz:{files / 'points.npz'}"
    same = ("compare", "--methods", "average,single", "--data", points, "--seeds", 2, "--out", out, *FAST)
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/run.json")}
    said = irene(*same, "--json").json
    assert {path: path.stat().st_mtime_ns for path in out.glob("*/run.json")} == before
    assert [row["seeds"] for row in said["rows"]] == [[0, 1], [0, 1]]
    assert said["lost"] == said["left_out"] == {}
    assert [Path(file).suffix for file in said["files"]] == [".csv", ".md", ".tex", ".json"]
    assert said["rows"] == json.loads((out / "table.json").read_text())["rows"]


def test_runs_left_out_for_one_reason_are_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = {f"distil-s{seed}": Outcome("unfit", "members cost the same") for seed in range(2)}
    outcomes |= {"woc-s0": Outcome("unfit", "this is regression"), "irene-s1": Outcome("lost", "its worker died")}
    with speaking(json_wanted=False) as output:
        tell(Done(runs=[], outcomes=outcomes), output)
    assert capsys.readouterr().err.splitlines() == [
        "left out: distil-s0, distil-s1: members cost the same",
        "left out: woc-s0: this is regression",
        "irene-s1 is missing: its worker died; the same command goes on with it",
    ]


def test_on_a_narrow_terminal_columns_go_on_below(irene: Irene, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = irene("compare", *out.glob("*-s?")).out.splitlines()
    assert max(map(len, whole[:3])) > 80  # a pipe is no screen: each row is one line
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("COLUMNS", "80")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", irene("compare", *out.glob("*-s?")).out).splitlines()
    assert max(map(len, shown)) <= 80
    for row in range(3):  # the head and two methods
        first, *others = (line.split() for line in (shown[row], shown[row + 4]))
        assert [*first, *(word for line in others for word in line[1:])] == whole[row].split()


def test_other_options_are_refused(irene: Irene, out: Path, files: Path) -> None:
    points = f"npz:{files / 'points.npz'}"
    mistake = irene("compare", "--methods", "average", "--data", points, "--out", out, "--epochs", 7).mistake
    assert "started with options.loop.epochs 2, and 7 was asked for" in mistake


def test_runs_that_exist(irene: Irene, out: Path, tmp_path: Path) -> None:
    runs = sorted(out.glob("*-s?"))
    done = irene("compare", *runs, "--reference", "single")
    assert done.code == 0
    assert "against single" in done.out
    assert "mean and standard deviation over 2 seeds" in " ".join(done.out.split())
    said = irene("compare", *runs, "--out", tmp_path / "table", "--json").json
    assert said["reference"] == "average"
    assert (tmp_path / "table" / "table.tex").exists()
    assert not {"table"} & {path.name for path in tmp_path.iterdir() if path.is_file()}


def test_runs_at_operating_points(irene: Irene, out: Path, tmp_path: Path) -> None:
    runs = [shutil.copytree(run, tmp_path / run.name) for run in sorted(out.glob("average-*-s?"))]
    for run in runs:
        assert irene("calibrate", run, "--cost", "1.5", "--name", "fast").code == 0
    said = irene("compare", *runs, "--point", "fast", "--json").json
    assert [row["name"] for row in said["rows"]] == ["average", "average at fast"]
    assert "none of the runs has an operating point 'slow'" in irene("compare", *runs, "--point", "slow").mistake
    assert "--point is about runs that exist" in irene("compare", "--data", "digits", "--point", "fast").mistake


def test_long_names_cut_no_figure_off(irene: Irene, out: Path, tmp_path: Path) -> None:
    run = shutil.copytree(out / "average-t3-s0", tmp_path / "run")
    name = "n" * 200
    assert irene("calibrate", run, "--cost", "1.5", "--name", name).code == 0
    lines = irene("compare", run, "--point", name).out.splitlines()
    assert "…" not in "".join(lines)
    assert f"average at {name}" in lines[2]


def test_a_run_counts_once(irene: Irene, out: Path, workplace: Path) -> None:
    run = next(out.glob("*-s?"))
    assert "is given twice: name each run once" in irene("compare", run, run).mistake
    Path("link").symlink_to(run)
    assert "link is given twice" in irene("compare", run, "link").mistake


def test_a_table_that_cannot_be_written_is_named(
    irene: Irene, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:  # a test run by root may write everywhere
        raise PermissionError(errno.EACCES, "Permission denied", "somewhere")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    monkeypatch.setattr("tempfile.mkstemp", refuse)
    mistake = irene("compare", *out.glob("*-s?"), "--out", tmp_path / "locked").mistake
    assert mistake == f"{tmp_path / 'locked' / 'table.csv'} cannot be written: Permission denied"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--epochs", 3), "--epochs is for training"),
        (("--data", "digits"), "--data is for training"),
        (("--size", 8), "--size is for training"),
        (("--methods", "all"), "--methods is for training"),
        (("--members", 2), "--members is for training"),
        (("--compile",), "--compile is for training"),
        (("--heldout", "0.5"), "--heldout is for training"),
        (("--reference", "fge"), "no run is of the reference 'fge'"),
    ],
)
def test_flags_that_mean_nothing_for_runs_that_exist(
    irene: Irene, out: Path, flags: tuple[object, ...], words: str
) -> None:
    assert words in irene("compare", out / "average-t3-s0", *flags).mistake


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "give runs to compare, or the data"),
        (("--data", "digits", "--methods", "averige"), "did you mean average"),
        (("--data", "digits", "--set", "cost=1.5"), "METHOD.NAME=VALUE"),
        (("--data", "digits", "--set", "irene.coast=1.5"), "--set irene.coast is no option of irene"),
        (("--data", "digits", "--seeds", 0), "at least one seed"),
        (("--data", "digits", "--members", 0), "at least one member, got 0"),
        (("--data", "digits", "--backbone", "cnn", "--backbones", "cnn,mlp"), "not both"),
        (("--data", "digits", "--backbone", "cnn,mlp"), "--backbone takes one name, got 'cnn,mlp'"),
        (("--data", "digitz"), "unknown data"),
    ],
)
def test_mistakes_leave_nothing_behind(irene: Irene, workplace: Path, flags: tuple[object, ...], words: str) -> None:
    assert words in irene("compare", *flags).mistake
    assert not list(workplace.iterdir())


def test_without_ray_the_extra_is_named(
    irene: Irene, files: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    mistake = irene("compare", "--methods", "single", "--data", f"npz:{files / 'points.npz'}", "--ray").mistake
    assert mistake == "ray is not installed: run pip install 'irene-ensemble[ray]'"


def children(pid: int) -> set[int]:
    """The processes a process has started that are alive."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has ended meanwhile
            continue
        if int(parent) == pid and state != "Z":
            found.add(int(status.parent.name))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition: Callable[[], bool]) -> None:
    for _ in range(900):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("nothing happened for 90 seconds")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_after_a_kill_the_same_command_goes_on(files: Path, tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "irene", "compare", "--methods", "average,single", "--seeds", "1"),
        *("--data", f"npz:{files / 'points.npz'}", "--out", str(tmp_path / "out"), "--epochs", "60"),
        *("--batch-size", "16", "--device", "cpu", "--workers", "1", "--json"),
    ]
    run = tmp_path / "out" / "average-t3-s0"
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    until((run / "stages" / "member-1.safetensors").exists)
    workers = children(first.pid)
    assert workers
    os.kill(first.pid, signal.SIGKILL)  # and nobody else: the workers notice
    first.wait()
    until(lambda: not any(map(alive, workers)))
    trained = [line for line in (run / "metrics.jsonl").read_text().splitlines() if '"member-1"' in line]
    assert len(trained) == 60

    again = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert again.returncode == 0, again.stderr
    assert [row["name"] for row in json.loads(again.stdout)["rows"]] == ["average", "single"]
    assert Run.open(run).manifest["command"].startswith("irene compare --methods average,single")
    lines = (run / "metrics.jsonl").read_text().splitlines()
    assert [line for line in lines if '"member-1"' in line] == trained, "not trained again"
    assert len(lines) == 3 * 60
