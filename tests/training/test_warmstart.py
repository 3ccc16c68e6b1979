"""Members that go on from the one before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from irene.training.methods.irene import IreneOptions
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.train import TrainOptions, train


def half_fixed(shape: tuple[int, ...]) -> nn.Module:
    """A backbone whose first layer is not to be trained, as one that was trained elsewhere."""
    fixed = nn.Linear(64, 16).requires_grad_(False)
    nn.init.constant_(fixed.weight, 0.1)
    return nn.Sequential(nn.Flatten(), fixed, nn.ReLU(), nn.Linear(16, 16), nn.ReLU())


@pytest.mark.parametrize(("method", "own"), [("snapshot", None), ("fge", None), ("irene", IreneOptions(later="go-on"))])
def test_what_a_backbone_has_fixed_stays_as_it_is(
    method: str, own: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("irene.models.registry.from_path", lambda path, shape: half_fixed(shape))
    run = train(
        method,
        "digits",
        tmp_path / "run",
        options=TrainOptions(members=2, backbones=("my:backbone",), device="cpu"),
        loop=LoopOptions(epochs=2, batch_size=64, optimizer=OptimizerOptions(lr=0.05)),
        method_options=own,
    )
    first, second = (member.backbone for member in run.members())
    for backbone in (first, second):
        assert torch.equal(backbone[1].weight, torch.full((16, 64), 0.1))
    assert not torch.equal(first[3].weight, second[3].weight), "what is free goes on learning"
