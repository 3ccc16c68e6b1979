"""`auto` compares policies at equal cost on folds they were not fitted on, and keeps the plain one when in doubt."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from irene.bank import Bank
from irene.calibration.frontier import frontier
from irene.calibration.selection import (
    CANDIDATES,
    choose_policy,
    cross_validate,
    fit_named,
    learner_of,
    quality_at_cost,
    quality_at_costs,
)
from irene.calibration.weights import fit_aggregation
from irene.calibration.wishes import Wish
from irene.errors import OptionError
from irene.halting.policies import Margin
from irene.halting.rule import Aggregation


def test_few_samples_fall_back_to_the_margin_and_say_why(lifelike_bank: Callable[..., Bank]) -> None:
    chosen, why = choose_policy(lifelike_bank(1999), Wish(cost=1.3), fit_aggregation, seed=0)
    assert chosen.name == "margin"
    assert why == "margin: 1999 samples to fit on, and a learned policy needs 2000 to be safe"


def test_unequal_members_need_more_than_a_margin(lifelike_bank: Callable[..., Bank]) -> None:
    """A second member that knows little makes "is it unsure?" and "will it gain?" two questions."""
    bank = lifelike_bank(4000, skills=(0.5, 0.5, 3.0))
    chosen, why = choose_policy(bank, Wish(cost=1.5), fit_aggregation, seed=0)
    assert chosen.name == "cost-to-go"
    assert why.startswith("cost-to-go: +")
    assert "5-fold cross-validation on 4000 samples" in why


def test_the_margin_is_kept_where_nothing_is_to_be_had(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(2000)
    same = replace(bank, outputs=bank.outputs[:, :1].expand(-1, 3, -1, -1))
    chosen, why = choose_policy(same, Wish(cost=1.5), fit_aggregation, seed=0)
    assert chosen.name == "margin"
    assert why.startswith("margin: no other is better by a standard error")


def test_the_margin_is_kept_unless_another_is_better_by_a_standard_error(lifelike_bank: Callable[..., Bank]) -> None:
    """A gain that chance alone would give is none."""
    measured = re.compile(r"\+(\S+) points of accuracy \(standard error (\S+)\)")
    names = set()
    for seed in range(3):
        chosen, why = choose_policy(lifelike_bank(2000, seed=seed), Wish(cost=1.5), fit_aggregation, seed=0)
        found = measured.search(why)
        assert found is not None, why
        gain, error = map(float, found.groups())
        assert gain > 0
        assert chosen.name == ("cost-to-go" if gain > error else "margin")
        names.add(chosen.name)
    assert names == {"margin", "cost-to-go"}, "both cases were seen"


@pytest.mark.parametrize("asked", [None, 1.0, 1.4, 2.3, 3.0])
@pytest.mark.parametrize(("names", "low"), [(("margin", "agreement"), 1), (("spread", "cost-to-go"), 2)])
def test_policies_are_compared_at_exactly_equal_costs(
    lifelike_bank: Callable[..., Bank],
    make_bank: Callable[..., Bank],
    asked: float | None,
    names: tuple[str, str],
    low: int,
) -> None:
    """Spread cannot stop at the first member of one head, and cost-to-go can."""
    values = names[0] == "spread"
    bank = make_bank(300, task="regression", heads=1) if values else lifelike_bank(300)
    mean = Aggregation.equal(3)
    curves = [frontier(bank, fit_named(name, bank, mean, "members"), mean) for name in names]
    paid = quality_at_costs([replace(curve, quality_NT=curve.costs_NT) for curve in curves], asked)
    if asked is None:
        levels = low + (3 - low) * torch.linspace(0.1, 0.8, 9).square()
    else:
        levels = (low + (asked - low) * torch.linspace(0.5, 1.5, 9)).clamp(low, 3)
    for paid_N in paid:
        assert float(paid_N.mean()) == pytest.approx(float(levels.mean()), rel=1e-6)


def test_no_policy_gains_by_costing_less(make_bank: Callable[..., Bank]) -> None:
    """Of one value with one head both policies know the same, so at equal cost neither can be better."""
    bank = make_bank(2400, task="regression", heads=1, outputs=1, accuracy=(0.5, 0.6, 0.9))
    chosen, why = choose_policy(bank, Wish(cost=2.5), fit_aggregation, seed=0)
    assert chosen.name == "spread"
    assert "cost-to-go with a squared error +0 lower" in why


@pytest.mark.parametrize(
    "wish",
    [Wish(cost=2.3), Wish(cost=2.3, guaranteed=True), Wish(max_drop=0.5)],
    ids=["cost", "promised", "drop"],
)
def test_a_policy_that_jumps_over_the_costs_in_question_is_not_taken(wish: Wish) -> None:
    """Cost-to-go stops all values at the first member or none before the last, which is worth most: never between.

    Half of the samples at one end and half at the other would beat the spread, and no threshold gives that.
    """
    chance = torch.Generator().manual_seed(0)
    targets = torch.randn(5000, 1, generator=chance)
    noise = torch.randn(5000, 3, 1, generator=chance)
    noise[:, 1] = 0.9 * noise[:, 0] + 0.4 * noise[:, 1]  # the second member knows little that the first does not
    noise[:, 2] *= 0.2
    bank = Bank.from_arrays(targets[:, None] + noise, targets, task="regression")
    mean = fit_aggregation(bank)
    jumps = frontier(bank, fit_named("cost-to-go", bank, mean, "members"), mean)
    assert not bool(((jumps.cost_M > 1.01) & (jumps.cost_M < 2.99)).any())
    plain = frontier(bank, fit_named("spread", bank, mean, "members"), mean)
    assert jumps.quality_at(2.3).mean() > plain.quality_at(2.3).mean()
    chosen, why = choose_policy(bank, wish, fit_aggregation, seed=0)
    assert chosen.name == "spread"
    assert why.startswith("spread: no other can be set to the costs in question")


def test_every_sample_is_judged_once_and_the_same_way_for_the_same_seed(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(200)
    first, again = (
        cross_validate(
            bank,
            [learner_of(name) for name in CANDIDATES["classification"]],
            fit_aggregation,
            "members",
            lambda curves: [quality_at_cost(curve, 1.5) for curve in curves],
            seed=3,
        )
        for _ in range(2)
    )
    for quality, same in zip(first, again, strict=True):
        assert torch.equal(quality, same)
        assert set(quality.tolist()) == {0.0, 1.0}
        assert float(quality.mean()) > 0.4


def test_some_names_cannot_be_fitted(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(50, task="regression")
    mean = Aggregation.equal(3)
    for name in ("change", "skipping"):
        with pytest.raises(OptionError, match=f"the {name} policy needs class probabilities"):
            fit_named(name, bank, mean, "members")
    with pytest.raises(OptionError, match=r"fitted by irene\.fit_policy"):
        fit_named("selector", bank, mean, "members")
    with pytest.raises(OptionError, match="did you mean margin"):
        fit_named("margn", bank, mean, "members")


def test_knows_which_policies_learn() -> None:
    names = ("change", "cost-to-go", "skipping", "margin", "never")
    assert [name for name in names if learner_of(name).learns] == ["change", "cost-to-go", "skipping"]
    assert learner_of(lambda *_: Margin()).learns
