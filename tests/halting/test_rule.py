"""The one step of every cascade: aggregate, score, decide."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from irene.errors import OptionError
from irene.halting.policies import Confidence, Never, Random
from irene.halting.rule import Aggregation, Rule, sound_scores

WEIGHTS, TEMPERATURES = (0.5, 2.0, 1.0), (1.0, 0.7, 3.0)


def test_observe_is_the_weighted_mean_of_tempered_probabilities() -> None:
    outputs = torch.randn(6, 3, 2, 4)
    aggregation = Aggregation(WEIGHTS, TEMPERATURES)
    sum_BK = torch.zeros(6, 4)
    for t in range(3):
        step, sum_BK = aggregation.observe(t, outputs[:, t], sum_BK, "classification")
        scaled = outputs.double().numpy() / np.array(TEMPERATURES)[None, :, None, None]
        probs = np.exp(scaled) / np.exp(scaled).sum(-1, keepdims=True)
        expected = np.average(probs[:, : t + 1, 0], axis=1, weights=WEIGHTS[: t + 1])
        np.testing.assert_allclose(step.mean_BK.numpy(), expected, rtol=1e-5)
        np.testing.assert_allclose(step.heads_BHK.numpy(), probs[:, t], rtol=1e-5)
        assert (step.index, step.steps) == (t, 3)


def test_values_of_regression_are_averaged_as_they_are() -> None:
    outputs = torch.randn(6, 2, 1, 4)
    aggregation = Aggregation((1.0, 3.0), (5.0, 7.0))
    _, sum_BK = aggregation.observe(0, outputs[:, 0], torch.zeros(6, 4), "regression")
    step, _ = aggregation.observe(1, outputs[:, 1], sum_BK, "regression")
    torch.testing.assert_close(step.mean_BK, (outputs[:, 0, 0] + 3 * outputs[:, 1, 0]) / 4)


def test_half_precision_outputs_are_averaged_in_float32() -> None:
    step, _ = Aggregation.equal(1).observe(
        0, torch.randn(3, 1, 4, dtype=torch.bfloat16), torch.zeros(3, 4), "classification"
    )
    assert step.mean_BK.dtype == torch.float32


def test_everybody_stops_at_the_last_step() -> None:
    rule = Rule(Never(), Aggregation.equal(2), "classification")
    state = rule.start(3, 4, torch.device("cpu"))
    first, state = rule.step(0, torch.randn(3, 1, 4), state)
    last, _ = rule.step(1, torch.randn(3, 1, 4), state)
    assert not first.halt_B.any()
    assert last.halt_B.all()


def test_a_score_that_reaches_the_threshold_stops() -> None:
    logits = torch.tensor([[[0.0, 0.0]], [[1.0, 0.0]]])
    rule = Rule(Confidence(0.5), Aggregation.equal(2), "classification")
    outcome, _ = rule.step(0, logits, rule.start(2, 2, torch.device("cpu")))
    assert outcome.halt_B.tolist() == [True, True]
    higher = Rule(Confidence(0.51), Aggregation.equal(2), "classification")
    outcome, _ = higher.step(0, logits, higher.start(2, 2, torch.device("cpu")))
    assert outcome.halt_B.tolist() == [False, True]


def test_a_score_that_is_no_number_stops_nobody() -> None:
    """NaN from the policy itself, and a score for an answer that is not finite."""
    scores = torch.tensor([math.nan, 1.0, 1.0, 1.0, -math.inf])
    means = torch.tensor([[0.5, 0.5], [math.nan, 0.5], [0.5, math.inf], [0.5, 0.5], [0.5, 0.5]])
    assert sound_scores(scores, means).tolist() == [-math.inf, -math.inf, -math.inf, 1.0, -math.inf]
    rule = Rule(Random(0.0), Aggregation.equal(2), "classification")  # whose score never looks at the answer
    outcome, _ = rule.step(0, torch.tensor([[[math.nan, 0.0]], [[1.0, 0.0]]]), rule.start(2, 2, torch.device("cpu")))
    assert outcome.halt_B.tolist() == [False, True]


def test_a_compiler_does_not_take_what_is_no_number_for_one() -> None:
    """As it does with `0 * x`, which it takes for 0."""
    scores, means = torch.rand(16), torch.rand(16, 5)
    scores[2], means[4, 3], means[7, 0], means[9, 4] = math.nan, math.nan, math.inf, -math.inf
    found = torch.compile(sound_scores)(scores, means)
    assert torch.equal(found, sound_scores(scores, means))
    assert (found == -math.inf).nonzero()[:, 0].tolist() == [2, 4, 7, 9]


def test_members_of_different_widths_are_refused() -> None:
    rule = Rule(Never(), Aggregation.equal(2), "classification")
    state = rule.start(3, 4, torch.device("cpu"))
    with pytest.raises(OptionError, match="member 2 gave 1 outputs a sample and the first one 4"):
        rule.step(1, torch.randn(3, 1, 1), state)


def test_some_members_keep_their_weights_and_temperatures() -> None:
    some = Aggregation(WEIGHTS, TEMPERATURES).members([2, 0])
    assert some == Aggregation((1.0, 0.5), (3.0, 1.0))


def test_aggregation_survives_json() -> None:
    aggregation = Aggregation(WEIGHTS, TEMPERATURES)
    assert Aggregation.from_dict(aggregation.to_dict()) == aggregation


@pytest.mark.parametrize(
    ("weights", "temperatures"),
    [
        ((), ()),
        ((1.0, 1.0), (1.0,)),
        ((0.0, 1.0), (1.0, 1.0)),
        ((1.0, -1.0), (1.0, 1.0)),
        ((1.0, 1.0), (1.0, 0.0)),
        ((1.0, math.nan), (1.0, 1.0)),
        ((1.0, 1.0), (1.0, math.inf)),
    ],
)
def test_weights_that_give_no_mean_are_refused(weights: tuple[float, ...], temperatures: tuple[float, ...]) -> None:
    with pytest.raises(OptionError, match=r"weight|temperature"):
        Aggregation(weights, temperatures)
