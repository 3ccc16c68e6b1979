from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from irene.errors import OptionError
from irene.models.packed import RankOne
from irene.run import Run
from irene.training.methods.batch_ensemble import BatchEnsembleOptions

Trainer = Callable[..., Run]


def test_saves_parameters_and_not_flops(trainer: Trainer) -> None:
    run = trainer("batch-ensemble", backbones=("resnet8",), epochs=4)
    single = trainer("single", name="single", backbones=("resnet8",), epochs=1)
    assert run.figures["test"]["accuracy"] > 0.85
    (member,) = run.members()
    assert member.spec.backbone == "batch4/resnet8"
    (cost,), (one,) = run.costs, single.costs
    assert cost.members == 1
    assert cost.parameters < 1.2 * one.parameters
    assert cost.flops == pytest.approx(4 * one.flops, rel=0.05)


def test_the_factors_of_the_sub_models_learn(trainer: Trainer) -> None:
    (member,) = trainer("batch-ensemble", options=BatchEnsembleOptions(submodels=2)).members()
    for layer in (part for part in member.modules() if isinstance(part, RankOne)):
        assert not torch.equal(layer.s.abs(), torch.ones_like(layer.s))
        assert not torch.equal(layer.r[0], layer.r[1])


def test_refuses_no_sub_models() -> None:
    with pytest.raises(OptionError, match="at least 1 sub-model"):
        BatchEnsembleOptions(submodels=0)
