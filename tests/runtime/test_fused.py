"""Fused networks answer as the networks they were made from."""

from __future__ import annotations

from typing import final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

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


class Odd(nn.Module):
    """Two convolutions, put together in one way or another by who inherits from it."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv2d(4, 4, 3, padding=1)
        self.two = nn.Conv2d(4, 4, 3, padding=1)
        self.thin = nn.Conv2d(4, 1, 1)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.in_place = nn.ReLU(inplace=True)


@final
class Doubled(Odd):
    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x)
        return F.relu(y + y)


@final
class Named(Odd):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(input=self.one(input=x)) + self.relu(self.two(input=x) + x)


@final
class Broadcast(Odd):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.thin(x) + self.one(x))


@final
class WrittenLater(Odd):
    """The convolution reads what is there before the shortcut is made in the same memory."""

    def forward(self, x: Tensor) -> Tensor:
        x = x * 1
        y = self.one(x)
        return F.relu(y + self.in_place(x))


@final
class WrittenByOperator(Odd):
    def forward(self, x: Tensor) -> Tensor:
        x = other = x * 1
        y = self.one(x)
        x *= 3
        y = F.relu(y + other)
        x += self.two(y)
        return F.relu(x) + other


@final
class WrittenForNobody(Odd):
    """Nobody reads what the ReLU and the sum return, only what they write to."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.one(x))
        self.in_place(y)
        y.add_(1)
        return self.two(y)


@final
class Dilated(Odd):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv2d(4, 4, 3, padding=3, stride=2, dilation=2, groups=2, bias=False)
        self.two = nn.Conv2d(4, 4, (3, 1), padding=(2, 1), stride=2)  # of the same size

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.two(x) + self.norm(self.one(x)))


@pytest.mark.parametrize(
    "kind", [Doubled, Named, Broadcast, WrittenLater, WrittenByOperator, WrittenForNobody, Dilated]
)
def test_odd_networks_answer_alike(kind: type[Odd]) -> None:
    torch.manual_seed(0)
    images = torch.randn(4, 8, 8, 4).permute(0, 3, 1, 2)
    network = trained_like(kind(), images)
    torch.testing.assert_close(fused(network)(images), network(images), rtol=1e-4, atol=1e-4)


def test_a_sum_in_place_is_fused_where_only_the_relu_reads_it() -> None:
    class Block(Odd):
        def forward(self, x: Tensor) -> Tensor:
            y = self.one(x)
            y += x
            return F.relu(y, inplace=True)

    images = torch.randn(4, 4, 8, 8)
    network = trained_like(Block(), images)
    made = fused(network)
    torch.testing.assert_close(made(images), network(images))
    assert isinstance(made.get_submodule("one"), ConvReLU)


def test_a_network_with_hooks_is_returned_as_it_is() -> None:
    network = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    network.register_forward_hook(lambda _, __, output: output + 1)
    assert fused(network) is network


def test_a_parametrized_convolution_is_left_alone() -> None:
    images = torch.randn(4, 4, 8, 8)
    conv = parametrizations.weight_norm(nn.Conv2d(4, 4, 3))
    network = trained_like(nn.Sequential(conv, nn.BatchNorm2d(4), nn.ReLU()), images)
    torch.testing.assert_close(fused(network)(images), network(images))


def test_the_network_stays_in_training() -> None:
    network = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout())
    made = fused(network)
    assert all(part.training for part in network.modules())
    assert any(isinstance(part, nn.BatchNorm2d) for part in made.modules())


def test_one_kernel_takes_no_shortcut_that_is_broadcast() -> None:
    conv = nn.Conv2d(4, 6, (3, 5), stride=(1, 2), padding=(2, 1), dilation=(2, 1))
    images = torch.randn(2, 4, 9, 16)
    whole = conv(images)
    fusible = ConvReLU(conv)
    assert fusible._takes(images, whole)
    for other in (whole[:1], whole[:, :1], whole[..., :1], whole.double()):
        assert not fusible._takes(images, other)


@pytest.mark.parametrize(
    ("backbone", "convolutions", "alone"), [("resnet18", 20, 3), ("resnet32", 31, 0), ("vgg8", 7, 0), ("cnn", 3, 0)]
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


def test_reduced_precision_takes_buffers_along() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)
            self.scale: Tensor
            self.register_buffer("scale", torch.full((3, 1, 1), 2.0))

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.conv(x * self.scale)).mean((2, 3))

    images = torch.randn(5, 3, 8, 8)
    member = build(MemberSpec(backbone="cnn", shape=(3, 8, 8), outputs=4), seed=0)
    member.backbone, member.head = Scaled(), nn.Linear(8, 4)
    backend = Eager.load(member, images, precision="bf16")
    with torch.no_grad():
        expected = member(images)
    torch.testing.assert_close(backend.run(images).float(), expected, rtol=0.05, atol=0.05)
