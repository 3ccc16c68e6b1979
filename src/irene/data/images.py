"""Image files as raw inputs: uint8, channels first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from irene.errors import DataError

EXTENSIONS = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
_GREY = ("1", "L")
_EIGHT_BITS = (*_GREY, "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB")
_ORIENTATION = 0x0112
_UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


@dataclass(frozen=True)
class ImageHeader:
    """What the head of an image file says."""

    height: int
    width: int
    grey: bool


def _unreadable(name: str, error: Exception) -> DataError:
    return DataError(f"{name} cannot be read as an image ({error}): replace or remove it".replace("\n", " "))


def read_header(path: Path) -> ImageHeader:
    """Size (upright) and colour of an image file, without decoding it."""
    try:
        with Image.open(path) as image:
            width, height = image.size
            # Asked for EXIF that its head does not hold, a PNG decodes all its pixels to look behind them.
            exif = image.getexif() if image.format != "PNG" or "exif" in image.info else {}
            if exif.get(_ORIENTATION, 1) in (5, 6, 7, 8):  # stored lying on its side
                width, height = height, width
            return ImageHeader(height, width, image.mode in _GREY)
    except _UNREADABLE as error:
        raise _unreadable(str(path), error) from error


def read_image(source: str | Path | BinaryIO, shape: tuple[int, ...]) -> Tensor:
    """An image file as a uint8 tensor of the shape (C, H, W) a model expects: upright, resized if need be."""
    name = str(source) if isinstance(source, str | Path) else "the image"
    channels, height, width = shape
    try:
        with Image.open(source) as opened:
            if opened.mode not in _EIGHT_BITS:
                raise DataError(f"{name} is an image of mode {opened.mode}, expected 8 bits per channel: convert it")
            image = ImageOps.exif_transpose(opened).convert("L" if channels == 1 else "RGB")
    except DataError:
        raise
    except _UNREADABLE as error:
        raise _unreadable(name, error) from error
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    pixels = torch.from_numpy(np.array(image))
    return pixels.unsqueeze(0) if channels == 1 else pixels.movedim(-1, 0).contiguous()
