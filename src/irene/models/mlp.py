"""A multi-layer perceptron for tables of numbers; other inputs are flattened."""

from __future__ import annotations

import math
from typing import final

from torch import Tensor, nn

from irene.models.layers import scaled


@final
class MLP(nn.Module):
    """Two hidden layers of 128, with no layer that looks at the rest of the batch.

    So a step over a batch split between processes is the step over the whole batch.
    """

    def __init__(self, shape: tuple[int, ...], width: float = 1.0) -> None:
        super().__init__()
        self.num_features = scaled(128, width)
        self.layers = nn.Sequential(
            nn.Flatten(1),
            nn.Linear(math.prod(shape), self.num_features),
            nn.ReLU(),
            nn.Linear(self.num_features, self.num_features),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return y
