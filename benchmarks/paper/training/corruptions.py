"""Corrupted images made by us: Gaussian noise, Gaussian blur and low contrast, each at five levels.

The amounts are those of CIFAR-10-C (Hendrycks and Dietterich, arXiv 1903.12261):

| level | 1 | 2 | 3 | 4 | 5 |
|---|---|---|---|---|---|
| noise: standard deviation, of the range of a pixel | 0.04 | 0.06 | 0.08 | 0.09 | 0.10 |
| blur: standard deviation in pixels | 0.4 | 0.6 | 0.7 | 0.8 | 1.0 |
| contrast: share of the distance from the image's mean that is left | 0.75 | 0.5 | 0.4 | 0.3 | 0.15 |

Noise is drawn for each pixel and channel; all levels scale the same draw. Blur repeats the pixels of the edge and stops
at four standard deviations. The mean for contrast is that of each channel of each image. Results are rounded to the
nearest whole number and cut to 0 to 255. All is computed in float64 from random numbers of the CPU, so that every
device gives the same images.
"""

from __future__ import annotations

import torch
from torch import Tensor

from irene.errors import OptionError

AMOUNTS: dict[str, tuple[float, ...]] = {
    "noise": (0.04, 0.06, 0.08, 0.09, 0.10),
    "blur": (0.4, 0.6, 0.7, 0.8, 1.0),
    "contrast": (0.75, 0.5, 0.4, 0.3, 0.15),
}
LEVELS = range(1, 6)
NAMES: dict[str, tuple[str, int]] = {f"{kind}-{level}": (kind, level) for kind in AMOUNTS for level in LEVELS}
_BATCH = 1000
_REACH = 4.0  # standard deviations


def corrupt(images_NCHW: Tensor, kind: str, level: int, *, seed: int = 0) -> Tensor:
    """The uint8 images corrupted, as uint8 images on the same device."""
    if images_NCHW.dtype != torch.uint8 or images_NCHW.ndim != 4:
        raise OptionError(f"images must be uint8 (N, C, H, W), got {images_NCHW.dtype} {tuple(images_NCHW.shape)}")
    if kind not in AMOUNTS or level not in LEVELS:
        known = ", ".join(AMOUNTS)
        raise OptionError(f"a corruption is one of {known} at a level from 1 to 5, got {kind!r} at {level!r}")
    amount = AMOUNTS[kind][level - 1]
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for part in images_NCHW.split(_BATCH):
        values = part.double()
        if kind == "noise":
            values = add_noise(values, amount, generator)
        elif kind == "blur":
            values = blur(values, amount)
        else:
            values = lower_contrast(values, amount)
        parts.append(values.round().clamp(0, 255).to(torch.uint8))
    return torch.cat(parts)


def add_noise(values_NCHW: Tensor, deviation: float, generator: torch.Generator) -> Tensor:
    drawn = torch.randn(values_NCHW.shape, generator=generator, dtype=torch.float64)
    return values_NCHW + 255 * deviation * drawn.to(values_NCHW.device)


def blur(values_NCHW: Tensor, sigma: float) -> Tensor:
    rows, columns = (blur_matrix(size, sigma).to(values_NCHW) for size in values_NCHW.shape[2:])
    return rows @ values_NCHW @ columns.T


def blur_matrix(size: int, sigma: float) -> Tensor:
    """(size, size) what each pixel of a line takes from each; beyond its ends the line goes on as it ends."""
    reach = int(_REACH * sigma + 0.5)
    offsets = torch.arange(-reach, reach + 1)
    weights = torch.exp(-0.5 * (offsets / sigma).double().square())
    weights = weights / weights.sum()
    pixels = torch.arange(size)[:, None]
    sources = (pixels + offsets).clamp(0, size - 1)
    taken = torch.zeros(size, size, dtype=torch.float64)
    return taken.scatter_add_(1, sources, weights.expand(size, -1))


def lower_contrast(values_NCHW: Tensor, share: float) -> Tensor:
    mean = values_NCHW.mean((2, 3), keepdim=True)
    return mean + share * (values_NCHW - mean)
