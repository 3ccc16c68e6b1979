"""Fitted weights favour the members that help the whole ensemble; others stay near equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from irene.bank import Bank
from irene.calibration.weights import fit_aggregation, fit_weights
from irene.errors import OptionError


def test_two_weights_are_the_best_of_a_fine_grid(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(2000, skills=(0.6, 2.5))
    probs = bank.outputs[:, :, 0].softmax(2)
    given = probs.gather(2, bank.targets[:, None, None].expand(-1, 2, 1))[:, :, 0].double()

    def objective(share: float) -> float:
        free = torch.tensor([share, 1 - share], dtype=torch.float64).log()
        nll = -(given @ torch.tensor([share, 1 - share], dtype=torch.float64)).log().mean()
        return float(nll + 0.01 * (free - free.mean()).square().mean())

    best = min(torch.linspace(0.001, 0.999, 999).tolist(), key=objective)
    weights = fit_weights(probs, bank.targets, "classification")
    assert weights[0] / 2 == pytest.approx(best, abs=2e-3)
    assert weights[0] < 0.5 < 1.5 < weights[1]


def test_alike_members_get_nearly_equal_weights(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(3000)
    weights = fit_weights(bank.outputs[:, :, 0].softmax(2), bank.targets, "classification")
    assert sum(weights) == pytest.approx(3)
    assert all(abs(weight - 1) < 0.2 for weight in weights)


def test_regression_weighs_by_the_squared_error(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(2000, members=2, accuracy=(0.0, 0.5), task="regression", outputs=2)
    low, high = fit_weights(bank.outputs[:, :, 0], bank.targets, "regression")
    # Independent errors with spreads 1 and 1/2: the best shares are as 1 to 4, the ridge holds them back a little.
    assert 0.2 < low / high < 0.35


@pytest.mark.parametrize("constant", [0.0, 7.0])
def test_a_target_that_never_changes_weighs_nothing(make_bank: Callable[..., Bank], constant: float) -> None:
    bank = make_bank(2000, members=2, accuracy=(0.0, 0.5), task="regression", outputs=1)
    outputs, targets = bank.outputs[:, :, 0], bank.targets
    noise = torch.randn(2000, 2, 1) * torch.tensor([1e-6, 1.0])[:, None]  # the worse member is right about it
    both = torch.cat([outputs, constant + noise], 2), torch.cat([targets, torch.full_like(targets, constant)], 1)
    alone = fit_weights(outputs, targets, "regression")
    assert fit_weights(*both, "regression") == pytest.approx(alone, abs=1e-4)


def test_an_aggregation_takes_what_was_asked(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(500, flops=(1.0, 4.0, 4.0), sharpness=3.0)
    plain = fit_aggregation(bank, temperature=False)
    assert plain.weights == plain.temperatures == (1.0, 1.0, 1.0)
    assert all(temperature > 1.2 for temperature in fit_aggregation(bank).temperatures)
    fitted = fit_aggregation(bank, weights=True)
    probs = (bank.outputs[:, :, 0] / torch.tensor(fitted.temperatures)[:, None]).softmax(2)
    assert fitted.weights == pytest.approx(fit_weights(probs, bank.targets, "classification"))
    unknown: Any = "root"
    with pytest.raises(OptionError, match=r"weights must be True .* got 'root'"):
        fit_aggregation(bank, weights=unknown)
