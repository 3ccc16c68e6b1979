"""The halting equations hold as identities, for any number of steps and in every precision."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor
from torch.autograd import gradcheck

from irene.halting import maths

DTYPES = (torch.float32, torch.bfloat16)
shapes = st.tuples(st.integers(1, 4), st.integers(1, 64))


@st.composite
def conditional(draw: st.DrawFn, low: float = 0.0, high: float = 1.0) -> Tensor:
    """(B, T) conditional halting probabilities in float64, zeros and ones among them."""
    values = hnp.arrays(np.float64, draw(shapes), elements=st.floats(low, high))
    return torch.from_numpy(draw(values))


@st.composite
def hard(draw: st.DrawFn) -> Tensor:
    return torch.from_numpy(draw(hnp.arrays(np.bool_, draw(shapes)))).double()


def smooth(batch: int, steps: int, seed: int = 0) -> Tensor:
    """Probabilities away from 0 and 1, ready for a gradient check."""
    generator = torch.Generator().manual_seed(seed)
    h_BT = 0.05 + 0.9 * torch.rand(batch, steps, dtype=torch.float64, generator=generator)
    return h_BT.requires_grad_()


def survival_from_halting(p_BT: Tensor) -> Tensor:
    """S(t) as the paper defines it (Eq. 2): one minus the probability of having halted before t."""
    return 1 - torch.cat([torch.zeros_like(p_BT[:, :1]), p_BT.cumsum(1)[:, :-1]], 1)


def conditional_halting(S_BT: Tensor) -> Tensor:
    """h_t from S (Eq. 3), with S(T + 1) = 0."""
    following_BT = torch.cat([S_BT[:, 1:], torch.zeros_like(S_BT[:, :1])], 1)
    return (S_BT - following_BT) / S_BT


@given(conditional(), st.sampled_from(DTYPES))
def test_p_sums_to_one_when_the_last_step_is_forced(h: Tensor, dtype: torch.dtype) -> None:
    h_BT = maths.force_last(h.to(dtype))
    p_BT = maths.halting_distribution(h_BT)
    S_BT = maths.survival(h_BT).double()
    assert p_BT.dtype == dtype
    assert (p_BT >= 0).all()
    # Rounding of 1 - h, of the product with S and of the product with h, each step: no more than that is lost.
    unit = torch.finfo(dtype).eps / 2
    bound_B = 1.1 * unit * (S_BT * (1.5 + h_BT.double())).sum(1) + 1e-12
    assert ((p_BT.double().sum(1) - 1).abs() <= bound_B).all()


@given(conditional(), st.sampled_from(DTYPES))
def test_survival_starts_at_one_and_never_rises(h: Tensor, dtype: torch.dtype) -> None:
    S_BT = maths.survival(h.to(dtype))
    assert S_BT.dtype == dtype
    assert (S_BT[:, 0] == 1).all()
    assert (S_BT[:, 1:] <= S_BT[:, :-1]).all()
    assert (S_BT >= 0).all()


@given(hard(), st.sampled_from(DTYPES))
def test_hard_decisions_give_one_certain_step(h: Tensor, dtype: torch.dtype) -> None:
    h_BT = maths.force_last(h.to(dtype))
    p_BT = maths.halting_distribution(h_BT)
    first = [row.index(1.0) for row in h_BT.tolist()]
    assert torch.equal(p_BT, torch.nn.functional.one_hot(torch.tensor(first), h.shape[1]).to(dtype))


@given(conditional())
def test_both_forms_of_survival_agree(h: Tensor) -> None:
    p_BT = maths.halting_distribution(h)
    torch.testing.assert_close(survival_from_halting(p_BT), maths.survival(h))


@given(conditional(high=0.9))
def test_conditional_halting_inverts_survival(h: Tensor) -> None:
    back_BT = conditional_halting(maths.survival(h))
    torch.testing.assert_close(back_BT, maths.force_last(h), rtol=1e-9, atol=1e-9)


def test_an_empty_batch_stays_empty() -> None:
    h_BT = torch.zeros(0, 3)
    assert maths.halting_distribution(maths.force_last(h_BT)).shape == (0, 3)
    assert maths.expected_cost(h_BT, torch.ones(3)).shape == (0,)


@pytest.mark.parametrize("steps", [1, 2, 7, 64])
def test_gradients_equal_finite_differences(steps: int) -> None:
    check = partial(gradcheck, fast_mode=steps > 10)  # along a random direction where there are many
    h_BT = smooth(2, steps)
    y_BTK = torch.randn(2, steps, 2, dtype=torch.float64, requires_grad=True)
    costs_T = torch.rand(steps, dtype=torch.float64)
    assert check(maths.survival, (h_BT,))
    assert check(lambda h: maths.halting_distribution(maths.force_last(h)), (h_BT,))
    assert check(lambda y, h: maths.running_ensemble(y, maths.survival(h)), (y_BTK, h_BT))
    assert check(lambda h: maths.expected_cost(maths.halting_distribution(h), costs_T), (h_BT,))


def test_gradients_equal_finite_differences_at_hard_decisions() -> None:
    h_BT = torch.tensor([[0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    assert gradcheck(maths.halting_distribution, (h_BT,))
    assert gradcheck(maths.survival, (h_BT,))


@given(conditional(), st.integers(0, 2**32 - 1))
def test_running_ensemble_weights_each_member_by_its_survival(h: Tensor, seed: int) -> None:
    y_BTK = np.random.default_rng(seed).normal(size=(*h.shape, 3))
    S_BT = maths.survival(h)
    ensemble_BTK = maths.running_ensemble(torch.from_numpy(y_BTK), S_BT).numpy()
    for b, t in itertools.product(range(h.shape[0]), {0, h.shape[1] // 2, h.shape[1] - 1}):
        expected = np.average(y_BTK[b, : t + 1], axis=0, weights=S_BT[b, : t + 1].numpy())
        np.testing.assert_allclose(ensemble_BTK[b, t], expected, rtol=1e-9, atol=1e-9)


def test_running_ensemble_of_members_that_always_run_is_their_mean() -> None:
    y_BTK = torch.randn(3, 5, 2, dtype=torch.float64)
    means = [y_BTK[:, : t + 1].mean(1) for t in range(5)]
    S_BT = torch.ones(3, 5, dtype=torch.float64)
    torch.testing.assert_close(maths.running_ensemble(y_BTK, S_BT), torch.stack(means, 1))


@given(conditional())
def test_expected_cost_of_equal_members_is_the_mean_halting_step(h: Tensor) -> None:
    p_BT = maths.halting_distribution(maths.force_last(h))
    steps_T = torch.arange(1, h.shape[1] + 1, dtype=torch.float64)
    torch.testing.assert_close(maths.expected_cost(p_BT, torch.ones(h.shape[1])), p_BT @ steps_T)


@given(st.integers(1, 7), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_expected_cost_equals_the_sum_over_all_ways_to_halt(steps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    h_T, costs_T = rng.uniform(size=steps), rng.uniform(0.01, 100, size=steps)
    total = 0.0
    for coins in itertools.product((False, True), repeat=steps - 1):
        chance = math.prod(h if coin else 1 - h for h, coin in zip(h_T, coins, strict=False))
        halted = next((t for t, coin in enumerate(coins) if coin), steps - 1)
        total += chance * sum(costs_T[: halted + 1])
    p_BT = maths.halting_distribution(maths.force_last(torch.from_numpy(h_T)[None]))
    assert float(maths.expected_cost(p_BT, torch.from_numpy(costs_T))) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_function_keeps_the_precision_it_is_given(dtype: torch.dtype) -> None:
    h_BT, y_BTK = torch.rand(2, 5).to(dtype), torch.randn(2, 5, 3).to(dtype)
    S_BT = maths.survival(h_BT)
    p_BT = maths.halting_distribution(h_BT)
    results = (
        S_BT,
        p_BT,
        maths.running_ensemble(y_BTK, S_BT),
        maths.expected_cost(p_BT, torch.rand(5)),
    )
    assert {result.dtype for result in results} == {dtype}
