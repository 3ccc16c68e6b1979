"""`irene points` lists what was calibrated."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from irene.files import write_json
from irene.run import Run

Irene = Callable[..., Any]


def test_none_yet(irene: Irene, run_folder: Path) -> None:
    assert irene("points", run_folder, "--json").json == {"run": str(run_folder), "points": [], "unreadable": {}}
    assert "make one with `irene calibrate`" in irene("points", run_folder).out


def test_every_point_with_what_was_asked_and_expected(irene: Irene, run_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run_folder, tmp_path / "run")
    irene("calibrate", run, "--cost", "1.5", "--name", "fast")
    irene("calibrate", run, "--max-drop", "5%", "--policy", "confidence", "--name", "safe")
    irene("calibrate", run, "--cost", "1.4", "--name", "fast")
    fast, safe = irene("points", run, "--json").json["points"]
    assert (fast["name"], fast["version"], fast["asked"]["cost"]) == ("fast", 2, 1.4)
    assert (safe["name"], safe["version"], safe["policy"]) == ("safe", 1, "confidence")
    shown = " ".join(irene("points", run).out.split())
    assert "margin for cost 1.40 members" in shown
    assert "confidence for max-drop 5%" in shown
    assert "version 2" in shown


def test_points_that_cannot_be_read_are_named_beside_the_others(irene: Irene, run_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run_folder, tmp_path / "run")
    for name in ("gone", "kept", "mine"):
        irene("calibrate", run, "--cost", "1.5", "--name", name)
    (run / "points" / "gone.json").unlink()
    point = json.loads((run / "points" / "mine.json").read_text())
    point["policy"]["name"] = "gap"  # of one's own, as earlier versions wrote it
    manifest = json.loads((run / "run.json").read_text())
    manifest["points"]["mine"]["sha256"] = write_json(run / "points" / "mine.json", point)
    write_json(run / "run.json", manifest)
    done = irene("points", run, "--json")
    assert (done.code, [point["name"] for point in done.json["points"]]) == (0, ["kept"])
    assert list(done.json["unreadable"]) == ["gone", "mine"]
    gone, mine = done.err.splitlines()
    assert gone.startswith("warning: the point gone cannot be read: ")
    assert mine.startswith("warning: the point mine cannot be read: unknown policy 'gap' (there are: ")
    assert mine.endswith(" (to delete it: --delete mine)")
    deleting = irene("points", run, "--delete", "mine", "--delete", "gone", "--json")
    assert (deleting.code, deleting.json["unreadable"]) == (0, {})


def test_nothing_outside_a_run_is_deleted(irene: Irene, run_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run_folder, tmp_path / "run")
    irene("calibrate", run, "--cost", "1.5", "--name", "fast")
    (tmp_path / "precious.json").write_text("{}")
    manifest = json.loads((run / "run.json").read_text())
    manifest["points"]["fast"]["file"] = "../precious.json"
    (run / "run.json").write_text(json.dumps(manifest))
    assert irene("points", run, "--delete", "fast").code == 0
    assert (tmp_path / "precious.json").exists()


def test_several_points_are_deleted_at_once(irene: Irene, run_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run_folder, tmp_path / "run")
    for name in ("fast", "safe", "slow"):
        irene("calibrate", run, "--cost", "1.5", "--name", name)
    done = irene("points", run, "--delete", "fast", "--delete", "slow", "--json")
    assert [point["name"] for point in done.json["points"]] == ["safe"]
    assert done.err == "deleted fast\ndeleted slow\n"


def test_a_point_is_deleted_with_its_files(irene: Irene, run_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run_folder, tmp_path / "run")
    for name in ("fast", "safe"):
        irene("calibrate", run, "--cost", "1.5", "--name", name)
    kept = {file.name for file in (run / "points").iterdir() if file.name.startswith("safe")}
    next((run / "points").glob("fast*.json")).write_text("damaged, which is no reason to keep it")
    done = irene("points", run, "--delete", "fast")
    assert done.code == 0
    assert "deleted fast" in done.err
    assert "safe" in done.out
    assert "fast" not in done.out
    assert {file.name for file in (run / "points").iterdir()} == kept
    assert "no operating point is called 'fast' (there are: safe)" in irene("points", run, "--delete", "fast").mistake
    assert irene("evaluate", run, "--point", "safe").code == 0
    assert irene("points", run, "--delete", "safe", "--json").json["points"] == []


def test_a_point_leaves_the_manifest_before_its_files_go(
    irene: Irene, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in between, files may be left over, and no name without its files."""
    run = shutil.copytree(run_folder, tmp_path / "run")
    irene("calibrate", run, "--cost", "1.5")
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    assert irene("points", run, "--delete", "calibrated").code != 0
    assert Run.open(run).points == ()


def test_values_have_no_accuracy(irene: Irene, tmp_path: Path, make_bank: Callable[..., Any]) -> None:
    make_bank(300, task="regression").save(tmp_path / "bank.safetensors")
    run = tmp_path / "run"
    assert irene("bank", tmp_path / "bank.safetensors", "--out", run).code == 0
    done = irene("calibrate", run, "--max-drop", "10%")
    assert done.code == 0, done.err
    assert "mse" in done.out
    assert "mse" in irene("points", run).out
