from __future__ import annotations

from collections.abc import Callable

import pytest

from irene.errors import OptionError
from irene.run import Run
from irene.training.methods.mimo import MimoOptions

Trainer = Callable[..., Run]


def test_one_member_at_about_the_cost_of_one_model(trainer: Trainer) -> None:
    run = trainer("mimo", backbones=("cnn",), epochs=8)
    single = trainer("single", name="single", backbones=("cnn",), epochs=1)
    assert run.figures["test"]["accuracy"] > 0.85
    (member,) = run.members()
    assert member.spec.backbone == "mimo2/cnn"
    (cost,), (one,) = run.costs, single.costs
    assert cost.flops < 1.1 * one.flops
    assert cost.parameters < 1.1 * one.parameters


@pytest.mark.parametrize("settings", [{"submodels": 0}, {"repetition": 1.5}])
def test_refuses_what_cannot_work(settings: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="at least 1 sub-model and a repetition from 0 to 1"):
        MimoOptions(**settings)
