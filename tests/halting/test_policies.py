"""Each policy's score against a plain reference, and what its threshold means in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy as scipy_entropy
from torch import Tensor

from irene.bank import Bank
from irene.errors import OptionError
from irene.halting.policies import (
    Agreement,
    Confidence,
    Entropy,
    Margin,
    Never,
    Oracle,
    Patience,
    Random,
    Spread,
    Window,
)
from irene.halting.policy import Policy
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.halting.trajectory import follow
from irene.types import Task

CLASS_POLICIES = (Confidence, Margin, Entropy, Agreement, Patience, Window)


def softmax(logits: np.ndarray) -> np.ndarray:
    values = np.exp(logits - logits.max(-1, keepdims=True))
    return values / values.sum(-1, keepdims=True)


def scores(policy: Policy, outputs_NTHK: Tensor, task: Task = "classification") -> np.ndarray:
    """(N, T) scores at all steps."""
    return follow(policy, Aggregation.equal(outputs_NTHK.shape[1]), task, outputs_NTHK).scores_NT.numpy()


def running_means(outputs_NTHK: Tensor) -> np.ndarray:
    """(N, T, K) mean probabilities of the first heads, by numpy in float64."""
    probs = softmax(outputs_NTHK[:, :, 0].double().numpy())
    return np.cumsum(probs, 1) / np.arange(1, probs.shape[1] + 1)[None, :, None]


def from_probs(steps: Sequence[Sequence[float]]) -> Tensor:
    """(1, T, 1, K) logits of one sample whose members answer with these probabilities."""
    return torch.tensor(steps).clamp_min(1e-30).log()[None, :, None]


@pytest.fixture(scope="module")
def outputs(make_bank: Callable[..., Bank]) -> Tensor:
    return make_bank(40, members=5, outputs=4, accuracy=0.6).outputs


def test_never_never_reaches_a_finite_threshold(outputs: Tensor) -> None:
    assert (scores(Never(), outputs) == -math.inf).all()


def test_confidence_is_the_top_probability(outputs: Tensor) -> None:
    np.testing.assert_allclose(scores(Confidence(), outputs), running_means(outputs).max(2), rtol=1e-5)


def test_margin_is_the_lead_over_the_second_class(outputs: Tensor) -> None:
    top = np.sort(running_means(outputs), 2)
    np.testing.assert_allclose(scores(Margin(), outputs), top[..., -1] - top[..., -2], rtol=1e-4, atol=1e-6)


def test_entropy_runs_from_zero_for_uniform_to_one_for_certain(outputs: Tensor) -> None:
    expected = 1 - scipy_entropy(running_means(outputs), axis=2) / math.log(4)
    np.testing.assert_allclose(scores(Entropy(), outputs), expected, rtol=1e-4, atol=1e-6)
    sure_and_not = torch.tensor([[[[0.0, 0.0, 0.0]]], [[[200.0, 0.0, 0.0]]]])
    np.testing.assert_allclose(scores(Entropy(), sure_and_not), [[0], [1]], atol=1e-6)


@pytest.mark.parametrize("policy", CLASS_POLICIES)
def test_a_single_class_is_nothing_to_decide(policy: type[Policy]) -> None:
    with pytest.raises(OptionError, match="classes need at least two outputs a member, got 1"):
        scores(policy(), torch.zeros(2, 3, 1, 1))


def test_agreement_counts_the_members_behind_the_answer(outputs: Tensor) -> None:
    means, votes = running_means(outputs), outputs[:, :, 0].argmax(2).numpy()
    for n, t in np.ndindex(votes.shape):
        behind = (votes[n, : t + 1] == means[n, t].argmax()).sum()
        assert scores(Agreement(), outputs)[n, t] == pytest.approx(behind + means[n, t].max(), abs=1e-4)


def test_agreement_of_two_means_two_members_that_agree() -> None:
    agree = from_probs([[0.6, 0.4], [0.6, 0.4], [0.6, 0.4]])
    differ = from_probs([[0.6, 0.4], [0.1, 0.9], [0.1, 0.9]])
    sure = from_probs([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])  # one vote, however sure, is one vote
    outputs = torch.cat([agree, differ, sure])
    halt = scores(Agreement(2.0), outputs) >= 2.0
    assert halt.tolist() == [[False, True, True], [False, False, True], [False, True, True]]
    assert (scores(Agreement(), from_probs([[0.92, 0.08], [0.5, 0.5]])) >= 1.9)[0, 0]
    assert not (scores(Agreement(), from_probs([[0.88, 0.12], [0.5, 0.5]])) >= 1.9)[0, 0]


def test_patience_counts_the_steps_without_a_change(outputs: Tensor) -> None:
    means = running_means(outputs)
    answers = means.argmax(2)
    for n in range(len(answers)):
        unchanged = 0
        for t in range(answers.shape[1]):
            unchanged = unchanged + 1 if t and answers[n, t] == answers[n, t - 1] else 0
            assert scores(Patience(), outputs)[n, t] == pytest.approx(unchanged + means[n, t].max(), abs=1e-4)


def test_patience_of_one_means_unchanged_once() -> None:
    stays = from_probs([[0.6, 0.4], [0.6, 0.4], [0.6, 0.4]])
    turns = from_probs([[0.6, 0.4], [0.1, 0.9], [0.1, 0.9]])
    sure = from_probs([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    halt = scores(Patience(1.0), torch.cat([stays, turns, sure])) >= 1.0
    assert halt.tolist() == [[False, True, True], [False, False, True], [False, True, True]]


@pytest.mark.parametrize("width", [1, 2, 3, 9])
def test_window_averages_the_last_confidences(outputs: Tensor, width: int) -> None:
    confidence = running_means(outputs).max(2)
    expected = [confidence[:, max(0, t + 1 - width) : t + 1].mean(1) for t in range(confidence.shape[1])]
    np.testing.assert_allclose(scores(Window(width=width), outputs), np.stack(expected, 1), rtol=1e-5)


def test_a_window_needs_a_width() -> None:
    with pytest.raises(OptionError, match="width of at least 1, got 0"):
        Window(width=0)


@pytest.mark.parametrize("heads", [1, 2])
def test_spread_is_the_distance_of_the_heads_from_the_answer(make_bank: Callable[..., Bank], heads: int) -> None:
    outputs = make_bank(20, heads=heads, outputs=2, task="regression").outputs
    values = outputs.double().numpy()
    found = scores(Spread(), outputs, "regression")
    means = np.cumsum(values[:, :, 0], 1) / np.arange(1, 4)[None, :, None]
    squares = ((values - means[:, :, None]) ** 2).mean((2, 3))
    expected = -np.sqrt(np.cumsum(squares, 1) / np.arange(1, 4))
    if heads == 1:  # one value alone says nothing of its spread
        expected[:, 0] = -math.inf
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_random_is_a_coin_a_row_that_the_seed_fixes() -> None:
    outputs = torch.zeros(4000, 3, 1, 2)
    first = scores(Random(seed=3), outputs)
    assert np.array_equal(first, scores(Random(seed=3), outputs))
    assert not np.array_equal(first, scores(Random(seed=4), outputs))
    assert np.array_equal(first[:7], scores(Random(seed=3), outputs[:7]))
    assert first.mean() == pytest.approx(0.5, abs=0.02)


def test_oracle_stops_at_the_first_right_answer(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(50, accuracy=0.5)
    right = running_means(bank.outputs).argmax(2) == bank.targets.numpy()[:, None]
    used = bank.replay(Oracle(bank.targets)).members_used.tolist()
    assert used == [next((t + 1 for t, hit in enumerate(row) if hit), 3) for row in right.tolist()]


def test_oracle_knows_only_its_own_samples(make_bank: Callable[..., Bank]) -> None:
    with pytest.raises(OptionError, match="knows 4 labels and was asked about 50 samples"):
        make_bank(50).replay(Oracle(torch.zeros(4, dtype=torch.int64)))


@pytest.mark.parametrize("policy", CLASS_POLICIES)
def test_class_policies_refuse_regression(policy: type[Policy], make_bank: Callable[..., Bank]) -> None:
    with pytest.raises(OptionError, match=r"needs class probabilities.*spread"):
        make_bank(4, task="regression").replay(policy(0.5))


def test_spread_refuses_classification(make_bank: Callable[..., Bank]) -> None:
    with pytest.raises(OptionError, match=r"for regression.*margin"):
        make_bank(4).replay(Spread())


def test_at_gives_a_copy_with_another_threshold_and_the_same_weights() -> None:
    selector = Selector(0.5)
    torch.nn.init.uniform_(selector.out.weight)
    other = selector.at(2)
    assert (selector.threshold, other.threshold) == (0.5, 2.0)
    assert all(torch.equal(value, other.state_dict()[key]) for key, value in selector.state_dict().items())
    other.double()
    assert {value.dtype for value in selector.state_dict().values()} == {torch.float32}
    assert Window(width=3).at(0.1).options() == {"width": 3}


def test_policies_are_shown_as_they_are_made() -> None:
    assert [repr(Margin(0.8)), repr(Margin(0.2)), repr(Window(width=3))] == [
        "Margin(0.8)",
        "Margin(0.2)",
        "Window(0.9, width=3)",
    ]
    assert repr(Selector(hidden=4, features=("margin",))) == (
        "Selector(0.0, features=['margin'], hidden=4, skip=True, task='classification')"
    )


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=6), st.integers(0, 5))
def test_scores_of_one_member_rise_with_its_lead(logits: list[float], place: int) -> None:
    """Whatever a policy looks at, a larger lead of the top class never makes a sample less ready to stop."""
    base = torch.tensor(logits)
    base[place % len(logits)] = base.max() + 0.1
    ahead = base.clone()
    ahead[place % len(logits)] += 1
    for policy in CLASS_POLICIES:
        lower, higher = scores(policy(), torch.stack([base, ahead])[:, None, None])[:, 0]
        assert higher >= lower - 1e-6


def test_a_threshold_that_is_no_number_is_refused() -> None:
    with pytest.raises(OptionError, match="got NaN"):
        Margin(math.nan)
    assert Margin(math.inf).threshold == math.inf
