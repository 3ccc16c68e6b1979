"""What int8 costs a cascade is told, and refused above a limit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from irene.cascade import Cascade
from irene.data import Data, split
from irene.errors import CalibrationError, OptionError
from irene.halting.policies import Margin
from irene.models import Member, MemberSpec, build, statistics
from irene.runtime.engine import Engine
from irene.runtime.quantise import change, quantise
from irene.types import Prediction


def prediction(outputs: list[list[float]], used: list[int], task: Any = "classification") -> Prediction:
    return Prediction(task, torch.tensor(outputs), torch.tensor(used), torch.zeros(len(used), 3))


def test_change_of_labels() -> None:
    before = prediction([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]], [1, 1, 2, 3])
    after = prediction([[0.8, 0.2], [0.6, 0.4], [0.4, 0.6], [0.3, 0.7]], [1, 2, 2, 3])
    found = change(before, after, torch.tensor([0, 1, 0, 0]))
    assert (found.figure, found.before, found.after, found.loss) == ("accuracy", 0.75, 0.25, 0.5)
    assert found.agreement == 0.5
    assert (found.cost_before, found.cost_after) == (1.75, 2.0)
    found.check(0.5, "it")
    with pytest.raises(CalibrationError, match=r"int8 costs it 50\.00% of its accuracy .* at most 49\.00% was allowed"):
        found.check(0.49, "it")


def test_change_of_values() -> None:
    before = prediction([[1.0], [2.0]], [1, 1], "regression")
    after = prediction([[1.0], [4.0]], [1, 1], "regression")
    found = change(before, after, torch.tensor([[0.0], [3.0]]))
    assert (found.figure, found.before, found.after, found.agreement) == ("mse", 1.0, 1.0, None)
    assert found.loss == pytest.approx(0.0)
    assert change(before, after, torch.tensor([[0.0], [2.0]])).loss == pytest.approx(2.5 / 0.5 - 1)


def fitted_members(data: Data) -> list[Member]:
    """Members that a few steps of training have taught the data."""
    inputs = data.train.inputs
    assert inputs is not None
    mean, std = statistics(inputs)
    spec = MemberSpec(backbone="mlp", shape=data.shape, outputs=data.outputs, heads=2)
    members = [build(spec, seed=seed, mean=mean, std=std) for seed in range(2)]
    for member in members:
        optimizer = torch.optim.Adam(member.parameters(), lr=0.01)
        for _ in range(40):
            optimizer.zero_grad()
            logits: Tensor = member(inputs)
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), data.train.targets.repeat_interleave(2)).backward()
            optimizer.step()
    return [member.eval() for member in members]


def test_a_cascade_in_int8(blobs: Data) -> None:
    heldout = split(blobs, heldout=0.5, seed=1).heldout
    assert heldout.inputs is not None
    cascade = Cascade(fitted_members(blobs), Margin(0.6))
    fast = quantise(cascade, heldout.inputs, heldout.targets, max_loss=0.05)
    assert fast.whole.before > 0.7
    assert fast.whole.loss <= 0.05
    assert 1 < fast.stopping.cost_before < 2
    assert fast.stopping.cost_after == pytest.approx(fast.stopping.cost_before, abs=0.02)
    found = fast.cascade.predict(heldout.inputs)
    assert float(found.cost.mean()) == pytest.approx(fast.stopping.cost_after)
    answered = Engine(fast.cascade, heldout.inputs[:1], backends=fast.backends).predict(heldout.inputs)
    assert torch.equal(answered.members_used, found.members_used)
    with pytest.raises(CalibrationError, match="int8 costs the whole ensemble"):
        quantise(cascade, heldout.inputs, heldout.targets, max_loss=-1.0)
    with pytest.raises(OptionError, match=r"such as cost, max_drop or risk, got \['price'\]"):
        quantise(cascade, heldout.inputs, heldout.targets, asked={"price": 1.3})
