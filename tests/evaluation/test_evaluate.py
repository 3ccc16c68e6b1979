"""Figures replayed from banks are those of running the members, and comparisons compare like with like."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from irene import metrics
from irene.data import Data, from_arrays
from irene.errors import DataError, RunError
from irene.evaluation.evaluate import Evaluation, evaluate, evaluate_on, frontier_points, labels, reference
from irene.halting.policies import Margin
from irene.run import Run


@pytest.mark.parametrize("method", ["single", "average", "irene", "sparse-moe"])
def test_replay_equals_running_the_members(
    runs: dict[str, Run], blobs: Data, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("irene.evaluation.evaluate._BATCH", 17)
    evaluation = evaluate(runs[method])
    prediction = runs[method].predictor().predict(blobs.test.read(range(len(blobs.test))))
    torch.testing.assert_close(evaluation.prediction.outputs, prediction.outputs)
    assert torch.equal(evaluation.prediction.members_used, prediction.members_used)
    judged = evaluate_on(runs[method], blobs)
    assert (judged.split, judged.samples) == ("test", len(blobs.test))
    figures = judged.figures
    assert figures.pop("used") == evaluation.figures["used"]
    assert figures == pytest.approx({key: value for key, value in evaluation.figures.items() if key != "used"})


def test_figures_are_those_of_training(runs: dict[str, Run]) -> None:
    for run in runs.values():
        for split in ("heldout", "test"):
            assert evaluate(run, split).figures == run.figures[split]


def test_flops_and_ms_count_the_members_that_ran(runs: dict[str, Run]) -> None:
    evaluation = evaluate(runs["irene"])
    each = [cost.flops for cost in runs["irene"].costs]
    expected = np.mean([sum(each[:used]) for used in evaluation.prediction.members_used.tolist()])
    assert evaluation.figures["flops"] == pytest.approx(expected)


def test_the_gate_of_a_mixture_runs_on_every_sample_and_is_no_member(runs: dict[str, Run]) -> None:
    run = runs["sparse-moe"]
    evaluation = evaluate(run)
    assert run.gate_cost is not None
    each = np.array([cost.flops for cost in run.costs])
    experts = (evaluation.prediction.ran.numpy() @ each).mean()
    assert evaluation.figures["flops"] == pytest.approx(experts + run.gate_cost.flops)
    assert evaluation.figures["cost"] == 2
    assert runs["irene"].gate_cost is None


def test_who_stops_early(runs: dict[str, Run]) -> None:
    assert [name for name, run in runs.items() if evaluate(run).stops_early] == ["irene", "sparse-moe"]


def test_no_such_split(runs: dict[str, Run]) -> None:
    with pytest.raises(RunError, match="no bank of the train split"):
        evaluate(runs["single"], "train")


def test_the_frontier_holds_what_each_threshold_gives(runs: dict[str, Run]) -> None:
    evaluation = evaluate(runs["average"])
    points = set(zip(*frontier_points(evaluation, Margin()), strict=True))
    for threshold in (0.05, 0.3, 0.6, 0.9):
        replayed = evaluation.bank.replay(Margin(threshold))
        cost = float(replayed.members_used.double().mean())
        right = metrics.accuracy(replayed.probs, evaluation.bank.targets)
        assert any(cost == pytest.approx(c) and right == pytest.approx(r) for c, r in points)


def test_the_frontier_runs_from_one_member_to_all_and_is_thinned(
    runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("irene.evaluation.evaluate._MOST_POINTS", 9)
    cost, quality = frontier_points(evaluate(runs["irene"]))
    assert len(cost) == len(quality) <= 9
    assert cost == sorted(cost)
    assert (cost[0], cost[-1]) == (1.0, 3.0)


def test_the_frontier_of_regression_is_in_rmse(regression_runs: list[Run]) -> None:
    evaluation = evaluate(regression_runs[1])
    _, rmse = frontier_points(evaluation)
    whole = evaluation.bank.replay(aggregation=evaluation.run.aggregation)
    assert rmse[-1] == pytest.approx(math.sqrt(metrics.mse(whole.values, evaluation.bank.targets)))


def test_references_are_of_the_same_samples(runs: dict[str, Run]) -> None:
    irene, average = evaluate(runs["irene"]), evaluate(runs["average"])
    manifest = runs["average"].manifest
    other = manifest | {"data": manifest["data"] | {"fingerprint": "of other data"}}
    elsewhere = replace(average, run=Run(runs["average"].path, other))
    fewer = replace(average, bank=average.bank.rows(torch.arange(10)))
    assert reference([elsewhere, fewer, irene], irene) is None
    assert reference([elsewhere, fewer, average], irene) is average


def test_references_are_of_the_same_seed_if_there_is_one(runs: dict[str, Run]) -> None:
    average, irene = evaluate(runs["average"]), evaluate(runs["irene"])
    second, third = (
        replace(one, run=Run(one.run.path, {**one.run.manifest, "seed": seed}))
        for one, seed in ((average, 1), (irene, 2))
    )
    assert reference([second, average, irene], irene) is average
    assert reference([average, second, irene], second) is second
    assert reference([second, average, third], third) is second


def test_labels_are_short_and_tell_runs_apart(runs: dict[str, Run]) -> None:
    irene = evaluate(runs["irene"])

    def at(path: str) -> Evaluation:
        return replace(irene, run=Run(Path(path), runs["irene"].manifest))

    assert labels([evaluate(runs["single"]), irene]) == ["single", "irene"]
    assert labels([at("a/one"), at("a/two")]) == ["one", "two"]
    assert labels([at("a/one"), at("b/one")]) == ["a/one", "b/one"]
    single = evaluate(runs["single"])
    assert labels([single, at("a/single"), at("b")]) == [str(single.run.path), "a/single", "b"]


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.zeros((40, 4)), np.arange(40) % 3, "samples of shape"),
        (np.zeros((40, 5)), np.arange(40) % 4, "which is none of the 3 known"),
        (np.zeros((40, 5)), np.arange(40) / 7, "is for regression"),
    ],
)
def test_data_that_does_not_fit_is_refused(runs: dict[str, Run], x: object, y: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        evaluate_on(runs["single"], from_arrays(x, y))
