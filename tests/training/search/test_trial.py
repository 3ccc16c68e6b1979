"""A trial: drawn from Table 3, judged on samples nothing was fitted on, ended when others do better."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
import torch
from torch import Tensor, nn

from irene.data import Data
from irene.errors import MissingExtraError, OptionError
from irene.training.methods.irene import IreneOptions
from irene.training.search.trial import (
    DECAYS,
    RANGES,
    TuneOptions,
    _Watch,
    search_for,
    suggest,
    with_parameters,
)
from irene.training.train import TrainOptions


def test_the_space_is_the_papers_table_3() -> None:
    assert RANGES == {
        "selector_lr": (1e-5, 1e-1),
        "loss_weights.ensemble": (1e-4, 0.1),
        "loss_weights.cost": (1e-5, 0.1),
        "loss_weights.rank": (1e-4, 0.1),
    }
    assert DECAYS == (0.1, 0.2, 0.5, 0.8)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = [suggest(study.ask()) for _ in range(200)]
    for name, (low, high) in RANGES.items():
        values = torch.tensor([one[name] for one in drawn])
        assert bool(((values >= low) & (values <= high)).all())
        middle = (low * high) ** 0.5  # half of what is drawn on a log scale lies below it
        assert float((values < middle).double().mean()) == pytest.approx(0.5, abs=0.12)
    assert {one["selector_decay"] for one in drawn} == set(DECAYS)


def test_parameters_become_options() -> None:
    base = IreneOptions(cost=1.7)
    own = with_parameters(
        base,
        {
            "selector_lr": 0.02,
            "selector_decay": 0.8,
            "loss_weights.ensemble": 0.03,
            "loss_weights.cost": 0.04,
            "loss_weights.rank": 0.05,
        },
    )
    assert (own.selector_lr, own.selector_decay, own.cost) == (0.02, 0.8, 1.7)
    weights = own.loss_weights
    assert (weights.ensemble, weights.cost, weights.rank) == (0.03, 0.04, 0.05)
    assert weights.discrepancy == base.loss_weights.discrepancy


def test_test_samples_are_never_looked_at(blobs: Data, tmp_path: Path) -> None:
    search = search_for(blobs, tmp_path, options=TuneOptions(validation=40))
    seen = torch.cat([search.data.train.ids, search.data.test.ids])
    assert sorted(seen.tolist()) == sorted(blobs.train.ids.tolist())
    assert len(search.data.test) == 40
    assert not set(seen.tolist()) & set(blobs.test.ids.tolist())
    again = search_for(blobs, tmp_path, options=TuneOptions(validation=40))
    assert torch.equal(search.data.test.ids, again.data.test.ids)
    with pytest.raises(OptionError, match="needs samples to evaluate trials on"):
        search_for(blobs, tmp_path, options=TuneOptions(validation=0))


class Fixed(nn.Module):
    """A member that always answers with one class."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits))

    def forward(self, x: Tensor) -> Tensor:
        return self.logits.expand(len(x), 1, 3)


def test_the_trial_hears_of_the_ensemble_after_each_member_and_may_end(blobs: Data, tmp_path: Path) -> None:
    search = search_for(blobs, tmp_path, options=TuneOptions(validation=60))
    told: list[tuple[int, float]] = []
    trial: Any = SimpleNamespace(
        report=lambda value, step: told.append((step, value)), should_prune=lambda: len(told) == 2
    )
    watch = _Watch(search, trial)
    shares = [float((search.data.test.targets == label).double().mean()) for label in range(3)]
    watch("member-1-fold-1", Fixed([0.0, 0.0, 1.0]))
    watch("member-1", Fixed([1.0, 0.0, 0.0]))
    watch("selector", nn.Linear(1, 1))
    with pytest.raises(optuna.TrialPruned):
        watch("member-2", Fixed([0.0, 9.0, 0.0]))
    assert told == [(1, pytest.approx(shares[0])), (2, pytest.approx(shares[1]))]
    assert set(search.first) == {"member-1", "member-1-fold-1"}  # what every trial would train again


def test_values_are_told_as_minus_their_squared_error(curve: Data, tmp_path: Path) -> None:
    search = search_for(curve, tmp_path, options=TuneOptions(validation=40))
    told: list[float] = []
    trial: Any = SimpleNamespace(report=lambda value, step: told.append(value), should_prune=lambda: False)

    class Zero(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.zero = nn.Parameter(torch.zeros(2))

        def forward(self, x: Tensor) -> Tensor:
            return self.zero.expand(len(x), 2)

    _Watch(search, trial)("member-1", Zero())
    assert told == [pytest.approx(-float(search.data.test.targets.square().mean()), rel=1e-5)]


def test_options_that_cannot_work_are_refused() -> None:
    for wrong in ({"trials": 0}, {"workers": 0}, {"startup": 0}):
        with pytest.raises(OptionError, match="must be at least 1"):
            TuneOptions(**wrong)


def test_without_optuna_the_extra_is_named(blobs: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"irene-ensemble\[tune\]"):
        search_for(blobs, tmp_path, train=TrainOptions(members=2)).study()
