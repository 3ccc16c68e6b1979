"""A multi-layer perceptron for tables of numbers; other inputs are flattened."""

from __future__ import annotations

import math
from typing import final

from torch import Tensor, nn


@final
class MLP(nn.Module):
    """Two hidden layers of 128, with no layer that looks at the rest of the batch.

    So a step over a batch split between processes is the step over the whole batch.
    """

    num_features = 128

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
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
