"""Fused networks answer as the networks they were made from."""

from __future__ import annotations

from typing import final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from irene.models import MemberSpec, build
from irene.runtime.fused import ConvReLU, fused
from irene.runtime.torch_backend import Eager


def trained_like(module: nn.Module, images: Tensor) -> nn.Module:
    """The module in evaluation, its batch norms with statistics and weights of their own."""
    torch.manual_seed(1)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d) and part.affine:
            nn.init.uniform_(part.weight, 0.5, 2)
            nn.init.normal_(part.bias)
    with torch.no_grad():
        for _ in range(3):
            module(images)
    return module.eval()


@final
class Mixed(nn.Module):
    """Everything that must be left alone, and some that must not."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Conv2d(4, 4, 3, padding=1)
        self.read_twice = nn.Conv2d(4, 4, 3, padding=1)
        self.named = nn.Conv2d(4, 4, 3, padding="same")
        self.norm = nn.BatchNorm2d(4)
        self.unfolded = nn.BatchNorm2d(4, track_running_stats=False)
        self.last = nn.Conv2d(4, 2, 1, bias=False)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.shared(F.relu(self.shared(x))))
        y = self.read_twice(x)
        y = self.relu(self.norm(y) + y)
        y = torch.relu(self.unfolded(self.named(y)))
        return F.relu(1 + self.last(y)).flatten(1)


@final
class Branching(nn.Module):
    """What it does depends on the values it sees: no trace can follow."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("backbone", "convolutions", "alone"), [("resnet18", 20, 3), ("resnet32", 31, 0), ("cnn", 3, 0)]
)
def test_a_fused_network_answers_alike_and_has_no_batch_norms(backbone: str, convolutions: int, alone: int) -> None:
    images = torch.randn(8, 3, 16, 16)
    member = build(MemberSpec(backbone=backbone, shape=(3, 16, 16), outputs=10), seed=0)
    network = trained_like(member.backbone, images)
    expected = network(images)
    made = fused(network)
    torch.testing.assert_close(made(images), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(network(images), expected, rtol=0, atol=0)  # the network itself is as it was
    kinds = [type(part) for part in made.modules()]
    assert (kinds.count(nn.Conv2d), kinds.count(nn.BatchNorm2d)) == (convolutions, 0)
    assert kinds.count(ConvReLU) == convolutions - alone  # projections have no ReLU of their own


def test_what_others_read_or_share_is_left_alone() -> None:
    images = torch.randn(4, 4, 8, 8)
    network = trained_like(Mixed(), images)
    made = fused(network)
    torch.testing.assert_close(made(images), network(images), rtol=1e-5, atol=1e-5)
    assert not any(isinstance(part, ConvReLU) for part in made.modules())


def test_a_network_that_cannot_be_traced_is_returned_as_it_is() -> None:
    network = Branching()
    assert fused(network) is network


def test_reduced_precision_runs_the_fused_network() -> None:
    images = torch.randint(0, 256, (16, 3, 16, 16), dtype=torch.uint8)
    spec = MemberSpec(backbone="resnet20", shape=(3, 16, 16), outputs=10, heads=2)
    member = build(spec, seed=0, mean=torch.full((3,), 127.0), std=torch.full((3,), 64.0))
    trained_like(member, images)
    backend = Eager.load(member, images, precision="bf16")
    assert any(isinstance(part, ConvReLU) for part in backend._member.modules())
    with torch.no_grad():
        expected = member(images)
    torch.testing.assert_close(backend.run(images).float(), expected, rtol=0.1, atol=0.1 * float(expected.std()))
    assert not any(isinstance(part, ConvReLU) for part in member.modules())
