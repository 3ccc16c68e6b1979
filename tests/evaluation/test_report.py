"""A report says what the runs achieve, in one file."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from irene.data import Data
from irene.errors import OptionError, RunError
from irene.evaluation.evaluate import Evaluation, evaluate
from irene.evaluation.facts import facts, flatten, learning
from irene.evaluation.report import headline, render_report, write_report
from irene.evaluation.table_files import written_utility
from irene.run import Run
from irene.training.options import LoopOptions
from irene.training.train import TrainOptions, train


def test_everything_is_in_the_report(runs: dict[str, Run], tmp_path: Path) -> None:
    path = write_report(list(runs.values()), tmp_path / "report.html")
    text = path.read_text()
    for run in runs.values():
        assert run.method in text
        assert run.manifest["data"]["fingerprint"] in text
        assert str(run.path) in text
    accuracy, against = (evaluate(runs[method]).figures["accuracy"] for method in ("irene", "average"))
    assert f"<td>{accuracy:.2%}</td>" in text
    assert f"<td>{100 * (accuracy - against):+.2f} [" in text
    assert text.count("<svg") == 4
    for heading in ("Accuracy against cost", "Members a sample used", "honest", "Learning curves", "What was run"):
        assert heading in text
    assert "loop.epochs=3" in text
    assert "against average" in text


def test_utilities_are_those_of_the_comparison(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irene.evaluation.report.utility", lambda ones, kinds: 0.0000631)
    text = render_report([evaluate(runs[method]) for method in ("average", "irene")])
    assert text.count(f"<td>{written_utility(0.0000631)}</td>") == 2
    assert "e-05" not in text


def test_a_report_of_regression(regression_runs: list[Run]) -> None:
    evaluations = [evaluate(run) for run in regression_runs]
    text = render_report(evaluations)
    assert "RMSE against cost" in text
    assert "Predicted against true" in text
    assert f"{evaluations[1].figures['rmse']:.4g}" in headline(evaluations, ["average", "irene"])


def test_one_run_is_enough(runs: dict[str, Run]) -> None:
    assert "with one model." in render_report([evaluate(runs["single"])])


def test_the_headline_compares_with_the_average(runs: dict[str, Run]) -> None:
    average, irene = evaluate(runs["average"]), evaluate(runs["irene"])
    said = headline([average, irene], ["average", "irene"])
    share = irene.figures["flops"] / average.figures["flops"]
    assert said.startswith(f"irene answers {irene.figures['accuracy']:.1%} of the blobs test samples right")
    assert said.endswith(f"the whole average ensemble at {share:.0%} of its FLOPs.")
    uncounted = replace(average, figures={**average.figures, "flops": math.nan})
    share = irene.figures["cost"] / 3
    assert headline([uncounted, irene], ["average", "irene"]).endswith(f"at {share:.0%} of its members.")
    alone = headline([irene], ["irene"])
    assert alone.endswith(f"with {irene.figures['cost']:.2f} of its 3 members a sample.")


def judged(one: Evaluation, heldout: float | None, test: float) -> Evaluation:
    """A run that stops early, with these accuracies."""
    figures = {} if heldout is None else {"heldout": {"accuracy": heldout, "cost": 1.5}}
    run = Run(one.run.path, {**one.run.manifest, "figures": figures})
    return replace(one, run=run, figures={**one.figures, "accuracy": test, "cost": 1.5})


def test_the_headline_run_is_not_chosen_on_the_samples_it_is_judged_on(runs: dict[str, Run]) -> None:
    average, irene = evaluate(runs["average"]), evaluate(runs["irene"])
    lucky, better = judged(irene, 0.8, 0.95), judged(irene, 0.9, 0.85)
    said = headline([average, lucky, better], ["average", "lucky", "better"])
    assert said.startswith("better (of 2 runs that stop early, the best by held-out accuracy) answers 85.0% of")
    said = headline([average, lucky, judged(irene, None, 0.85)], ["average", "lucky", "better"])
    assert said.startswith("lucky (of 2 runs that stop early, the best by test accuracy) answers 95.0% of")


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [(0.9, 1.0, "10.0% less error than"), (1.0, 0.0, ", more error than"), (0.0, 0.0, "with the error of")],
)
def test_the_error_of_the_average_may_be_none(
    regression_runs: list[Run], mine: float, theirs: float, said: str
) -> None:
    average, irene = (evaluate(run) for run in regression_runs)
    irene = replace(irene, figures={**irene.figures, "rmse": mine, "cost": 1.5})
    average = replace(average, figures={**average.figures, "rmse": theirs})
    assert f"{said} the whole average ensemble" in headline([average, irene], ["average", "irene"])


def test_a_run_given_twice_is_refused(runs: dict[str, Run], tmp_path: Path) -> None:
    run = runs["average"]
    again = Run.open(run.path / ".." / run.path.name)
    with pytest.raises(OptionError, match="is given twice: name each run once"):
        write_report([run, runs["irene"], again], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_folder_in_the_place_of_the_file_is_refused_first(
    runs: dict[str, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "bank", lambda *_: pytest.fail("was evaluated"))
    with pytest.raises(OptionError, match=rf"^{tmp_path} is a folder: name a file$"):
        write_report(list(runs.values()), tmp_path)


@pytest.mark.parametrize(
    ("accuracy", "words"),
    [(0.9, "as many as"), (0.92, "2.0 points more than"), (0.885, "1.5 points fewer than")],
)
def test_the_headline_is_honest(runs: dict[str, Run], accuracy: float, words: str) -> None:
    average, irene = evaluate(runs["average"]), evaluate(runs["irene"])
    average.figures["accuracy"], irene.figures["accuracy"] = 0.9, accuracy
    assert f"{words} the whole average ensemble" in headline([average, irene], ["average", "irene"])


def test_runs_of_two_tasks_need_two_reports(runs: dict[str, Run], regression_runs: list[Run], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="one task"):
        write_report([runs["single"], regression_runs[0]], tmp_path / "report.html")
    with pytest.raises(RunError, match="at least one run"):
        write_report([], tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_runs_of_two_data_sets_need_two_reports(runs: dict[str, Run], tmp_path: Path) -> None:
    run = runs["irene"]
    other = Run(run.path, {**run.manifest, "data": {**run.manifest["data"], "fingerprint": "other"}})
    for split in ("test", "heldout"):
        with pytest.raises(RunError, match="not evaluated on the same samples: compare runs of one data set"):
            write_report([runs["average"], other], tmp_path / "report.html", split=split)
    assert not list(tmp_path.iterdir())


def test_heldout_samples_differ_by_seed(runs: dict[str, Run], blobs: Data, tmp_path: Path) -> None:
    loop = LoopOptions(epochs=1, batch_size=32)
    other = train("single", blobs, tmp_path / "other", options=TrainOptions(seed=1, device="cpu"), loop=loop)
    assert write_report([runs["single"], other], tmp_path / "report.html", split="heldout").exists()


def test_facts_tell_how_to_run_it_again(runs: dict[str, Run]) -> None:
    run = Run(runs["irene"].path, {**runs["irene"].manifest, "command": "irene train irene"})
    told = facts(run)
    assert told["command"] == "irene train irene"
    assert told["members"] == "mlp, mlp, mlp"
    assert "192 train" in told["data"]
    assert told["policy"].startswith("selector, threshold ")
    assert facts(runs["single"])["policy"] == "never"
    assert "command" not in facts(runs["single"])


def test_options_are_flattened() -> None:
    assert flatten({"a": {"b": 1, "c": {"d": None}}, "e": [1, 2]}) == {"a.b": "1", "a.c.d": "null", "e": "[1, 2]"}


def test_learning_curves_come_from_the_metrics(runs: dict[str, Run]) -> None:
    curves = learning(runs["irene"])
    assert list(curves) == ["member-1", "member-2", "member-3"]  # and not the selector's
    first = json.loads((runs["irene"].path / "metrics.jsonl").read_text().splitlines()[0])
    assert curves["member-1"][0] == first["base"]
    assert all(len(losses) == 3 for losses in curves.values())


def test_a_run_without_metrics_has_no_curves(runs: dict[str, Run], tmp_path: Path) -> None:
    assert learning(Run(tmp_path, {})) == {}
    (tmp_path / "metrics.jsonl").write_text('{"stage": "member-1"\n')
    with pytest.raises(RunError, match=r"metrics.jsonl: has a line"):
        learning(Run(tmp_path, {}))
