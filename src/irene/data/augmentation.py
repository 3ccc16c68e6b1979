"""Random crop and mirror flip of images, where they lie, in one gather."""

from __future__ import annotations

import torch
from torch import Tensor


def augment_images(images: Tensor, offsets_y: Tensor, offsets_x: Tensor, flips: Tensor, pad: int) -> Tensor:
    """Pad each image (B, C, H, W) with `pad` zeros, cut H x W out of it at its offset, mirror it if it flips.

    Offsets (B,) run from 0 to 2 * pad; flips (B,) are 0 or 1.
    """
    rows = torch.arange(len(images), device=images.device)
    return gather_augmented(images, rows, offsets_y, offsets_x, flips, pad)


def gather_augmented(
    images: Tensor, rows: Tensor, offsets_y: Tensor, offsets_x: Tensor, flips: Tensor, pad: int
) -> Tensor:
    """(B, C, H, W) the images at `rows` out of (N, C, H, W), augmented in the same gather."""
    _, channels, height, width = images.shape
    y_H = torch.arange(height, device=images.device)
    x_W = torch.arange(width, device=images.device)
    mirrored_BW = torch.where(flips[:, None] != 0, width - 1 - x_W, x_W)
    y_BH = offsets_y[:, None] - pad + y_H
    x_BW = offsets_x[:, None] - pad + mirrored_BW
    channel_C = torch.arange(channels, device=images.device)
    taken = images[
        rows[:, None, None, None],
        channel_C[None, :, None, None],
        y_BH.clamp(0, height - 1)[:, None, :, None],
        x_BW.clamp(0, width - 1)[:, None, None, :],
    ]
    if pad == 0:
        return taken
    inside_BH = (y_BH >= 0) & (y_BH < height)
    inside_BW = (x_BW >= 0) & (x_BW < width)
    inside = inside_BH[:, None, :, None] & inside_BW[:, None, None, :]
    return taken * inside
