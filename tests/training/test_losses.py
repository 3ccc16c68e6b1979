"""Each loss against numpy or scikit-learn, and who receives its gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, rel_entr, softmax
from sklearn.metrics import log_loss, mean_squared_error
from torch import Tensor

from irene.halting import maths
from irene.training import losses

SCALE = torch.tensor([10.0, 0.1])


@pytest.fixture
def classes() -> tuple[Tensor, Tensor]:
    return torch.randn(7, 2, 4), torch.randint(4, (7,))


@pytest.fixture
def values() -> tuple[Tensor, Tensor]:
    return torch.randn(7, 3, 2), torch.randn(7, 2)


def test_output_loss_of_classes_is_cross_entropy_for_every_head(classes: tuple[Tensor, Tensor]) -> None:
    output, target = classes
    found = losses.output_loss(output, target, "classification")
    expected = -np.take_along_axis(
        log_softmax(output.double().numpy(), axis=2), target.numpy()[:, None, None].repeat(2, 1), axis=2
    )[..., 0]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_output_loss_of_values_is_squared_error_in_units_of_the_spread(values: tuple[Tensor, Tensor]) -> None:
    output, target = values
    plain = losses.output_loss(output, target, "regression")
    scaled = losses.output_loss(output, target, "regression", SCALE)
    error = output.double().numpy() - target.double().numpy()[:, None]
    np.testing.assert_allclose(plain.numpy(), (error**2).mean(2), rtol=1e-5)
    np.testing.assert_allclose(scaled.numpy(), ((error / SCALE.numpy()) ** 2).mean(2), rtol=1e-5)


def test_answer_loss_of_probabilities_is_their_log_loss(classes: tuple[Tensor, Tensor]) -> None:
    output, target = classes
    probs = output.softmax(2)
    found = losses.answer_loss(probs, target, "classification")
    torch.testing.assert_close(found, losses.output_loss(output, target, "classification"))
    for head in range(2):
        expected = log_loss(target.numpy(), output[:, head].double().softmax(1).numpy(), labels=range(4))
        assert float(found[:, head].mean()) == pytest.approx(expected, rel=1e-5)


def test_answer_loss_of_an_impossible_answer_is_finite() -> None:
    probs = torch.tensor([[[1.0, 0.0]]], requires_grad=True)
    loss = losses.answer_loss(probs, torch.tensor([1]), "classification")
    assert loss.isfinite().all()
    assert torch.autograd.grad(loss.sum(), probs)[0].isfinite().all()


def test_base_loss_is_the_mean_over_samples_and_heads(
    classes: tuple[Tensor, Tensor], values: tuple[Tensor, Tensor]
) -> None:
    output, target = classes
    heads = [log_loss(target, output[:, head].double().softmax(1), labels=range(4)) for head in range(2)]
    assert float(losses.base_loss(output, target, "classification")) == pytest.approx(np.mean(heads), rel=1e-5)
    output, target = values
    heads = [mean_squared_error(target, output[:, head]) for head in range(3)]
    assert float(losses.base_loss(output, target, "regression")) == pytest.approx(np.mean(heads), rel=1e-5)


def test_head_discrepancy_is_the_l1_distance_of_the_answers(classes: tuple[Tensor, Tensor]) -> None:
    output, _ = classes
    probs = softmax(output.double().numpy(), axis=2)
    expected = np.abs(probs[:, 0] - probs[:, 1]).sum(1).mean()
    assert float(losses.head_discrepancy(output, "classification")) == pytest.approx(expected, rel=1e-5)
    values = torch.randn(7, 2, 2)
    expected = (np.abs((values[:, 0] - values[:, 1]).numpy()) / SCALE.numpy()).sum(1).mean()
    assert float(losses.head_discrepancy(values, "regression", SCALE)) == pytest.approx(expected, rel=1e-5)
    assert losses.head_discrepancy(output[:, :1], "classification").item() == 0


def test_ensemble_loss_is_of_the_survival_weighted_mean() -> None:
    y_BtK, target = torch.randn(7, 3, 4).softmax(2), torch.randint(4, (7,))
    S_Bt = maths.survival(torch.rand(7, 3))
    mean = np.stack([np.average(y_BtK[b], axis=0, weights=S_Bt[b]) for b in range(7)])
    found = losses.ensemble_loss(y_BtK, S_Bt, target, "classification")
    assert float(found) == pytest.approx(log_loss(target, mean / mean.sum(1, keepdims=True), labels=range(4)), rel=1e-5)
    values_BtK, values = torch.randn(7, 3, 2), torch.randn(7, 2)
    mean = np.stack([np.average(values_BtK[b], axis=0, weights=S_Bt[b]) for b in range(7)])
    found = losses.ensemble_loss(values_BtK, S_Bt, values, "regression")
    assert float(found) == pytest.approx(mean_squared_error(values, mean), rel=1e-4)


def test_ensemble_loss_reaches_the_selector_only() -> None:
    y_BtK = torch.randn(7, 3, 4).softmax(2).requires_grad_()
    h_Bt = torch.rand(7, 3).requires_grad_()
    loss = losses.ensemble_loss(y_BtK, maths.survival(h_Bt), torch.randint(4, (7,)), "classification")
    to_members, to_selector = torch.autograd.grad(loss, (y_BtK, h_Bt), allow_unused=True)
    assert to_members is None
    assert to_selector[:, :2].abs().sum() > 0


def test_cost_loss_is_the_mean_step_or_what_the_steps_cost() -> None:
    p_BT = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
    assert losses.cost_loss(p_BT, torch.ones(3)).item() == pytest.approx((1.75 + 3) / 2)
    assert losses.cost_loss(p_BT, torch.tensor([1.0, 10.0, 100.0])).item() == pytest.approx((31 + 111) / 2)


@given(st.integers(0, 2**16))
@settings(max_examples=30)
def test_rank_loss_charges_what_a_member_is_worse_by_on_samples_that_reach_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (own_loss, before_loss), reached = rng.exponential(size=(2, 9)), rng.uniform(size=9)
    own = torch.tensor(own_loss, dtype=torch.float32, requires_grad=True)
    before = torch.tensor(before_loss, dtype=torch.float32, requires_grad=True)
    S_t = torch.tensor(reached, dtype=torch.float32, requires_grad=True)
    loss = losses.rank_loss(own, before, S_t)
    gap = own_loss - before_loss
    assert loss.item() == pytest.approx(np.maximum(0, reached * gap).mean(), rel=1e-5, abs=1e-7)
    to_member, to_reference, to_selector = torch.autograd.grad(loss, (own, before, S_t), allow_unused=True)
    assert to_reference is None
    np.testing.assert_allclose(to_member.numpy(), np.where(gap > 0, reached, 0) / 9, rtol=1e-3)
    np.testing.assert_allclose(to_selector.numpy(), np.maximum(gap, 0) / 9, rtol=1e-3, atol=1e-6)


def test_total_terms_are_weighed() -> None:
    terms = [torch.tensor(value) for value in (1.0, 10.0, 100.0, 1000.0)]
    total = losses.total_terms(*terms, weights=(0.5, 0.25, 2.0))
    assert {name: value.item() for name, value in total.items()} == {"base": 1, "ensemble": 5, "cost": 25, "rank": 2000}


def test_regret_is_the_probability_given_up_by_the_whole_ensembles_word() -> None:
    answers = torch.randn(30, 3, 4).softmax(2)
    found = losses.regret(answers, "classification").numpy()
    probs = answers.double().numpy()
    for t in range(3):
        given_up = [whole.max() - whole[step.argmax()] for step, whole in zip(probs[:, t], probs[:, 2], strict=True)]
        np.testing.assert_allclose(found[:, t], given_up, rtol=1e-4, atol=1e-6)
    assert not found[:, 2].any()
    assert (found > 0).any()


def test_a_change_between_labels_that_are_as_good_is_no_loss() -> None:
    whole, other = [0.4, 0.4, 0.2], [0.3, 0.6, 0.1]
    assert not losses.regret(torch.tensor([[other, whole]]), "classification").any()


def test_regret_of_values_is_the_squared_distance_from_the_whole_ensembles() -> None:
    values = torch.randn(30, 3, 2)
    expected = (((values - values[:, -1:]) / SCALE).square()).mean(2)
    torch.testing.assert_close(losses.regret(values, "regression", SCALE), expected)
    torch.testing.assert_close(losses.regret(values, "regression"), (values - values[:, -1:]).square().mean(2))


def test_expected_loss_is_the_loss_at_the_halting_step() -> None:
    loss_BT = torch.rand(50, 4)
    step = torch.randint(4, (50,))
    hard = torch.nn.functional.one_hot(step, 4).float()
    torch.testing.assert_close(losses.expected_loss(hard, loss_BT), loss_BT[torch.arange(50), step].mean())
    p_BT = torch.rand(50, 4).softmax(1)
    expected = np.einsum("bt,bt->b", p_BT.numpy(), loss_BT.numpy()).mean()
    assert float(losses.expected_loss(p_BT, loss_BT)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("logit", [-2.0, 0.0, 1.0])
def test_drawn_halting_is_zero_or_one_as_often_as_it_should(logit: float) -> None:
    drawn = losses.sample_halting(torch.full((20000, 1), logit))
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    assert drawn.mean().item() == pytest.approx(torch.tensor(logit).sigmoid().item(), abs=0.015)


def test_drawn_halting_passes_the_gradient_of_the_soft_draw() -> None:
    logits = torch.randn(500, 3, requires_grad=True)
    torch.manual_seed(5)
    losses.sample_halting(logits).sum().backward()
    torch.manual_seed(5)
    uniform = torch.rand_like(logits).double().numpy()
    soft = 1 / (1 + np.exp(-(logits.detach().double().numpy() + np.log(uniform / (1 - uniform)))))
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad.numpy(), soft * (1 - soft), rtol=1e-3, atol=1e-5)
    assert (logits.grad > 0).any(1).all()


def test_half_precision_outputs_are_judged_in_float32() -> None:
    output = torch.randn(5, 2, 4, dtype=torch.bfloat16)
    target = torch.randint(4, (5,))
    assert losses.base_loss(output, target, "classification").dtype == torch.float32
    assert losses.head_discrepancy(output, "classification").dtype == torch.float32


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_teaching_loss_of_classes_is_the_divergence_from_the_mean_softened_teacher(temperature: float) -> None:
    output, teachers = torch.randn(7, 2, 4), torch.randn(7, 3, 2, 4)
    found = losses.teaching_loss(output, teachers, "classification", temperature)
    taught = softmax(teachers[:, :, 0].double().numpy() / temperature, axis=2).mean(1)
    learnt = softmax(output.double().numpy() / temperature, axis=2)
    expected = temperature**2 * rel_entr(taught[:, None], learnt).sum(2).mean()
    np.testing.assert_allclose(float(found), expected, rtol=1e-5)


def test_teaching_loss_vanishes_where_nothing_is_left_to_learn() -> None:
    teacher = torch.randn(5, 1, 1, 4)
    output = (teacher[:, 0] + 3).requires_grad_()  # the same probabilities
    loss = losses.teaching_loss(output, teacher, "classification", 4.0)
    loss.backward()
    assert output.grad is not None
    torch.testing.assert_close(loss.detach(), torch.zeros(()), atol=1e-6, rtol=0)
    torch.testing.assert_close(output.grad, torch.zeros_like(output), atol=1e-6, rtol=0)


def test_teaching_loss_of_values_is_that_of_the_mean_teacher(values: tuple[Tensor, Tensor]) -> None:
    output, _ = values
    teachers = torch.randn(7, 4, 2, 2)
    found = losses.teaching_loss(output, teachers, "regression", 4.0, SCALE)
    expected = losses.base_loss(output, teachers[:, :, 0].mean(1), "regression", SCALE)
    torch.testing.assert_close(found, expected)
