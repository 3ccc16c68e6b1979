"""compare: all methods that fit, one table, and a clear word about those that are missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from irene.data import Data
from irene.errors import OptionError, TrainingError
from irene.evaluation import experiment as experiments
from irene.evaluation.compare import compare
from irene.evaluation.experiment import Experiment
from irene.evaluation.jobs import Job, Outcome, do
from irene.run import Run
from irene.training.methods import METHODS
from irene.training.methods.irene import IreneOptions
from irene.training.options import LoopOptions, OptimizerOptions

LOOP = LoopOptions(epochs=2, batch_size=32, optimizer=OptimizerOptions(lr=0.02))


class Here:
    """A pool that does jobs in this process; those named in `killed` are lost."""

    slots = 1
    killed: tuple[str, ...] = ()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.jobs: list[Job] = []

    def start(self, job: Job) -> None:
        self.jobs.append(job)

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        job = self.jobs.pop()
        return [(job, Outcome("lost", "killed") if job.name in self.killed else do(job))]

    def close(self) -> None:
        return


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "job_workers", Here)


def make(data: Data, out: Path, **options: Any) -> Experiment:
    return Experiment(data=data, out=out, device="cpu", **{"seeds": 1, "loop": LOOP, **options})


def test_all_methods_less_those_that_do_not_fit(curve: Data, tmp_path: Path) -> None:
    found = compare(make(curve, tmp_path), members=2)
    assert set(found.done.left_out()) == {"sparse-moe-t2-s0", "woc-t2-s0", "distil-t2-s0"}
    assert "this is regression" in found.done.left_out()["woc-t2-s0"]
    assert "the top 2 of 2 members is all of them" in found.done.left_out()["sparse-moe-t2-s0"]
    assert "these cost the same" in found.done.left_out()["distil-t2-s0"]
    left_out = ("woc", "sparse-moe", "distil")
    assert [row.name for row in found.table.rows] == [name for name in METHODS if name not in left_out]
    assert found.table.reference == "average"
    assert not (tmp_path / "woc-t2-s0").exists()
    assert {path.name for path in found.files} == {"table.csv", "table.json", "table.md", "table.tex"}


def test_a_method_that_was_asked_for_must_fit(curve: Data, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="woc-t3-s0: woc stops by class probabilities"):
        compare(make(curve, tmp_path), ["average", "woc"])
    assert Run.open(tmp_path / "average-t3-s0").finished


def test_a_lost_run_is_missing_from_the_table_and_made_up_for_later(
    blobs: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Here, "killed", ("average-t3-s1",))
    found = compare(make(blobs, tmp_path, seeds=2), ["single", "average"])
    assert found.done.lost() == {"average-t3-s1": "killed"}
    assert [(row.name, row.seeds) for row in found.table.rows] == [("single", (0, 1)), ("average", (0,))]

    monkeypatch.setattr(Here, "killed", ())
    again = compare(make(blobs, tmp_path, seeds=2), ["single", "average"])
    assert list(again.done.outcomes) == ["average-t3-s1"]
    assert [row.seeds for row in again.table.rows] == [(0, 1), (0, 1)]


def test_nothing_left_is_an_error(blobs: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Here, "killed", ("single-s0",))
    with pytest.raises(TrainingError, match="no run was finished; single-s0: killed"):
        compare(make(blobs, tmp_path), ["single"])


def test_options_of_a_method_and_another_reference(blobs: Data, tmp_path: Path) -> None:
    own = {"irene": IreneOptions(cost=1.6)}
    found = compare(make(blobs, tmp_path), ["single", "irene"], members=2, own=own, reference="irene")
    assert Run.open(tmp_path / "irene-t2-s0").manifest["options"]["method"]["cost"] == 1.6
    assert found.table.reference == "irene"
    assert json.loads((tmp_path / "table.json").read_text())["rows"][1]["gain"] is None


@pytest.mark.parametrize(
    ("methods", "reference", "words"),
    [(["average", "irena"], None, "did you mean irene"), (["single"], "average", "one of the methods compared")],
)
def test_mistakes_show_before_anything_is_trained(
    blobs: Data, tmp_path: Path, methods: list[str], reference: str | None, words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        compare(make(blobs, tmp_path / "out"), methods, reference=reference)
    assert not (tmp_path / "out").exists()


def test_options_of_a_method_that_is_not_compared_are_a_mistake(blobs: Data, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="options are given for irene, which is not among the methods compared"):
        compare(make(blobs, tmp_path / "out"), ["single"], own={"irene": IreneOptions(cost=1.6)})
    assert not (tmp_path / "out").exists()
