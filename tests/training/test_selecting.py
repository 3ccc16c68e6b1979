"""The price finds the cost that was asked for, and a selector learns who needs more members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from irene.bank import Bank
from irene.halting.selector import Selector
from irene.training.distributed import World
from irene.training.evidence import Evidence
from irene.training.selecting import PRICE_DAMPING, PRICE_MOST, PRICE_STEP, Price, expected_terms, fit_selector

CPU = torch.device("cpu")
DEAR, CHEAP = torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]])


def test_the_price_rises_while_the_cost_is_too_high_and_falls_while_too_low() -> None:
    price = Price(torch.tensor([2.0, 4.0]), asked=3.0, start=0.1, device=CPU)
    above, below = (6 - 3) / 4, (2 - 3) / 4  # in units of the dearest member
    after_dear = 0.1 + PRICE_STEP * above
    assert price.charge(DEAR).item() == pytest.approx((after_dear + PRICE_DAMPING * above) * 6 / 4)
    assert price.value.item() == pytest.approx(after_dear)
    after_cheap = after_dear + PRICE_STEP * below
    assert price.charge(CHEAP).item() == pytest.approx((after_cheap + PRICE_DAMPING * below) * 2 / 4)
    assert price.value.item() == pytest.approx(after_cheap)


def test_a_wish_that_was_out_of_reach_does_not_hold_the_price() -> None:
    price = Price(torch.ones(2), asked=1.5, start=0.0, device=CPU)
    for _ in range(5000):
        price.charge(DEAR)
    highest = price.value.item()
    assert highest == PRICE_MOST
    price.charge(CHEAP)
    assert price.value.item() < highest  # at once, however long it pushed before


@pytest.mark.parametrize("asked", [0.1, 99.0])
def test_a_wish_is_kept_within_what_the_members_can_reach(asked: float) -> None:
    price = Price(torch.ones(3), asked=asked, start=0.0, device=CPU)
    assert price.asked is not None
    assert 1 < price.asked < 3


def test_a_price_without_a_wish_stays() -> None:
    price = Price(torch.ones(2), asked=None, start=0.25, device=CPU)
    p_BT = torch.tensor([[0.5, 0.5]], requires_grad=True)
    price.charge(p_BT).backward()
    assert price.value.item() == 0.25
    assert p_BT.grad is not None
    assert p_BT.grad.tolist() == [[0.25, 0.5]]


def test_expected_terms_of_certain_decisions_are_those_at_the_halting_step() -> None:
    logits_BT = torch.tensor([[50.0, 0.0, 0.0], [-50.0, 50.0, 0.0], [-50.0, -50.0, -50.0]])
    regret_BT = torch.rand(3, 3)
    price = Price(torch.ones(3), asked=None, start=0.5, device=CPU)
    terms = expected_terms(logits_BT, regret_BT, price)
    torch.testing.assert_close(terms["ensemble"], regret_BT.diagonal().mean())
    assert terms["cost"].item() == pytest.approx(0.5 * 2)


def test_expected_terms_are_weighed() -> None:
    logits_BT, regret_BT = torch.randn(20, 3), torch.rand(20, 3)

    def terms(**weights: float) -> dict[str, Tensor]:
        return expected_terms(logits_BT, regret_BT, Price(torch.ones(3), asked=1.3, start=0.5, device=CPU), **weights)

    plain, weighed = terms(), terms(ensemble=0.3, cost=0.0)
    torch.testing.assert_close(weighed["ensemble"], 0.3 * plain["ensemble"])
    assert plain["cost"].item() != 0
    assert weighed["cost"].item() == 0


@pytest.mark.parametrize("left_out", ["ensemble", "cost"])
def test_a_selector_is_fitted_without_a_term_of_weight_zero(
    make_bank: Callable[..., Bank], make_loop: Callable[..., Any], left_out: Any
) -> None:
    bank = make_bank(600, accuracy=[0.7, 0.95, 0.95])
    selector = Selector()
    evidence = Evidence(bank.outputs, bank.targets, names=selector.features, task="classification", device=CPU)
    price = Price(torch.ones(3), asked=1.3, start=0.1, device=CPU)
    fit_selector(make_loop(), selector, evidence, price, epochs=100, **{left_out: 0.0})
    with torch.no_grad():
        h_NT = selector.halting_logits(evidence.features).sigmoid()
    cost = float((1 + (1 - h_NT[:, 0]) * (2 - h_NT[:, 1])).mean())
    if left_out == "cost":
        assert cost > 2  # nothing keeps it from going on
    else:
        assert cost == pytest.approx(1.3, abs=0.05)


@pytest.mark.parametrize("asked", [1.3, 1.6])
def test_a_fitted_selector_costs_what_was_asked_and_sends_on_the_samples_that_gain(
    make_bank: Callable[..., Bank], make_loop: Callable[..., Any], asked: float
) -> None:
    bank = make_bank(600, accuracy=[0.7, 0.95, 0.95])
    selector = Selector()
    evidence = Evidence(bank.outputs, bank.targets, names=selector.features, task="classification", device=CPU)
    price = Price(torch.ones(3), asked=asked, start=0.1, device=CPU)
    fit_selector(make_loop(), selector, evidence, price, epochs=300)
    with torch.no_grad():
        h_NT = selector.halting_logits(evidence.features).sigmoid()
    expected = 1 + (1 - h_NT[:, 0]) + (1 - h_NT[:, 0]) * (1 - h_NT[:, 1])
    assert expected.mean().item() == pytest.approx(asked, abs=0.1)  # its threshold, set afterwards, does the rest
    gains = evidence.regret[:, 0] > 0  # by the word of all members another answer than the first one's is better
    assert 0.05 < gains.double().mean() < 0.5
    assert h_NT[gains, 0].mean() < h_NT[~gains, 0].mean() - 0.2


def test_processes_that_train_together_move_one_price() -> None:
    class Other(World):
        """Two processes, the other of which always sees a cost of two."""

        def average(self, values: Tensor) -> Tensor:
            return values.add_(2.0).div_(2)

    prices = [Price(torch.ones(2), asked=1.5, start=0.2, device=CPU, world=world) for world in (World(), Other())]
    for price in prices:
        price.charge(CHEAP)  # a cost of one here, one and a half on average
    assert float(prices[0].value) < 0.2
    assert float(prices[1].value) == pytest.approx(0.2)
