"""The verbs that look and tell: evaluate, report, data, methods, doctor, demo."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from irene.cli import doctor
from irene.data import names
from irene.run import Run
from irene.training.methods import METHODS
from irene.training.options import LoopOptions

Irene = Callable[..., Any]


@pytest.mark.parametrize("split", ["test", "heldout"])
def test_evaluate_replays_what_training_measured(irene: Irene, run_folder: Path, split: str) -> None:
    said = irene("evaluate", run_folder, "--split", split, "--json").json
    assert (said["method"], said["split"]) == ("irene", split)
    assert said[split] == Run.open(run_folder).figures[split]
    assert said["samples"] == len(Run.open(run_folder).bank(split))


def test_evaluate_on_the_same_data_gives_the_same(irene: Irene, run_folder: Path, files: Path) -> None:
    on_bank = irene("evaluate", run_folder, "--json").json["test"]
    on_data = irene("evaluate", run_folder, "--data", f"npz:{files / 'points.npz'}", "--json").json["test"]
    assert on_data.pop("used") == on_bank.pop("used")
    assert on_data == pytest.approx(on_bank, rel=1e-5)


def test_evaluate_shows_every_figure(irene: Irene, run_folder: Path) -> None:
    done = irene("evaluate", run_folder)
    assert "on npz:points.npz, 48 test samples" in done.out
    assert all(name in done.out for name in ("accuracy", "nll", "ece", "cost", "used 3", "flops", "ms"))


def test_evaluate_refuses_what_does_not_fit(irene: Irene, run_folder: Path, files: Path) -> None:
    for flags, words in (
        (("--split", "train"), "no bank of the train split"),
        (("--data", "digits"), "samples of shape [1, 8, 8]"),
        (("--data", "diabetes"), "is for regression"),
        (("--data", f"npz:{files / 'points.npz'}", "--split", "heldout"), "leave out --split heldout"),
        (("--target", "size"), "say how to read --data"),
    ):
        assert words in irene("evaluate", run_folder, *flags).mistake


def test_nan_is_null(irene: Irene, run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irene.metrics.error_auroc", lambda *_: float("nan"))
    assert irene("evaluate", run_folder, "--json").json["test"]["error_auroc"] is None


def test_report(irene: Irene, run_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "report.html"
    said = irene("report", run_folder, "--out", out, "--json").json
    assert said == {"report": str(out), "runs": [str(run_folder)], "split": "test"}
    assert out.read_text().startswith("<!doctype html>")
    assert str(out) in irene("report", run_folder, "--out", out).out.replace("\n", "")


def test_data_lists_and_describes(irene: Irene, files: Path) -> None:
    assert [source["name"] for source in irene("data", "--json").json["sources"]] == [name for name, _ in names()]
    assert "folder:PATH" in irene("data").out
    said = irene("data", f"csv:{files / 'table.csv'}", "--target", "kind", "--heldout", "24", "--json").json
    assert said["classes"] == ["ash", "elm", "oak"]
    assert said["sizes"] == {"train": 168, "heldout": 24, "test": 48}
    shown = irene("data", f"csv:{files / 'table.csv'}", "--target", "kind").out
    assert "colour, size" in shown
    assert "359 samples, 35 to 37 a class" in irene("data", "digits").out
    assert "progression from" in irene("data", "diabetes").out


def test_classes_of_one_size_have_that_size(irene: Irene, tmp_path: Path) -> None:
    (tmp_path / "even.csv").write_text("x,kind\n" + "1,a\n2,b\n" * 50)
    assert re.search(
        r"train +64 samples, 32 a class", irene("data", f"csv:{tmp_path / 'even.csv'}", "--target", "kind").out
    )


def test_methods(irene: Irene) -> None:
    said = {method["name"]: method for method in irene("methods", "--json").json["methods"]}
    assert list(said) == list(METHODS)
    assert said["irene"]["description"] == METHODS["irene"].description
    assert "loss_weights.rank" in said["irene"]["options"]
    assert said["single"]["options"] == []
    shown = irene("methods").out
    assert all(name in shown for name in METHODS)


def test_doctor_tells_what_is_missing(irene: Irene, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["numpy>=1.26", 'pillow>=9; extra == "one"', 'no-such-thing[x]>=1; extra == "one"', "rich; extra == 'two'"]
    monkeypatch.setattr(metadata, "requires", lambda _: wanted)
    said = irene("doctor", "--json").json
    assert (said["device"] == "cpu") == (said["gpu"] is None)
    assert said["extras"]["one"] == {
        "installed": False,
        "packages": {"pillow": metadata.version("pillow"), "no-such-thing": None},
        "install": "pip install 'irene-ensemble[one]'",
    }
    assert said["extras"]["two"]["installed"]
    shown = " ".join(irene("doctor").out.split())
    assert "missing no-such-thing: pip install 'irene-ensemble[one]'" in shown


def test_doctor_tells_of_threads_that_a_container_leaves_no_cores_for(
    irene: Irene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("irene.processes.most_cores", lambda: 0.5)
    monkeypatch.setattr("irene.devices.most_memory", lambda: 2_000_000)
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    said = irene("doctor", "--json").json
    assert (said["threads"], said["cores"], said["memory"]) == (2, 1, 2_000_000)
    shown = " ".join(irene("doctor").out.split())
    assert "2 threads, 1 cores: more than may run at once, so set OMP_NUM_THREADS=1" in shown
    assert "memory 2MB" in shown
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)
    assert "OMP_NUM_THREADS" not in irene("doctor").out


def test_doctor_without_an_installation(irene: Irene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(_: str) -> list[str]:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", missing)
    assert irene("doctor", "--json").json["extras"] == {}
    assert "not installed" in irene("doctor").out
    assert doctor.can_write(tmp_path)
    assert not doctor.can_write(tmp_path / "nowhere")


def test_demo(irene: Irene, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irene.evaluation.demo.LOOP", LoopOptions(epochs=1, batch_size=256))
    keep = workplace / "runs" / "demo" / "notes.txt"
    keep.parent.mkdir(parents=True)
    keep.write_text("mine")
    done = irene("demo")
    assert done.code == 0, done.err
    assert all(word in done.out for word in ("single", "average", "irene", "accuracy", "FLOPs", "utility"))
    report = workplace / "runs" / "demo" / "report.html"
    assert report.exists()
    assert "member-1" in done.err
    first = json.loads((workplace / "runs" / "demo" / "irene" / "run.json").read_text())
    said = irene("demo", "--json").json  # again: fresh runs in place of the old ones
    again = json.loads((workplace / "runs" / "demo" / "irene" / "run.json").read_text())
    assert again["command"] == "irene demo --json"
    assert first["figures"]["test"]["accuracy"] == again["figures"]["test"]["accuracy"]
    assert said["test"]["irene"]["cost"] == again["figures"]["test"]["cost"]
    assert keep.read_text() == "mine"
    predict, evaluate, train = said["next"]
    assert irene(*predict.split()[1:]).code == 0
    assert irene(*evaluate.split()[1:]).code == 0
    assert train.startswith("irene train irene ")


def test_demo_removes_nothing_but_its_runs(irene: Irene, workplace: Path) -> None:
    mine = workplace / "runs" / "demo" / "single"
    mine.mkdir(parents=True)
    (mine / "thesis.txt").write_text("five years of work")
    done = irene("demo")
    assert done.code == 2
    assert "exists already" in done.err.splitlines()[-1]
    assert (mine / "thesis.txt").read_text() == "five years of work"
