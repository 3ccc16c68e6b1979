"""Raw inputs to zero mean and unit variance, inside the member, so that everyone else passes raw inputs."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from irene.errors import DataError, OptionError

_CHUNK_ELEMENTS = 1 << 24
"""Values turned into float64 at once by `statistics`: 128 MiB."""


@final
class Normalise(nn.Module):
    """(x - mean) / std per channel of images or per column of features, in the module's own dtype.

    The mean is subtracted first and not folded into one multiply-add: a column with a large mean and a small
    spread would lose its digits to cancellation.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, shape: tuple[int, ...], mean: Tensor | None = None, std: Tensor | None = None) -> None:
        super().__init__()
        size = (shape[0],) + (1,) * (len(shape) - 1)
        for name, given, default in (("mean", mean, 0.0), ("std", std, 1.0)):
            value = torch.full((shape[0],), default) if given is None else given.detach().to("cpu", copy=True)
            if value.shape != (shape[0],):
                raise OptionError(
                    f"{name} must have one value for each of the {shape[0]} channels or columns, "
                    f"got shape {tuple(value.shape)}"
                )
            self.register_buffer(name, value.to(torch.get_default_dtype()).view(size))
        if not bool(((self.std > 0) & self.std.isfinite() & self.mean.isfinite()).all()):
            raise OptionError("std must be positive and mean finite: use irene.models.statistics(inputs)")

    def forward(self, x: Tensor) -> Tensor:
        return (x.to(self.mean.dtype) - self.mean) / self.std


def statistics(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation per channel (N, C, H, W) or per column (N, F), as float32.

    Works through the set in slices, so that uint8 images never exist as floats all at once. A constant
    channel gets std 1, which leaves it at zero after normalising.
    """
    if inputs.ndim < 2 or inputs.numel() == 0:
        raise DataError(
            "statistics need a non-empty batch of samples, (N, columns) or (N, C, H, W), "
            f"got shape {tuple(inputs.shape)}"
        )
    step = max(1, _CHUNK_ELEMENTS // inputs[0].numel())
    slices = [inputs[start : start + step] for start in range(0, len(inputs), step)]
    others = [dim for dim in range(inputs.ndim) if dim != 1]
    count = inputs.numel() // inputs.shape[1]
    column = (inputs.shape[1],) + (1,) * (inputs.ndim - 2)

    # Two passes: the one-pass formula E[x²] - E[x]² cancels where the mean is large against the spread.
    mean = torch.zeros(inputs.shape[1], dtype=torch.float64, device=inputs.device)
    for part in slices:
        mean += part.to(torch.float64).sum(others) / count
    variance = torch.zeros_like(mean)
    for part in slices:
        variance += (part.to(torch.float64) - mean.view(column)).square_().sum(others) / count

    bad = (~(mean.isfinite() & variance.isfinite())).nonzero().flatten().tolist()
    if bad:
        raise DataError(
            f"channel or column {bad[0]} has values that are not finite: remove or fill them before training"
        )
    std = variance.sqrt()
    # Below the resolution of float32 at that mean, what is left is rounding, not spread.
    float32 = torch.finfo(torch.float32)
    std = torch.where(std <= float32.eps * mean.abs() + float32.tiny, torch.ones_like(std), std)
    return mean.float().cpu(), std.float().cpu()
