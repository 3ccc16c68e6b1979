"""What every method must do, whatever it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from irene.data import load
from irene.run import Run
from irene.training.methods import METHODS

Trainer = Callable[..., Run]
UNEQUAL = {"distil": ("mlpx0.5", "mlp", "mlp")}  # who teaches costs more than who is taught


def backbones(method: str) -> tuple[str, ...]:
    return UNEQUAL.get(method, ("mlp",))


def weights(run: Run) -> list[torch.Tensor]:
    return [value for member in run.members() for value in member.state_dict().values()]


@pytest.mark.parametrize("method", METHODS)
def test_learns_resumes_and_replays(method: str, trainer: Trainer, interrupted: Trainer) -> None:
    run = trainer(method, name="whole", backbones=backbones(method))
    assert run.figures["test"]["accuracy"] > 0.85, "chance is 0.1"

    for at in (2, 4):  # of most methods: within the first stage, and after it
        again = interrupted(method, name=f"killed-{at}", at=at, backbones=backbones(method))
        assert all(torch.equal(a, b) for a, b in zip(weights(run), weights(again), strict=True))
        assert torch.equal(run.bank("test").outputs, again.bank("test").outputs)
        assert run.policy().threshold == again.policy().threshold

    data, bank = load("digits"), run.bank("test")
    assert data.test.inputs is not None
    predicted = run.predictor().predict(data.test.inputs)
    replayed = bank.replay(run.policy(), run.aggregation)
    torch.testing.assert_close(predicted.outputs, replayed.outputs)
    assert torch.equal(predicted.ran, replayed.ran)


@pytest.mark.parametrize("method", METHODS)
def test_the_seed_decides(method: str, trainer: Trainer) -> None:
    first, other = (
        trainer(method, name=f"s{seed}", epochs=3, seed=seed, backbones=backbones(method)) for seed in (0, 1)
    )
    assert not torch.equal(first.bank("test").outputs, other.bank("test").outputs)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "woc"])
def test_regression(method: str, trainer: Trainer) -> None:
    run = trainer(method, data="diabetes", epochs=10, lr=0.02, backbones=backbones(method))
    assert run.figures["test"]["r2"] > 0.15, "the mean of the targets has 0"
    data = load("diabetes")
    assert data.test.inputs is not None
    predicted = run.predictor().predict(data.test.inputs)
    replayed = run.bank("test").replay(run.policy(), run.aggregation)
    torch.testing.assert_close(predicted.outputs, replayed.outputs)
