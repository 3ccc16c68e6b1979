"""Several sub-models packed into one member: MIMO and BatchEnsemble.

A packed member is named by its backbone: `mimo3/cnn` is three sub-models in one cnn, `batch4/resnet18` four in one
resnet18, and `mimo3v/mlp` or `batch4v/mlp` are the same for regression (v for values). While it trains, a packed
member answers with one head a sub-model, so the plain loss trains all of them. In evaluation it answers with one
head: the logarithm of the mean of the sub-models' probabilities, or the mean of their values.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal, Self, final

import torch
from torch import Tensor, nn

from irene.errors import OptionError
from irene.models.registry import make_backbone
from irene.models.spec import MemberSpec

MOST_SUBMODELS = 100  # each takes a batch in training: with thousands a single step does not end
_NAME = re.compile(r"(?P<kind>mimo|batch)(?P<count>\d+)(?P<values>v?)/(?P<backbone>.+)")


@dataclass(frozen=True, kw_only=True)
class Pack:
    """How sub-models are packed: `mimo` shares all but the first and last layer, `batch` all but rank-1 factors."""

    kind: Literal["mimo", "batch"]
    count: int
    values: bool
    backbone: str

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_SUBMODELS:
            raise OptionError(f"a packed member has 1 to {MOST_SUBMODELS} sub-models, got {self.count}")

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The pack a backbone's name asks for, or None for a plain backbone."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        kind: Literal["mimo", "batch"] = "mimo" if found["kind"] == "mimo" else "batch"
        return cls(kind=kind, count=int(found["count"]), values=bool(found["values"]), backbone=found["backbone"])

    @property
    def name(self) -> str:
        return f"{self.kind}{self.count}{'v' if self.values else ''}/{self.backbone}"

    def build(self, spec: MemberSpec) -> tuple[nn.Module, nn.Module]:
        """The backbone, which gives (B, M, F) features, and the head that answers from them."""
        if spec.heads != 1:
            raise OptionError(
                f"a packed member such as {self.name!r} has one head, got {spec.heads}: use a plain backbone"
            )
        if self.kind == "mimo":
            shape = (self.count * spec.shape[0], *spec.shape[1:])
            inner, width = make_backbone(self.backbone, shape)
            return Mimo(inner, self.count), PackedHead(width, spec.outputs, self)
        inner, width = make_backbone(self.backbone, spec.shape)
        return BatchEnsemble(inner, self.count), PackedHead(width, spec.outputs, self)


@final
class PackedHead(nn.Module):
    """A last layer for each of M sub-models: (B, M, F) features to (B, M, K), in evaluation to (B, 1, K)."""

    def __init__(self, width: int, outputs: int, pack: Pack) -> None:
        super().__init__()
        self.values = pack.values
        self.layers = nn.ModuleList(nn.Linear(width, outputs) for _ in range(pack.count))

    def forward(self, features: Tensor) -> Tensor:
        outputs = torch.stack([layer(features[:, m]) for m, layer in enumerate(self.layers)], 1)
        if self.training:
            return outputs
        return outputs.mean(1, keepdim=True) if self.values else log_mean_probability(outputs)


def log_mean_probability(logits_BMK: Tensor) -> Tensor:
    """(B, 1, K) logits whose softmax is the mean of the softmaxes of M sub-models."""
    log_probs_BMK = torch.log_softmax(logits_BMK.float(), 2)
    return torch.logsumexp(log_probs_BMK, 1, keepdim=True) - math.log(logits_BMK.shape[1])


@final
class Mimo(nn.Module):
    """Multi-input multi-output (Havasi et al. 2021): M inputs side by side go through one network at once.

    In training each sub-model gets its own order of the batch, so that the network learns to keep M unrelated
    samples apart; a share `repetition` of the rows keeps one sample for all. The features come back in the order
    of the batch. In evaluation all M inputs are the same sample, so one pass answers M times.
    """

    def __init__(self, backbone: nn.Module, count: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.count = count
        self.repetition = 0.0

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            features: Tensor = self.backbone(torch.cat([x] * self.count, 1))
            return features.unsqueeze(1).expand(-1, self.count, -1)
        orders = [shuffled(len(x), self.repetition, x.device) for _ in range(self.count)]
        mixed = self.backbone(torch.cat([x[order] for order in orders], 1))
        return torch.stack([mixed[order.argsort()] for order in orders], 1)


def shuffled(rows: int, repetition: float, device: torch.device) -> Tensor:
    """(rows,) a random order of the rows that leaves a share `repetition` of them, chosen by chance, in place."""
    drawn = torch.rand(rows, device=device).argsort()
    moved = drawn[round(repetition * rows) :]
    order = torch.arange(rows, device=device)
    order[moved] = moved[torch.rand(len(moved), device=device).argsort()]
    return order


@final
class BatchEnsemble(nn.Module):
    """BatchEnsemble (Wen et al. 2020): M sub-models that share every weight up to a rank-1 factor each.

    Convolutions and linear layers of any backbone are wrapped. Every sub-model sees every sample, so the batch is
    repeated M times: this saves parameters, not time.
    """

    def __init__(self, backbone: nn.Module, count: int) -> None:
        super().__init__()
        self.count = count
        self.backbone = _wrap(backbone, count)

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.backbone(x.repeat(self.count, *(1,) * (x.ndim - 1)))
        return features.reshape(self.count, x.shape[0], features.shape[1]).transpose(0, 1)


@final
class RankOne(nn.Module):
    """A layer with weight W that sub-model m uses as W * (s_m r_m^T): its inputs times r_m, its outputs times s_m."""

    def __init__(self, layer: nn.Conv2d | nn.Linear, count: int) -> None:
        super().__init__()
        self.layer = layer
        self.images = isinstance(layer, nn.Conv2d)
        outputs, inputs = layer.weight.shape[:2]
        if isinstance(layer, nn.Conv2d):
            inputs *= layer.groups
        # Random signs make the sub-models as different as they can be at the start.
        self.r = nn.Parameter(_signs(count, inputs))
        self.s = nn.Parameter(_signs(count, outputs))
        self.bias: nn.Parameter | None = None
        if layer.bias is not None:  # added after s, one a sub-model
            self.bias = nn.Parameter(layer.bias.detach().repeat(count, 1))
            layer.bias = None

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x * self._rows(self.r, x)) * self._rows(self.s, x)
        return y if self.bias is None else y + self._rows(self.bias, x)

    def _rows(self, factor_MC: Tensor, x: Tensor) -> Tensor:
        """The factor of each row's sub-model, shaped to multiply the channels; rows are sub-model by sub-model."""
        (count, channels), batch = factor_MC.shape, x.shape[0]  # not len(x), which torch.export takes as fixed
        rows = factor_MC[:, None].expand(-1, batch // count, -1).reshape(batch, channels)
        if self.images:
            return rows[:, :, None, None]
        return rows.reshape(batch, *(1,) * (x.ndim - 2), channels)


def _signs(count: int, width: int) -> Tensor:
    return torch.randint(0, 2, (count, width)).float() * 2 - 1


def _wrap(module: nn.Module, count: int) -> nn.Module:
    """The module with every convolution and linear layer in it wrapped; subclasses of these are left alone."""
    if type(module) in (nn.Conv2d, nn.Linear):
        assert isinstance(module, nn.Conv2d | nn.Linear)
        return RankOne(module, count)
    for name, child in list(module.named_children()):
        setattr(module, name, _wrap(child, count))
    return module
