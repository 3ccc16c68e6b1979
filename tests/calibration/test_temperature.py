"""A fitted temperature makes confidence mean what it says, and stays within its bounds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from irene.bank import Bank
from irene.calibration.temperature import COLDEST, HOTTEST, fit_temperature, fit_temperatures


@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
def test_gives_back_the_factor_that_logits_were_blown_up_by(factor: float) -> None:
    logits = torch.randn(20_000, 4) * 2
    labels = torch.distributions.Categorical(logits=logits).sample()
    assert fit_temperature(logits * factor, labels) == pytest.approx(factor, rel=0.05)


def test_no_temperature_of_a_fine_grid_is_better(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(500, sharpness=3.0)
    found = fit_temperatures(bank.outputs, bank.targets)
    for t, temperature in enumerate(found):
        logits = bank.outputs[:, t, 0].double()
        grid = torch.linspace(0.1, 10, 2000).tolist()
        best = min(float(functional.cross_entropy(logits / one, bank.targets)) for one in grid)
        assert float(functional.cross_entropy(logits / temperature, bank.targets)) <= best + 1e-6


def test_so_many_classes_that_logits_are_looked_at_in_parts() -> None:
    """The parts together have their minimum where the whole has."""
    logits = torch.randn(1500, 1000) * 2
    labels = torch.distributions.Categorical(logits=logits).sample()
    found = fit_temperature(logits * 2.0, labels)
    at = [float(functional.cross_entropy(logits.double() * 2.0 / (found * near), labels)) for near in (0.999, 1, 1.001)]
    assert at[1] == min(at)


def test_members_that_are_always_right_or_know_nothing_stay_within_bounds() -> None:
    labels = torch.arange(300) % 3
    sure = 10.0 * functional.one_hot(labels, 3)
    assert COLDEST <= fit_temperature(sure, labels) < 0.5
    assert 15 < fit_temperature(sure.roll(1, 0), labels) <= HOTTEST
