from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve
from torch import Tensor

from irene import metrics
from irene.errors import DataError, OptionError
from irene.types import Prediction

SINGLE, AVERAGE = "single", "average"
PRINTED = Path(__file__).parents[1] / "benchmarks/paper/paper.json"
PAPER: dict[tuple[str, str], dict[str, tuple[float, float, float]]] = {}  # top-1 in %, cost and utility, by method
for row in json.loads(PRINTED.read_text()):
    table = PAPER.setdefault((row["dataset"], row["backbone"]), {})
    table[row["method"]] = (row["accuracy"], row["cost"], row["utility"])
ROWS = [(where, method) for where, table in PAPER.items() for method in table]
# In these rows of the paper the exponent's factor is 20 where every other row has 100.
INCONSISTENT = {(("cifar100", "resnet32"), method) for method in ("snapshot", "fge", "moe")}


def batch(seed: int, *, n: int = 200, k: int = 7, sharpness: float = 2.0) -> tuple[Tensor, Tensor]:
    """Probabilities that know something about the labels, without ties."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(k, (n,), generator=generator)
    logits = sharpness * torch.randn(n, k, generator=generator, dtype=torch.float64)
    logits[torch.arange(n), labels] += 1.5
    return logits.softmax(1), labels


seeds = st.integers(0, 10_000)


def test_paper_has_33_rows() -> None:
    assert len(ROWS) == 33
    assert set(ROWS) >= INCONSISTENT


@pytest.mark.parametrize(("where", "method"), ROWS)
def test_utility_reproduces_the_paper(where: tuple[str, str], method: str) -> None:
    table = PAPER[where]
    accuracy, cost, printed = table[method]
    found = metrics.utility(accuracy, cost, single=table[SINGLE][0], average=table[AVERAGE][0])
    if (where, method) in INCONSISTENT:
        assert abs(found - printed) > 0.09
        found **= 20 / 100  # exp(20 (U - 1)) from exp(100 (U - 1))
    assert found == pytest.approx(printed, abs=0.02)


@given(st.floats(1e-3, 1), st.floats(1e-3, 1), st.floats(0, 1), st.floats(0.1, 20))
def test_utility_is_a_number_or_undefined(single: float, average: float, accuracy: float, cost: float) -> None:
    found = metrics.utility(accuracy, cost, single=single, average=average)
    if average <= single:
        assert math.isnan(found)
    elif average > single * 1.0001:
        assert found >= 0
        assert metrics.utility(single, 1.0, single=single, average=average) == pytest.approx(1)
        assert metrics.utility(average, 3.0, single=single, average=average) == pytest.approx(1)
        cheaper = metrics.utility(accuracy, cost / 2, single=single, average=average)
        assert cheaper >= found


def test_utility_survives_a_nearly_flat_scale() -> None:
    assert metrics.utility(0.99, 1.0, single=0.9, average=0.9 + 1e-9) == math.inf
    assert metrics.utility(0.80, 1.0, single=0.9, average=0.9 + 1e-9) == pytest.approx(0)
    assert math.isnan(metrics.utility(0.9, 1.0, single=0.0, average=0.5))


@pytest.mark.parametrize(("accuracy", "cost"), [(0.9, 0.0), (0.9, -1.0), (-0.1, 1.0), (0.9, math.nan)])
def test_utility_refuses_impossible_figures(accuracy: float, cost: float) -> None:
    with pytest.raises(OptionError, match="positive cost"):
        metrics.utility(accuracy, cost, single=0.8, average=0.9)


@given(seeds, st.integers(1, 7))
@settings(max_examples=25)
def test_classification_agrees_with_scikit_learn(seed: int, k: int) -> None:
    probs, labels = batch(seed)
    every = np.arange(7)
    onehot = np.eye(7)[labels.numpy()]
    wrong = (probs.argmax(1) != labels).numpy()
    assert metrics.accuracy(probs, labels) == pytest.approx(sk.accuracy_score(labels, probs.argmax(1)))
    if k < 7:  # scikit-learn warns about k = K, where the answer is 1
        expected = sk.top_k_accuracy_score(labels, probs, k=k, labels=every)
        assert metrics.top_k(probs, labels, k) == pytest.approx(expected)
    else:
        assert metrics.top_k(probs, labels, k) == 1
    assert metrics.nll(probs, labels) == pytest.approx(sk.log_loss(labels, probs, labels=every))
    expected = sum(sk.brier_score_loss(onehot[:, c], probs[:, c]) for c in range(7))
    assert metrics.brier(probs, labels) == pytest.approx(expected)
    expected = sk.roc_auc_score(wrong, 1 - probs.max(1).values.numpy())
    assert metrics.error_auroc(probs, labels) == pytest.approx(expected)


@given(seeds, st.sampled_from([1, 5, 15, 40]))
@settings(max_examples=25)
def test_ece_agrees_with_scikit_learn(seed: int, bins: int) -> None:
    probs, labels = batch(seed)
    confidence, right = probs.max(1).values.numpy(), (probs.argmax(1) == labels).numpy()
    shares, confidences = calibration_curve(right, confidence, n_bins=bins)
    counts, _ = np.histogram(confidence, np.linspace(0, 1, bins + 1))
    expected = np.average(np.abs(shares - confidences), weights=counts[counts > 0])
    assert metrics.ece(probs, labels, bins) == pytest.approx(expected)


def test_ece_puts_an_edge_into_the_lower_bin() -> None:
    # Bins (0, 1/2] and (1/2, 1]: the first two samples share a bin, where the gaps 0.5 and -0.5 cancel.
    probs = torch.tensor([[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]])
    labels = torch.tensor([1, 0, 0])
    assert metrics.ece(probs, labels, bins=2) == pytest.approx(0)
    assert metrics.ece(probs, torch.tensor([1, 0, 1]), bins=2) == pytest.approx(1 / 3)


@given(seeds, st.integers(2, 5), st.integers(1, 30))
@settings(max_examples=50)
def test_bounds(seed: int, k: int, n: int) -> None:
    probs, labels = batch(seed, n=n, k=k, sharpness=5)
    shares = [metrics.top_k(probs, labels, rank) for rank in range(1, k + 1)]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert 0 <= metrics.ece(probs, labels) <= 1
    assert 0 <= metrics.brier(probs, labels) <= 2
    assert metrics.nll(probs, labels) >= 0
    auroc = metrics.error_auroc(probs, labels)
    assert math.isnan(auroc) == (shares[0] in (0, 1))
    assert math.isnan(auroc) or 0 <= auroc <= 1


def test_tied_confidences_count_half() -> None:
    probs = torch.tensor([[0.7, 0.3], [0.7, 0.3], [0.9, 0.1], [0.6, 0.4]])
    labels = torch.tensor([0, 1, 0, 0])
    wrong = np.array([0, 1, 0, 0])
    assert metrics.error_auroc(probs, labels) == sk.roc_auc_score(wrong, [0.3, 0.3, 0.1, 0.4])


def test_equal_outputs_are_ranked_as_argmax_does() -> None:
    outputs = torch.zeros(3, 3)
    labels = torch.tensor([0, 1, 2])
    assert [metrics.top_k(outputs, labels, k) for k in (1, 2, 3)] == pytest.approx([1 / 3, 2 / 3, 1])


def test_a_zero_probability_is_finite() -> None:
    probs = torch.tensor([[1.0, 0.0]])
    assert metrics.nll(probs, torch.tensor([1])) == pytest.approx(87.3, abs=0.1)


def test_answers_may_carry_a_gradient() -> None:
    probs, labels = batch(3)
    tracked, target = probs.clone().requires_grad_(), labels.double()
    for metric in (metrics.accuracy, metrics.nll, metrics.brier, metrics.ece, metrics.error_auroc):
        assert metric(tracked, labels) == metric(probs, labels)
    for metric in (metrics.mse, metrics.mae, metrics.r2):
        assert metric(tracked[:, 0], target) == metric(probs[:, 0], target)


def test_arrays_and_low_precision_are_welcome() -> None:
    probs, labels = batch(3)
    assert metrics.nll(probs.numpy(), labels.numpy()) == metrics.nll(probs, labels)
    assert metrics.ece(probs.to(torch.bfloat16), labels.to(torch.uint8)) == pytest.approx(
        metrics.ece(probs, labels), abs=0.02
    )


@pytest.mark.parametrize(
    ("probs", "labels", "message"),
    [
        (torch.ones(3), torch.zeros(3, dtype=torch.int64), "outputs"),
        (torch.ones(3, 2) / 2, torch.zeros(2, dtype=torch.int64), "labels"),
        (torch.ones(0, 2), torch.zeros(0, dtype=torch.int64), "expected"),
        (torch.ones(2, 2) / 2, torch.zeros(2), "class numbers"),
        (torch.ones(2, 2) / 2, torch.tensor([0, 2]), "between 0 and 1"),
        (torch.ones(2, 2) / 2, torch.tensor([0, -1]), "between 0 and 1"),
        (torch.tensor([[math.nan, 1.0]]), torch.tensor([0]), "diverged"),
        (torch.tensor([[3.0, -1.0]]), torch.tensor([0]), "softmax"),
    ],
)
def test_wrong_classification_inputs(probs: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises(DataError, match=message):
        metrics.nll(probs, labels)


def test_wrong_options() -> None:
    probs, labels = batch(0)
    with pytest.raises(OptionError, match="k must be between 1 and the 7 classes, got 8"):
        metrics.top_k(probs, labels, 8)
    with pytest.raises(OptionError, match="bins"):
        metrics.ece(probs, labels, 0)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=50), st.integers(6, 8))
def test_share_used(used: list[int], members: int) -> None:
    shares = metrics.share_used(torch.tensor(used), members)
    assert len(shares) == members
    assert sum(shares) == pytest.approx(1)
    assert shares == [used.count(step) / len(used) for step in range(1, members + 1)]


@pytest.mark.parametrize("used", [[0, 1], [1, 4], [], [1.0, 2.0], [[1, 2]]])
def test_share_used_refuses_impossible_counts(used: list[object]) -> None:
    with pytest.raises(DataError, match="members_used"):
        metrics.share_used(torch.tensor(used), 3)


@given(seeds, st.integers(1, 3))
@settings(max_examples=25)
def test_regression_agrees_with_scikit_learn(seed: int, k: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randn(50, k, generator=generator)
    values = targets + 0.3 * torch.randn(50, k, generator=generator)
    assert metrics.mse(values, targets) == pytest.approx(sk.mean_squared_error(targets, values))
    assert metrics.mae(values, targets) == pytest.approx(sk.mean_absolute_error(targets, values))
    assert metrics.r2(values, targets) == pytest.approx(sk.r2_score(targets.double(), values.double()))
    assert metrics.r2(values, targets) <= 1


@pytest.mark.parametrize(("value", "expected"), [(0.1, 1.0), (0.2, 0.0)])
def test_r2_of_constant_targets(value: float, expected: float) -> None:
    targets, values = np.full(10, 0.1), np.full(10, value)
    assert metrics.r2(values, targets) == expected == sk.r2_score(targets, values)


def test_r2_of_one_sample_is_undefined() -> None:
    assert math.isnan(metrics.r2(torch.ones(1), torch.ones(1)))


def test_a_column_of_targets_does_not_broadcast() -> None:
    values = torch.tensor([[1.0], [2.0], [4.0]])
    assert metrics.mse(values, torch.tensor([1.0, 2.0, 3.0])) == pytest.approx(1 / 3)
    with pytest.raises(DataError, match="one shape"):
        metrics.mse(values, torch.ones(4))
    with pytest.raises(DataError, match="finite"):
        metrics.mae(values, torch.tensor([1.0, math.inf, 3.0]))


def test_summary_of_classification() -> None:
    probs, labels = batch(1)
    used = torch.arange(200) % 3 + 1
    prediction = Prediction(task="classification", outputs=probs, members_used=used, trace=torch.zeros(200, 4))
    found = metrics.summary(prediction, labels, members=4)
    assert list(found) == ["accuracy", "top5", "nll", "brier", "ece", "error_auroc", "cost", "used"]
    assert found["accuracy"] == metrics.accuracy(probs, labels)
    assert found["top5"] == metrics.top_k(probs, labels, 5)
    assert found["cost"] == pytest.approx(float(used.double().mean()))
    assert found["used"] == pytest.approx([67 / 200, 67 / 200, 66 / 200, 0])
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_summary_of_few_classes_has_no_top5() -> None:
    probs, labels = batch(1, k=4)
    ones = torch.ones(200, dtype=torch.int64)
    prediction = Prediction("classification", probs, ones, torch.zeros(200, 1))
    assert "top5" not in metrics.summary(prediction, labels, members=1)


def test_summary_of_regression() -> None:
    values = torch.tensor([[1.0], [2.0], [4.0]])
    prediction = Prediction("regression", values, torch.tensor([1, 2, 2]), torch.zeros(3, 2))
    found = metrics.summary(prediction, torch.tensor([1.0, 2.0, 2.0]), members=2)
    assert list(found) == ["mse", "rmse", "mae", "r2", "cost", "used"]
    assert found["rmse"] == pytest.approx(math.sqrt(4 / 3))
    assert found["cost"] == pytest.approx(5 / 3)
    assert found["used"] == pytest.approx([1 / 3, 2 / 3])


def plain_bootstrap(difference: np.ndarray, samples: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.array([generator.choice(difference, len(difference)).mean() for _ in range(samples)])


@pytest.mark.parametrize("kind", ["right-or-wrong", "continuous"])
def test_paired_bootstrap_agrees_with_resampling_one_by_one(kind: str) -> None:
    generator = np.random.default_rng(5)
    a, b = generator.random(400), generator.random(400) - 0.1
    if kind == "right-or-wrong":
        a, b = a > 0.3, b > 0.3
    mean, low, high = metrics.paired_bootstrap(a, b, samples=4000)
    expected = np.quantile(plain_bootstrap(a.astype(float) - b, 4000, 1), [0.025, 0.975])
    assert mean == pytest.approx(a.mean() - b.mean())
    assert [low, high] == pytest.approx(expected, abs=0.005)
    assert low < mean < high


def test_paired_bootstrap_is_seeded_and_widens_with_confidence() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 300, generator=generator)
    assert metrics.paired_bootstrap(a, b) == metrics.paired_bootstrap(a, b)
    assert metrics.paired_bootstrap(a, b) != metrics.paired_bootstrap(a, b, seed=1)
    _, low, high = metrics.paired_bootstrap(a, b, confidence=0.8)
    _, lower, higher = metrics.paired_bootstrap(a, b, confidence=0.99)
    assert lower < low < high < higher


def test_paired_bootstrap_in_several_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = torch.arange(100.0), torch.zeros(100)
    whole = metrics.paired_bootstrap(a, b, samples=50)
    monkeypatch.setattr(metrics, "_BOOTSTRAP_ELEMENTS", 700)
    assert metrics.paired_bootstrap(a, b, samples=50) == pytest.approx(whole)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=30))
@settings(max_examples=25)
def test_paired_bootstrap_stays_within_the_differences(values: list[float]) -> None:
    mean, low, high = metrics.paired_bootstrap(np.array(values), np.zeros(len(values)), samples=50)
    slack = 1e-9
    assert min(values) - slack <= low <= high <= max(values) + slack
    assert min(values) - slack <= mean <= max(values) + slack


def test_paired_bootstrap_refuses_what_is_not_paired() -> None:
    with pytest.raises(DataError, match="equal length"):
        metrics.paired_bootstrap(torch.ones(3), torch.ones(4))
    with pytest.raises(OptionError, match="confidence"):
        metrics.paired_bootstrap(torch.ones(3), torch.ones(3), confidence=1.0)
