"""Utility of runs whose accuracies are made: the paper's numbers, and the same wherever it is shown."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from irene.bank import Bank
from irene.evaluation.evaluate import Evaluation, evaluate
from irene.evaluation.report import render_report
from irene.evaluation.table import make_table
from irene.evaluation.utility import prefix_accuracy, utility
from irene.run import Run
from irene.types import Cost

SAMPLES = 10_000
SINGLE, AVERAGE = 9494, 9562  # right answers of one ResNet-18 and of three on CIFAR-10, in the paper
Make = Callable[..., Evaluation]


def answers(right: int) -> Tensor:
    """(N, 1, K) logits that say class 0, which is right, for so many samples, and class 1 for the others."""
    wrong_N = torch.arange(SAMPLES) >= right
    return 10 * torch.nn.functional.one_hot(wrong_N.long(), 2).float()[:, None]


def bank(*right: int) -> Bank:
    """Members that get so many samples right, each those that come first."""
    return Bank(
        task="classification",
        outputs=torch.stack([answers(one) for one in right], 1),
        targets=torch.zeros(SAMPLES, dtype=torch.long),
        ids=torch.arange(SAMPLES),
        costs=(Cost(),) * len(right),
    )


@pytest.fixture
def make(runs: dict[str, Run]) -> Make:
    """Makes an evaluation of a method with these answers, right for a share of the samples at a mean cost."""

    def make(method: str, bank: Bank, accuracy: float = math.nan, cost: float = math.nan, seed: int = 0) -> Evaluation:
        run = Run(runs[method].path, {**runs[method].manifest, "seed": seed})
        figures = {"accuracy": accuracy, "cost": cost}
        return replace(evaluate(runs[method]), run=run, bank=bank, figures=figures)

    return make


@pytest.fixture
def average(make: Make) -> Evaluation:
    return make("average", bank(SINGLE, AVERAGE, AVERAGE, 0), 0.5, 4.0)  # the fourth would spoil it


def test_the_scale_is_that_of_the_first_members(average: Evaluation) -> None:
    assert prefix_accuracy(average, 1) == SINGLE / SAMPLES
    assert prefix_accuracy(average, 3) == AVERAGE / SAMPLES


@pytest.mark.parametrize(
    ("accuracy", "cost", "expected"),
    [
        (0.9494, 1.0, 1.0),
        (0.9562, 3.0, 1.0),
        ((0.9494 * 0.9562) ** 0.5, 3**0.5, 1.0),
        (0.9581, 1.32, 3.10),  # IRENE, WoC and fast geometric ensembles in the paper
        (0.9548, 1.15, 2.10),
        (0.9467, 3.0, 0.22),
    ],
)
def test_utility_of_known_accuracies(
    make: Make, average: Evaluation, accuracy: float, cost: float, expected: float
) -> None:
    one = make("irene", average.bank, accuracy, cost)
    assert utility([one], [[one], [average]]) == pytest.approx(expected, abs=0.02)


def test_it_is_of_the_mean_over_seeds(make: Make) -> None:
    scales = [make("average", bank(right, AVERAGE, AVERAGE), seed=seed) for seed, right in enumerate((9484, 9504))]
    ones = [
        make("irene", scales[0].bank, 0.9581 + off, 1.32 - 10 * off, seed) for seed, off in enumerate((0.01, -0.01))
    ]
    assert utility(ones, [scales]) == pytest.approx(3.10, abs=0.02)
    assert math.isnan(utility(ones, [scales[:1]]))


def test_the_first_kind_that_has_all_seeds_is_the_scale(make: Make, average: Evaluation) -> None:
    one = make("irene", average.bank, 0.9581, 1.32)
    elsewhere = make("average", bank(100, AVERAGE, AVERAGE), seed=1)
    other = make("average", bank(9400, AVERAGE, AVERAGE))
    assert utility([one], [[elsewhere], [average], [other]]) == pytest.approx(3.10, abs=0.02)
    assert utility([one], [[other], [average]]) < 3


def test_without_a_scale_there_is_none(make: Make, average: Evaluation, regression_runs: list[Run]) -> None:
    one = make("irene", average.bank, 0.9581, 1.32)
    assert math.isnan(utility([one], [[make("average", bank(SINGLE, AVERAGE))]]))
    assert math.isnan(utility([one], [[replace(average, point="cheap")]]))
    assert math.isnan(utility([one], [[replace(average, bank=average.bank.rows(torch.arange(10)))]]))
    assert math.isnan(utility([one], [[make("single", average.bank)]]))
    values = [evaluate(run) for run in regression_runs]
    assert math.isnan(utility(values[1:], [values]))


def test_report_and_comparison_say_the_same(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs are enough for both: no run of a single model is asked for."""
    table = make_table([runs["average"], runs["irene"]])
    found = {row.name: row.utility for row in table.rows}
    evaluations = [evaluate(runs[name]) for name in ("average", "irene")]
    for one in evaluations:
        assert utility([one], [[other] for other in evaluations]) == pytest.approx(found[one.run.method], nan_ok=True)
    shown: list[float] = []
    monkeypatch.setattr("irene.evaluation.report.written_utility", lambda value: shown.append(value) or "")
    render_report(evaluations)
    assert shown == pytest.approx(list(found.values()), nan_ok=True)
