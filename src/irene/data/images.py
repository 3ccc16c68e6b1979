"""Image files as raw inputs: uint8, channels first."""

from __future__ import annotations

import os
from collections.abc import Iterator
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


def is_image(path: Path) -> bool:
    """Whether a file's name is that of an image."""
    return path.suffix.lower() in EXTENSIONS


def find_images(folder: Path) -> list[Path]:
    """The image files in a folder and in all folders in it, links to folders among them, by name.

    What cannot be looked into is an error, and so is a link to nothing where an image or a folder may be meant.
    """
    return sorted(_images_below(folder, frozenset()))


def _images_below(folder: Path, around: frozenset[tuple[int, int]]) -> Iterator[Path]:
    """The images below a folder, unless it is one of those `around` it, to which a link has led back."""
    try:
        state = folder.stat()
        here = (state.st_dev, state.st_ino)
        if here in around:
            return
        with os.scandir(folder) as entries:
            found = [(folder / entry.name, entry.is_dir(), entry.is_file()) for entry in entries]
    except OSError as error:
        where = error.filename or folder
        raise DataError(f"{where} cannot be read ({error.strerror}): change its permissions, or remove it") from error
    for path, is_folder, is_file in found:
        if is_folder:
            yield from _images_below(path, around | {here})
        elif is_file and is_image(path):
            yield path
        elif path.is_symlink() and not path.exists() and (is_image(path) or not path.suffix):
            raise DataError(f"{path} is a broken link: repair or remove it")


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
