from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest
import torch

from irene.errors import OptionError
from irene.run import Run
from irene.training.methods.fge import FgeOptions

Trainer = Callable[..., Run]


def flat(run: Run) -> list[torch.Tensor]:
    return [torch.cat([p.detach().flatten() for p in member.parameters()]) for member in run.members()]


def test_the_budget_is_one_model_half_a_cycle_and_a_cycle_for_each_other_member(trainer: Trainer) -> None:
    run = trainer("fge", epochs=5, options=FgeOptions(cycle=4))
    lines = (run.path / "metrics.jsonl").read_text().splitlines()
    assert Counter(json.loads(line)["stage"] for line in lines) == {
        "start": 5,
        "cycle-1": 2,
        "cycle-2": 4,
        "cycle-3": 4,
    }


def test_members_are_distinct_and_lie_close_together(trainer: Trainer) -> None:
    near, far = flat(trainer("fge", name="fge")), flat(trainer("average", name="average"))
    for i in range(3):
        for j in range(i):
            distance = float((near[i] - near[j]).norm())
            assert 0 < distance < 0.5 * float((far[i] - far[j]).norm())


def test_the_rates_bound_the_way(trainer: Trainer) -> None:
    short = flat(trainer("fge", name="short", options=FgeOptions(high=0.01, low=0.001)))
    long = flat(trainer("fge", name="long", options=FgeOptions(high=0.5, low=0.001)))
    assert float((short[1] - short[0]).norm()) < 0.2 * float((long[1] - long[0]).norm())


@pytest.mark.parametrize("settings", [{"cycle": 3}, {"cycle": 0}, {"low": 0.0}, {"low": 0.5, "high": 0.5}])
def test_refuses_what_cannot_work(settings: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=r"even number|0 < low < high"):
        FgeOptions(**settings)


def test_refuses_unequal_backbones(trainer: Trainer) -> None:
    with pytest.raises(OptionError, match="fge trains each member on from the one before"):
        trainer("fge", backbones=("mlp", "mlp", "cnn"))
