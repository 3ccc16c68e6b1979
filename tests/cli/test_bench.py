"""`irene bench` times a run, and writes rows, a table and pictures."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from irene.cli.bench_output import draw, off_target, why_low
from irene.run import Run
from irene.runtime.bench import Row

Irene = Callable[..., Any]
KEYS = {"device", "backend", "mode", "batch", "mean_cost", "ms", "images_per_s", "speedup", "limit", "ratio"}


def test_rows(irene: Irene, run_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "pictures" / "bench.SVG"
    sizes = [word for size in (1, 8, 1) for word in ("--batch", str(size))]
    found = irene("bench", run_folder, "--quick", *sizes, "--growth", "--out", out, "--json").json
    modes = ["single", "full", "plain", "engine", "stream"]
    assert [(row["batch"], row["mode"]) for row in found["rows"]] == [
        (batch, mode) for batch in (1, 8) for mode in modes
    ]
    assert all(set(row) >= KEYS for row in found["rows"])
    cost = Run.open(run_folder).figures["test"]["cost"]
    assert found["rows"][-1]["mean_cost"] == pytest.approx(cost, abs=0.35)  # of 16 samples
    assert found["hardware"]["cpu"]
    assert {row["axis"] for row in found["growth"]} == {"members", "samples"}
    assert found["pictures"] == [str(out), str(out.with_name("bench-growth.SVG"))]
    assert all(Path(path).read_text().startswith("<?xml") for path in found["pictures"])


def test_table(irene: Irene, run_folder: Path) -> None:
    done = irene("bench", run_folder, "--quick", "--batch", "2", "--backend", "eager:bf16", "--cost", "1.5")
    assert done.code == 0
    head, *lines = done.out.splitlines()
    assert head.split() == ["backend", "mode", "batch", "cost", "ms", "samples/s", "speed-up", "limit", "ratio"]
    assert [line.split()[:3] for line in lines[:5]] == [
        ["eager:bf16", mode, "2"] for mode in ("single", "full", "plain", "engine", "stream")
    ]
    assert "eager:bf16, batch 2, engine:" in done.err
    assert done.err.startswith("timing eager:bf16 in batches of 2: 5 rows of 0 s or more")


def test_quick_takes_the_seconds_it_is_given(irene: Irene, run_folder: Path) -> None:
    done = irene("bench", run_folder, "--quick", "--batch", "2", "--seconds", "0.01")
    assert done.err.startswith("timing eager in batches of 2: 5 rows of 0.01 s or more")


def test_a_run_that_never_stops_early_is_timed_at_a_cost(irene: Irene, table_run: Path) -> None:
    done = irene("bench", table_run, "--quick", "--batch", "16", "--cost", "1.5", "--json")
    assert done.json["policy"] == "margin"
    assert done.json["rows"][-1]["mean_cost"] == pytest.approx(1.5, abs=0.35)  # of 16 samples
    assert "the run never stops early, so for --cost 1.5 the margin policy stops its samples" in done.err
    for flags in ((), ("--cost", "2")):
        whole = irene("bench", table_run, "--quick", "--batch", "16", *flags, "--json")
        assert whole.json["policy"] == "never"
        assert whole.json["rows"][-1]["mean_cost"] == 2
        assert "the run never stops early: --cost or --point shows what stopping saves" in whole.err
        assert "ratios are low" not in irene("bench", table_run, "--quick", "--batch", "16", *flags).out


def test_an_operating_point_is_timed_with_its_own_policy_and_members(
    irene: Irene, run_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(run_folder, tmp_path / "run")
    point = ("--cost", "1.5", "--policy", "confidence", "--name", "half")
    assert irene("calibrate", tmp_path / "run", *point).code == 0
    done = irene("bench", tmp_path / "run", "--quick", "--batch", "16", "--point", "half", "--json")
    assert (done.json["point"], done.json["policy"]) == ("half", "confidence")
    used = Run.open(tmp_path / "run").point("half").expected["used"]
    assert done.json["rows"][-1]["mean_cost"] == pytest.approx(
        used[0] + 2 * used[1] + 3 * used[2], abs=0.35
    )  # of 16 samples
    assert "never stops" not in done.err
    cost = irene("bench", tmp_path / "run", "--quick", "--batch", "16", "--point", "half", "--cost", "2.4", "--json")
    assert cost.json["rows"][-1]["mean_cost"] == pytest.approx(2.4, abs=0.35)
    assert "no operating point is called 'none'" in irene("bench", run_folder, "--point", "none").mistake


def test_a_run_without_test_samples_needs_a_cost(irene: Irene, run_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run_folder, tmp_path / "run")
    Run.open(tmp_path / "run").write(figures={})
    words = "has no test samples that tell how many members are used: give --cost"
    assert words in irene("bench", tmp_path / "run", "--quick").mistake


def test_a_picture_is_written_the_same_every_time(tmp_path: Path) -> None:
    rows = measured((1, 1.0, 2.0), (8, 2.0, 3.0))
    (first,) = draw(rows, None, tmp_path / "first.svg")
    (second,) = draw(rows, None, tmp_path / "deep" / "second.svg")
    assert first.read_bytes() == second.read_bytes()


def measured(*batches: tuple[int, float, float]) -> list[Row]:
    """Rows for batch sizes with the milliseconds that a member and the engine took; 1.5 members were used."""
    rows = []
    for batch, member, engine in batches:
        for mode, cost, ms in (("single", 1.0, member), ("full", 3.0, 3 * member), ("engine", 1.5, engine)):
            figures = dict.fromkeys(("images_per_s", "speedup", "limit", "ratio"), 1.0)
            rows.append({"backend": "eager", "mode": mode, "batch": batch, "mean_cost": cost, "ms": ms, **figures})
    return rows


def test_says_why_ratios_of_tiny_members_are_low(
    irene: Irene, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = measured((1024, 9.0, 15.0), (8, 0.2, 0.8))
    monkeypatch.setattr("irene.runtime.bench.bench", lambda *_, **__: rows)
    done = irene("bench", run_folder, "--quick")
    assert done.code == 0, done.err
    words = "one takes 0.2 ms for a batch of 8 on eager, and stopping adds 0.5 ms"
    assert words in done.out.splitlines()[-1]
    assert "docs/engine.md" in done.out


@pytest.mark.parametrize(
    ("member", "engine"),
    [(0.2, 0.4), (2.0, 8.0)],
    ids=["stopping adds less than a member", "a large member has other reasons"],
)
def test_says_nothing_of_tiny_members_where_they_are_not_the_reason(member: float, engine: float) -> None:
    assert why_low(measured((8, member, engine))) is None


def test_says_where_another_cost_was_timed_than_asked_for() -> None:
    rows = [{"mode": "engine", "mean_cost": cost} for cost in (1.35, 2.0, 2.0)]
    assert off_target(rows[:1], 1.3) is None
    assert "1.3 members a sample were wanted and 1.35 and 2 timed:" in (off_target(rows, 1.3) or "")


def test_says_where_the_picture_is(irene: Irene, run_folder: Path, tmp_path: Path) -> None:
    done = irene("bench", run_folder, "--quick", "--batch", "2", "--out", tmp_path / "bench.svg")
    assert done.out.splitlines()[-1] == f"picture written to {tmp_path / 'bench.svg'}"


def test_mistakes(irene: Irene, run_folder: Path, tmp_path: Path) -> None:
    assert "--batch" in irene("bench", run_folder, "--batch", "0").mistake
    assert "a backend is one of" in irene("bench", run_folder, "--quick", "--backend", "fast").mistake
    assert "pictures are written as" in irene("bench", run_folder, "--quick", "--out", tmp_path / "a.txt").mistake
    assert "cannot be written" in irene("bench", run_folder, "--quick", "--out", run_folder / "run.json/a.svg").mistake
    assert "not a run" in irene("bench", tmp_path).mistake
    assert "--cost is from 1 to the 3 members of the run, got 4" in irene("bench", run_folder, "--cost", "4").mistake
