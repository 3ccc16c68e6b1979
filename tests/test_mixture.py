"""A mixture runs the members its gate chooses, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from irene.bank import Bank
from irene.errors import OptionError
from irene.mixture import Mixture, gate_weights
from irene.types import Cost, Task

Members = Callable[[Bank], list[Any]]
Numbers = Callable[[int], Tensor]


@given(st.integers(1, 6), st.integers(0, 30), st.integers(0, 2**16), st.data())
def test_gates_are_a_softmax_over_the_largest(members: int, samples: int, seed: int, data: st.DataObject) -> None:
    top = data.draw(st.integers(1, members))
    logits_BT = 5 * torch.randn(samples, members, generator=torch.Generator().manual_seed(seed))
    gates_BT = gate_weights(logits_BT, top)
    assert gates_BT.shape == (samples, members)
    torch.testing.assert_close(gates_BT.sum(1), torch.ones(samples))
    for gates, logits in zip(gates_BT, logits_BT, strict=True):
        kept = logits.argsort(descending=True)[:top]
        assert set(gates.nonzero()[:, 0].tolist()) <= set(kept.tolist())
        torch.testing.assert_close(gates[kept], logits[kept].softmax(0))


def by_table(logits_NT: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda inputs: logits_NT[inputs[:, 0].long()]


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("samples", [0, 1, 31])
@pytest.mark.parametrize("top", [1, 2, None])
def test_predict_equals_the_replay_of_the_bank_with_its_gates(
    task: Task,
    samples: int,
    top: int | None,
    make_bank: Callable[..., Bank],
    table_members: Members,
    sample_numbers: Numbers,
) -> None:
    bank = make_bank(samples, task=task)
    logits_NT = 3 * torch.randn(samples, 3)
    mixture = Mixture(table_members(bank), by_table(logits_NT), top=top, task=task)
    prediction = mixture.predict(sample_numbers(samples))
    replayed = Bank(**{**vars(bank), "gates": gate_weights(logits_NT, top or 3)}).replay()
    assert torch.equal(prediction.members_used, replayed.members_used)
    assert torch.equal(prediction.ran, replayed.ran)
    torch.testing.assert_close(prediction.outputs, replayed.outputs, rtol=0, atol=1e-6)


def test_members_see_only_the_samples_that_chose_them(
    make_bank: Callable[..., Bank], table_members: Members, sample_numbers: Numbers
) -> None:
    logits_NT = torch.tensor([[3.0, 0.0, -9.0], [3.0, 1.0, -9.0], [0.0, 3.0, -9.0]])
    members = table_members(make_bank(3))
    prediction = Mixture(members, by_table(logits_NT), top=1).predict(sample_numbers(3))
    assert [member.asked for member in members] == [[[0, 1]], [[2]], []]  # the third one is not even called
    assert prediction.members_used.tolist() == [1, 1, 1]


def test_members_may_differ_in_their_heads(
    make_bank: Callable[..., Bank], table_members: Members, sample_numbers: Numbers
) -> None:
    one, two = make_bank(5, heads=1, members=1), make_bank(5, heads=2, members=1, seed=1)
    mixture = Mixture([*table_members(one), *table_members(two)], by_table(torch.zeros(5, 2)))
    expected = (one.outputs[:, 0, 0].softmax(1) + two.outputs[:, 0, 0].softmax(1)) / 2
    torch.testing.assert_close(mixture.predict(sample_numbers(5)).probs, expected)


def test_arrays_are_taken_as_a_cascade_takes_them(make_bank: Callable[..., Bank], table_members: Members) -> None:
    mixture = Mixture(table_members(make_bank(5)), by_table(torch.randn(5, 3)))
    numbers = np.arange(5.0)[:, None]
    assert torch.equal(mixture.predict(numbers).probs, mixture.predict(torch.from_numpy(numbers)).probs)
    assert torch.equal(mixture.gates(numbers), mixture.gates(torch.from_numpy(numbers)))


@pytest.mark.parametrize("top", [2, None])
def test_a_sample_whose_gate_is_no_number_runs_nothing_and_has_no_answer(
    top: int | None, make_bank: Callable[..., Bank], table_members: Members, sample_numbers: Numbers
) -> None:
    logits_NT = torch.randn(5, 3)
    mixture = Mixture(table_members(make_bank(5)), by_table(logits_NT), top=top)
    before = mixture.predict(sample_numbers(5))
    logits_NT[2, 1] = torch.nan
    after = mixture.predict(sample_numbers(5))
    assert after.failed.tolist() == [False, False, True, False, False]
    assert (int(after.members_used[2]), int(after.labels[2])) == (0, -1)
    assert not after.ran[2].any()
    kept = torch.tensor([0, 1, 3, 4])
    assert torch.equal(after.outputs[kept], before.outputs[kept])
    assert mixture.predict(sample_numbers(5)[2:3]).labels.tolist() == [-1]  # nobody else has a gate either


def test_a_mixture_is_shown_in_a_line() -> None:
    assert repr(Mixture([nn.Linear(1, 2)] * 3, nn.Linear(1, 3), top=2)) == "Mixture(3 members, top 2, classification)"


def test_modules_are_put_into_evaluation_mode() -> None:
    member, gate = nn.Sequential(nn.Dropout(0.9), nn.Linear(4, 3)), nn.Linear(4, 1)
    mixture = Mixture([member], gate)
    inputs = torch.randn(8, 4)
    assert not member.training
    assert not gate.training
    assert torch.equal(mixture.predict(inputs).probs, mixture.predict(inputs).probs)


def test_a_mixture_that_cannot_work_is_refused(
    make_bank: Callable[..., Bank], table_members: Members, sample_numbers: Numbers
) -> None:
    members = table_members(make_bank(3))
    with pytest.raises(OptionError, match="of 3 members cannot run the top 4"):
        Mixture(members, nn.Linear(1, 3), top=4)
    with pytest.raises(OptionError, match="of 0 members"):
        Mixture([], nn.Linear(1, 3))
    with pytest.raises(OptionError, match="3 members and costs for 1"):
        Mixture(members, nn.Linear(1, 3), costs=[Cost()])
    with pytest.raises(OptionError, match="gate gave 5 weights for 3 members"):
        Mixture(members, nn.Linear(1, 5)).predict(sample_numbers(3))
