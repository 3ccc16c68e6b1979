"""Several members as one model, for methods that train them all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from irene.errors import OptionError
from irene.models import Member
from irene.models.packed import Pack


@final
class Together(nn.Module):
    """Members with one head each, side by side: (B, T, K) outputs, one row a member."""

    def __init__(self, members: Sequence[Member]) -> None:
        super().__init__()
        for member in members:
            if Pack.parse(member.spec.backbone) is not None:
                raise OptionError(f"members that train together have plain backbones, got {member.spec.backbone!r}")
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([member(x) for member in self.members], 1)
