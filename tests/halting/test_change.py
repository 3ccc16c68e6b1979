"""The change predictor says how probable it is that an answer stays, learns without labels, and can be kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from irene.bank import Bank
from irene.cascade import Cascade
from irene.errors import OptionError
from irene.halting.change import ChangePredictor
from irene.halting.features import FEATURES, feature_table
from irene.halting.policies import Random
from irene.halting.registry import describe, restore
from irene.halting.rule import Aggregation

MEAN = Aggregation((1.0, 2.0, 1.0), (1.5, 1.0, 0.8))


def test_scores_are_those_of_a_logistic_regression_on_whether_the_answer_stays(
    make_bank: Callable[..., Bank],
) -> None:
    bank = make_bank(400)
    policy = ChangePredictor.fit(bank.outputs, MEAN)
    table, means = feature_table(FEATURES["classification"], bank.outputs, MEAN, "classification")
    answers = means.argmax(2)
    scores = bank.trajectory(policy, MEAN).scores_NT
    for t in range(2):
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        model.fit(table[:, t].double().numpy(), (answers[:, t] == answers[:, 2]).numpy())
        np.testing.assert_allclose(scores[:, t], model.predict_proba(table[:, t].double().numpy())[:, 1], atol=1e-4)
    assert bool((scores[:, 2] == 1).all())


def test_finds_the_answers_that_change(make_bank: Callable[..., Bank]) -> None:
    bank, fresh = make_bank(1000, seed=1), make_bank(1000, seed=2)
    mean = Aggregation.equal(3)
    final = fresh.replay().labels

    def kept(policy: Any) -> float:
        path = fresh.trajectory(policy, mean)
        cuts = path.cuts()
        costs = path.sweep(cuts, path.costs(torch.ones(3)))
        stop = path.stop(float(cuts[(costs - 1.5).abs().argmin()]))
        return float((stop.labels == final).double().mean())

    assert kept(ChangePredictor.fit(bank.outputs, mean)) > kept(Random()) + 0.02


def test_an_answer_that_never_changes_gives_one_high_score(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(50, members=1)
    copies = replace(bank.members([0, 0, 0]), outputs=bank.outputs.expand(-1, 3, -1, -1))
    scores = copies.trajectory(ChangePredictor.fit(copies.outputs, Aggregation.equal(3))).scores_NT[:, 0]
    assert bool((scores == scores[0]).all())
    assert 0.9 < float(scores[0]) < 1


def test_is_written_down_and_read_back(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(200)
    policy = ChangePredictor.fit(bank.outputs, MEAN).at(0.7)
    again = restore(describe(policy), policy.state_dict())
    torch.testing.assert_close(
        bank.trajectory(again, MEAN).scores_NT, bank.trajectory(policy, MEAN).scores_NT, rtol=0, atol=0
    )
    assert again.threshold == 0.7


def test_cascade_and_replay_agree(
    make_bank: Callable[..., Bank],
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
) -> None:
    bank = make_bank(200)
    policy = ChangePredictor.fit(bank.outputs, MEAN).at(0.8)
    replayed = bank.replay(policy, MEAN)
    run = Cascade(table_members(bank), policy, aggregation=MEAN).predict(sample_numbers(200))
    assert torch.equal(run.members_used, replayed.members_used)
    assert len(set(run.members_used.tolist())) > 1
    torch.testing.assert_close(run.outputs, replayed.outputs)


def test_serves_fewer_members_but_not_more_nor_values(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(100)
    policy = ChangePredictor.fit(bank.outputs, Aggregation.equal(3)).at(0.8)
    assert bank.members([0, 1]).replay(policy).members_used.max() <= 2
    with pytest.raises(OptionError, match="fitted for 3 members, got 4"):
        bank.members([0, 1, 2, 2]).replay(policy)
    with pytest.raises(OptionError, match="needs class probabilities"):
        make_bank(20, task="regression").replay(policy)
