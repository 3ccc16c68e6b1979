from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from irene.data import load
from irene.errors import OptionError
from irene.run import Run
from irene.training.methods.sparse_moe import SparseMoeOptions, chance_of_running, squared_variation

Trainer = Callable[..., Run]


@pytest.mark.parametrize("top", [1, 2, 3])
def test_the_chance_of_running_is_the_frequency_over_new_noise(top: int) -> None:
    generator = torch.Generator().manual_seed(0)
    clean, spread = torch.randn(6, 4, generator=generator), torch.rand(6, 4, generator=generator) + 0.3
    noisy = clean + spread * torch.randn(6, 4, generator=generator)
    chance = chance_of_running(clean, noisy, spread, top)
    for i in range(4):
        again = noisy.expand(20_000, 6, 4).clone()
        again[:, :, i] = clean[:, i] + spread[:, i] * torch.randn(20_000, 6, generator=generator)
        kept = (again.topk(top, dim=2).indices == i).any(2)
        torch.testing.assert_close(chance[:, i], kept.float().mean(0), atol=0.02, rtol=0)


def test_squared_variation() -> None:
    x = torch.tensor([1.0, 2.0, 6.0])
    assert float(squared_variation(x)) == pytest.approx((np.std(x.numpy()) / np.mean(x.numpy())) ** 2)
    assert float(squared_variation(torch.full((5,), 3.0))) == 0


def test_only_the_chosen_experts_run_and_all_have_work(trainer: Trainer) -> None:
    run = trainer("sparse-moe")
    inputs = load("digits").test.inputs
    assert inputs is not None
    mixture = run.predictor()
    asked = []
    for member in mixture.members:
        member.register_forward_hook(lambda _, arguments, __: asked.append(len(arguments[0])))
    prediction = mixture.predict(inputs)
    assert (prediction.members_used == 2).all()
    assert sum(asked) == 2 * len(inputs)
    assert min(asked) > 0.2 * len(inputs)
    assert run.figures["test"]["cost"] == 2


def test_inference_has_no_noise(trainer: Trainer) -> None:
    mixture, inputs = trainer("sparse-moe", epochs=1).predictor(), load("digits").test.inputs
    assert torch.equal(mixture.predict(inputs).outputs, mixture.predict(inputs).outputs)


def test_the_top_can_be_one(trainer: Trainer) -> None:
    run = trainer("sparse-moe", options=SparseMoeOptions(top=1), members=2)
    assert run.figures["test"]["cost"] == 1
    assert run.figures["test"]["accuracy"] > 0.8


def test_refuses_what_cannot_work(trainer: Trainer) -> None:
    with pytest.raises(OptionError, match="the top 2 of 2 members is all of them"):
        trainer("sparse-moe", members=2)
    with pytest.raises(OptionError, match="at least one expert"):
        SparseMoeOptions(top=0)
    with pytest.raises(OptionError, match="balancing losses"):
        SparseMoeOptions(balance=-1)
