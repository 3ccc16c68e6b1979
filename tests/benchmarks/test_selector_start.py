"""Cross-validation on held-out samples: where selectors start and how fast they learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import selector_start
from ensembles import Pair, Setting

from irene.bank import Bank
from irene.halting.policies import Margin
from irene.training import selecting


@pytest.fixture
def setting(lifelike_bank: Callable[..., Bank]) -> Setting:
    heldout, test = (lifelike_bank(1500, seed=seed) for seed in (0, 1))
    return Setting(
        name="equal", costs=(1.1, 1.5), unit="members", unit_size=1.0, pairs=[Pair(heldout, test)], said="three"
    )


def test_nobody_is_looked_at_by_what_it_was_fitted_on(setting: Setting) -> None:
    bank = setting.pairs[0].heldout
    looked_at = []
    for known, fresh in selector_start.in_parts(bank):
        assert not set(known.ids.tolist()) & set(fresh.ids.tolist())
        assert len(known) + len(fresh) == len(bank)
        looked_at += fresh.ids.tolist()
    assert sorted(looked_at) == sorted(bank.ids.tolist())


def test_selectors_learn_at_the_rate_and_for_the_cost_in_question(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def fitter(cost: float) -> Callable[..., Margin]:
        def fit(*_: Any) -> Margin:
            seen.append((selecting.FIT_RATE, cost))
            return Margin()

        return fit

    monkeypatch.setattr(selector_start, "selector_fitter", fitter)
    usual = selecting.FIT_RATE
    found = selector_start.compare(setting, selector_start.THRESHOLDS | selector_start.BY_RATE)
    assert set(seen) == {(rate, cost) for rate in selector_start.RATES for cost in setting.costs}
    assert usual == selecting.FIT_RATE == selector_start.RATES[-1]
    for name in selector_start.BY_RATE:  # here they are margins, as the baseline is
        assert found["gains"][name] == [[0.0, 0.0, 0.0]] * 3


def test_gains_are_over_margin_at_the_same_cost(setting: Setting) -> None:
    worse = {"upside down": lambda setting, bank, mean: lambda cost: _Worst()}
    found = selector_start.compare(setting, {**selector_start.THRESHOLDS, **worse})
    assert found["gains"]["upside down"][-1][0] < 0
    assert "| upside down | **-" in selector_start.markdown("three", found)


class _Worst(Margin):
    """Stops whom it should not: those with the smallest margin."""

    def score(self, step: Any, state: Any) -> Any:
        score_B, state = super().score(step, state)
        return -score_B, state
