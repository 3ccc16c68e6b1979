"""Only what is missing is trained, and members are trained once where methods share them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from irene.data import Data, load
from irene.errors import OptionError, RunError
from irene.evaluation.experiment import Experiment, Variant, default_loop
from irene.run import Run
from irene.training.options import LoopOptions

LOOP = LoopOptions(epochs=2, batch_size=32)


@pytest.fixture(scope="module")
def out(blobs: Data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two seeds, by two worker processes."""
    folder = tmp_path_factory.mktemp("experiment")
    experiment = Experiment(data=blobs, out=folder, seeds=2, device="cpu", loop=LOOP, workers=2)
    done = experiment.run([Variant(method=name) for name in ("single", "average", "woc")])
    assert {outcome.status for outcome in done.outcomes.values()} == {"finished"}
    return folder


def test_runs_lie_side_by_side(out: Path) -> None:
    assert sorted(path.name for path in out.iterdir()) == [
        *("average-t3-s0", "average-t3-s1", "single-s0", "single-s1", "woc-t3-s0", "woc-t3-s1")
    ]
    assert Run.open(out / "woc-t3-s1").manifest["seed"] == 1


@pytest.mark.parametrize(("name", "members"), [("single", 1), ("woc-t3", 3)])
def test_members_were_trained_once(out: Path, name: str, members: int) -> None:
    for seed in range(2):
        average, other = Run.open(out / f"average-t3-s{seed}"), Run.open(out / f"{name}-s{seed}")
        assert list(other.epochs().values()) == list(average.epochs().values())[:members], "to the second"
        digests = [entry["sha256"] for entry in average.manifest["members"]]
        assert [entry["sha256"] for entry in other.manifest["members"]] == digests[:members]


def test_what_is_there_is_not_trained_again(out: Path, blobs: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irene.evaluation.experiment.run_jobs", None)  # nothing may be done
    experiment = Experiment(data=blobs, out=out, seeds=2, device="cpu", loop=LOOP)
    done = experiment.run([Variant(method="average"), Variant(method="single")])
    assert [run.path.name for run in done.runs] == ["average-t3-s0", "single-s0", "average-t3-s1", "single-s1"]
    assert done.outcomes == {}


def test_a_folder_that_cannot_be_written_is_refused_before_any_job(
    blobs: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("irene.evaluation.experiment.run_jobs", None)
    (tmp_path / "file").touch()
    experiment = Experiment(data=blobs, out=tmp_path / "file" / "runs", seeds=2, device="cpu", loop=LOOP)
    with pytest.raises(OptionError, match=r"runs/single-s0 cannot be written: Not a directory"):
        experiment.run([Variant(method="single")])


def test_other_options_are_not_mixed_with_what_is_there(out: Path, blobs: Data) -> None:
    experiment = Experiment(data=blobs, out=out, seeds=1, device="cpu", loop=LoopOptions(epochs=9))
    with pytest.raises(RunError, match=r"started with options\.loop\."):
        experiment.run([Variant(method="average")])


def test_who_takes_members_of_whom(blobs: Data, tmp_path: Path) -> None:
    experiment = Experiment(data=blobs, out=tmp_path, seeds=1, backbones=("mlp", "cnn", "mlp", "mlp"))
    variants = [
        Variant(method="average", members=4),
        Variant(method="woc", members=3),
        Variant(method="irene", members=2, name="odd"),
        Variant(method="single", members=4),
    ]
    average, woc, irene, single = experiment.jobs(variants)
    assert woc.members_of == average.folder == tmp_path / "average-t4-s0"
    assert woc.options.backbones == ("mlp", "cnn", "mlp")
    assert irene.members_of is None
    assert irene.name == "irene-odd-t2-s0"
    assert single.members_of == average.folder
    (alone,) = experiment.jobs([Variant(method="woc")])
    assert alone.members_of is None
    assert average.loop == default_loop(blobs)


def test_few_samples_take_small_batches() -> None:
    small = load("digits")
    assert default_loop(small) == LoopOptions(epochs=15, batch_size=64)
    many = small.train.subset(torch.arange(len(small.train)).repeat(8))
    assert default_loop(replace(small, train=many)) == LoopOptions()


@pytest.mark.parametrize("given", [{"seeds": 0}, {"workers": 0}])
def test_nothing_to_do_is_a_mistake(blobs: Data, tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="got 0"):
        Experiment(data=blobs, out=tmp_path, **given)
