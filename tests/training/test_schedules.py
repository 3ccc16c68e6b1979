"""Learning-rate schedules at the points that define them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.errors import OptionError
from irene.training.schedules import Schedule


def test_multistep_is_the_papers_at_its_epochs() -> None:
    """The rate is divided by 5 at epochs 60, 120 and 160 of 200."""
    schedule = Schedule(kind="multistep")
    factors = [schedule.factor(epoch / 200) for epoch in range(200)]
    expected = [0.2 ** ((epoch >= 60) + (epoch >= 120) + (epoch >= 160)) for epoch in range(200)]
    assert factors == pytest.approx(expected)


def test_cosine_falls_from_one_to_zero() -> None:
    schedule = Schedule(kind="cosine")
    assert [schedule.factor(p) for p in (0, 0.5, 1)] == pytest.approx([1, 0.5, 0])
    factors = [schedule.factor(p / 50) for p in range(51)]
    assert factors == sorted(factors, reverse=True)


def test_onecycle_rises_then_falls_to_zero() -> None:
    schedule = Schedule(kind="onecycle", warmup=0.25)
    assert [schedule.factor(p) for p in (0, 0.25, 0.625, 1)] == pytest.approx([0.05, 1, 0.5, 0])
    assert schedule.factor(0.2) < schedule.factor(0.24) < 1
    assert Schedule(kind="onecycle", warmup=0.0).factor(0) == 1


def test_triangle_rises_from_low_and_comes_back() -> None:
    schedule = Schedule(kind="triangle", low=0.2)
    assert [schedule.factor(p) for p in (0, 0.25, 0.5, 0.75, 1)] == pytest.approx([0.2, 0.6, 1, 0.6, 0.2])


def test_constant_stays() -> None:
    assert {Schedule(kind="constant").factor(p / 10) for p in range(11)} == {1.0}


@given(st.sampled_from(["constant", "multistep", "cosine", "onecycle", "triangle"]), st.floats(0, 1))
def test_a_factor_lies_between_zero_and_one(kind: str, progress: float) -> None:
    assert 0 <= Schedule(kind=kind).factor(progress) <= 1


def test_schedules_that_cannot_work_are_refused() -> None:
    with pytest.raises(OptionError, match="one of constant, multistep, cosine, onecycle, triangle, got 'step'"):
        Schedule(kind="step")
    with pytest.raises(OptionError, match="warm-up is a fraction"):
        Schedule(warmup=1.0)
