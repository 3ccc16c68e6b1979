"""A trajectory answers for every threshold what stopping at it would have given."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from irene.bank import Bank
from irene.errors import OptionError
from irene.halting.policies import Margin, Never
from irene.halting.rule import Aggregation
from irene.halting.trajectory import Trajectory, first_scores, nearest


def make(scores_NT: Tensor, order_NT: Tensor | None = None) -> Trajectory:
    samples, steps = scores_NT.shape
    return Trajectory("classification", scores_NT, torch.rand(samples, steps, 3).softmax(2), order_NT)


def stops(scores: list[float], threshold: float) -> int:
    """The obvious loop."""
    for step, score in enumerate(scores, 1):
        if score >= threshold or step == len(scores):
            return step
    raise AssertionError("unreachable")


tables = st.integers(1, 6).flatmap(
    lambda steps: st.lists(
        st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 0.25, 0.5, 2.0]), min_size=steps, max_size=steps),
        min_size=1,
        max_size=12,
    )
)


@given(tables, st.sampled_from([-2.0, -1.0, 0.0, 0.3, 0.5, 1.0, 2.0, 3.0]))
def test_halting_steps_are_those_of_the_obvious_loop(table: list[list[float]], threshold: float) -> None:
    path = make(torch.tensor(table))
    assert path.halting_steps(threshold).tolist() == [stops(row, threshold) for row in table]


@given(tables)
@settings(max_examples=60)
def test_sweep_equals_stopping_at_each_threshold(table: list[list[float]]) -> None:
    path = make(torch.tensor(table))
    values_NT = torch.rand(path.scores_NT.shape, dtype=torch.float64)
    cuts_M = path.cuts()
    expected = []
    for cut in cuts_M.tolist():
        at_N = path.halting_steps(cut) - 1
        expected.append(float(values_NT.gather(1, at_N[:, None]).mean()))
    torch.testing.assert_close(path.sweep(cuts_M, values_NT), torch.tensor(expected, dtype=torch.float64))


@given(tables)
def test_cuts_reach_every_way_to_stop(table: list[list[float]]) -> None:
    """Whatever a threshold does, one of the cuts does the same; and no two cuts do the same."""
    path = make(torch.tensor(table))
    ways = [tuple(path.halting_steps(cut).tolist()) for cut in path.cuts().tolist()]
    assert len(set(ways)) == len(ways)
    for threshold in (-3.0, -1.0, -0.5, 0.0, 0.1, 0.25, 0.4, 0.5, 1.0, 2.0, 5.0):
        assert tuple(path.halting_steps(threshold).tolist()) in ways
    assert torch.equal(path.cuts(), path.cuts().sort().values)


def test_neighbouring_floats_are_told_apart() -> None:
    low = torch.tensor(0.7)
    high = torch.nextafter(low, torch.tensor(1.0))
    path = make(torch.stack([torch.stack([low, low]), torch.stack([high, high])]))
    costs = [path.halting_steps(cut).tolist() for cut in path.cuts().tolist()]
    assert costs == [[1, 1], [2, 1], [2, 2]]


@pytest.mark.parametrize("size", [-3e9, 0.0, 3e9])
def test_the_outer_cuts_lie_beyond_scores_of_any_size(size: float) -> None:
    path = make(torch.tensor([[1.0, 0.0], [2.0, 0.0]]) * size)
    cuts = path.cuts().tolist()
    assert path.halting_steps(cuts[0]).tolist() == [1, 1]
    assert path.halting_steps(cuts[-1]).tolist() == [2, 2]


def test_without_early_scores_there_is_one_cut() -> None:
    assert make(torch.full((4, 3), -math.inf)).cuts().tolist() == [0.0]
    assert make(torch.rand(4, 1)).cuts().tolist() == [0.0]
    one = make(torch.rand(4, 1))
    assert one.sweep(torch.tensor([-1.0, 5.0]), torch.ones(4, 1)).tolist() == [1.0, 1.0]


def test_stopping_masks_what_did_not_run(make_bank: Callable[..., Bank]) -> None:
    path = make_bank(40).trajectory(Margin())
    prediction = path.stop(0.4)
    for n, used in enumerate(prediction.members_used.tolist()):
        assert prediction.ran[n].tolist() == [t < used for t in range(3)]
        assert torch.equal(prediction.outputs[n], path.means_NTK[n, used - 1])
        assert torch.equal(prediction.trace[n, :used], path.scores_NT[n, :used])


def test_costs_add_up_along_the_steps() -> None:
    costs_T = torch.tensor([1.0, 10.0, 100.0])
    assert make(torch.rand(2, 3)).costs(costs_T).tolist() == [[1, 11, 111], [1, 11, 111]]
    order = torch.tensor([[2, 0, 1], [0, 1, 2]])
    assert make(torch.rand(2, 3), order).costs(costs_T).tolist() == [[100, 101, 111], [1, 11, 111]]


def test_the_trace_is_by_member_where_samples_go_their_own_ways() -> None:
    order = torch.tensor([[2, 0, 1], [0, 1, 2]])
    path = make(torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]), order)
    prediction = path.stop_at(torch.tensor([2, 1]))
    assert prediction.ran.tolist() == [[True, False, True], [True, False, False]]
    assert prediction.trace[0, [2, 0]].tolist() == pytest.approx([0.1, 0.2])


def test_outputs_of_another_number_of_members_are_refused(make_bank: Callable[..., Bank]) -> None:
    with pytest.raises(OptionError, match="rule is for 2 members and the outputs are of 3"):
        make_bank(4).replay(Never(), Aggregation.equal(2))


def test_first_scores_are_of_the_first_step_that_has_one_for_every_sample() -> None:
    scores_NT = torch.tensor([[-math.inf, 0.25, 0.5], [0.0, 0.75, math.nan]])
    assert first_scores(scores_NT).tolist() == [0.25, 0.75]
    assert first_scores(scores_NT[:, [0, 2]]).tolist() == []


@pytest.mark.parametrize(("asked", "index"), [(-1e300, 0), (1.4, 1), (2.6, 2), (1e17, 2), (1e300, 2)])
def test_the_nearest_cost_to_one_far_outside_is_that_of_the_near_end(asked: float, index: int) -> None:
    assert nearest(torch.tensor([1.0, 1.5, 3.0], dtype=torch.float64), asked) == index
