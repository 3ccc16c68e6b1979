"""What cannot fit in memory is refused before it is made, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from irene.errors import OptionError
from irene.models import MemberSpec, build
from irene.models.registry import backbones, sketch
from irene.training import memory
from irene.training.memory import check_members
from irene.training.options import OptimizerOptions
from irene.training.train import TrainOptions, train

CPU = torch.device("cpu")
SHAPE = (3, 32, 32)


def check(*names: str, optimizer: OptimizerOptions | None = None) -> None:
    check_members(names, SHAPE, 10, optimizer or OptimizerOptions(), CPU)


def test_what_cannot_fit_is_refused_with_what_it_needs_and_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "memory_of", lambda device: 25 * 10**9)
    with pytest.raises(OptionError, match=r"a member of resnet18x100 need 1\.34TB of memory .* cpu has 25GB: give"):
        check("resnet18x100")
    with pytest.raises(OptionError, match=r"3 members of mlp, resnet18x40 need 214GB .* \(--members, --backbones\)"):
        check("mlp", "resnet18x40", "mlp")
    for name in ("resnet18x100000000", "mlpx1" + 30 * "0"):
        with pytest.raises(OptionError, match=f"'{name}' has more weights than can be counted: give a smaller width"):
            check(name)
    options = TrainOptions(members=1_000_000, backbones=("mlp",), device="cpu")
    with pytest.raises(OptionError, match="1000000 members of mlp need"):
        train("average", "digits", tmp_path / "run", options=options)
    assert not (tmp_path / "run").exists()


def test_what_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    member = build(MemberSpec(backbone="mlp", shape=SHAPE, outputs=10), seed=0)
    weights = sum(parameter.nbytes for parameter in member.parameters())
    layers = 2048 * len(list(member.modules()))
    for optimizer, copies in (
        (OptimizerOptions(momentum=0), 1),  # gradients
        (OptimizerOptions(), 2),  # and a momentum
        (OptimizerOptions(kind="adam"), 3),  # and two
    ):
        needed = 2 * (weights + layers) + copies * weights
        monkeypatch.setattr(memory, "memory_of", lambda device, there=needed: there)
        check("mlp", "mlp", optimizer=optimizer)
        monkeypatch.setattr(memory, "memory_of", lambda device, there=needed: there - 1)
        with pytest.raises(OptionError, match="2 members of mlp need"):
            check("mlp", "mlp", optimizer=optimizer)
    monkeypatch.setattr(memory, "memory_of", lambda device: None)
    check(*["mlp"] * 1_000_000)


def test_a_sketch_has_the_weights_of_what_it_stands_for() -> None:
    for name in backbones():
        assert sketch(name, SHAPE) is sketch(f"{name}x0.5", SHAPE) is None, "small ones are made"
        drawn = sketch(f"{name}x1.5", SHAPE)
        assert drawn is not None
        made = build(MemberSpec(backbone=f"{name}x1.5", shape=SHAPE, outputs=10), seed=0).backbone
        assert [one.shape for one in drawn.parameters()] == [one.shape for one in made.parameters()]
        assert all(one.is_meta for one in drawn.parameters())
