"""Data from a folder of images: one sub-folder per class, with or without a train and a test part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from irene.data.arrays import aside_count, in_memory
from irene.data.datasets import lazily_read
from irene.data.images import find_images, read_header, read_image
from irene.data.lazy import LazyInputs
from irene.data.like import Like
from irene.data.samples import Data, Samples
from irene.data.stratify import take_aside
from irene.data.targets import Targets, encode_targets
from irene.errors import DataError, OptionError

IN_MEMORY_BYTES = 256 * 2**20  # decoded images up to this much are kept in memory
_PARTS = ("train", "test", "val", "valid", "validation")  # of data, as folders are called


class ImageFiles(Dataset[tuple[Tensor, int]]):
    """Image files, decoded as they are asked for, in one shape."""

    def __init__(self, paths: Sequence[Path], labels: Tensor, shape: tuple[int, int, int]) -> None:
        self.paths = paths
        self.labels = labels
        self.shape = shape

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return read_image(self.paths[index], self.shape), int(self.labels[index])


def from_folder(
    path: str | Path,
    *,
    size: int | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    like: Like | None = None,
) -> Data:
    """Data from PATH/CLASS/image files, or PATH/train/CLASS and PATH/test/CLASS.

    Images of different sizes are resized to the size most training images have, or to `size` pixels square, or for a
    model that is there already to what it takes. Links to folders are followed.
    Sets of up to 256 MiB of pixels are kept in memory; larger ones are read as batches need them.
    """
    path = Path(path)
    if size is not None and size < 1:
        raise OptionError(f"size must be 1 pixel or more, got {size}")
    if not path.is_dir():
        raise DataError(f"{path} is not a folder: expected one with a sub-folder of images per class")
    apart = (path / "train").is_dir() and (path / "test").is_dir()
    parts = [child.name for child in path.iterdir() if child.is_dir() and child.name.casefold() in _PARTS]
    if not apart and len(parts) > 1:
        raise DataError(
            f"{path} has the folders {' and '.join(sorted(parts))}: expected train and test, with a sub-folder per "
            "class in each; rename them, or give the folder that holds the classes"
        )
    train_paths, labels = _find(path / "train" if apart else path)
    test_paths, test_labels = _find(path / "test") if apart else ([], [])
    targets = encode_targets(np.array(labels), np.array(test_labels, dtype=np.str_), learnt=like is None)
    paths = train_paths + test_paths
    if like is not None and len(like.shape) == 3:
        channels, height, width = like.shape
        shape = channels, height, width
    else:
        shape = _common_shape(paths, len(train_paths), size)
    samples = _samples(paths, torch.cat([targets.train, targets.test]), shape)
    if apart:
        stay, aside = torch.arange(len(train_paths)), torch.arange(len(train_paths), len(paths))
    else:
        stay, aside = take_aside(targets.train, aside_count(len(paths), test_fraction), seed, fewer=like is not None)
    return _data(path, targets, samples, stay, aside, paths)


def _find(folder: Path) -> tuple[list[Path], list[str]]:
    """Image files below each class folder with its name, in an order that does not depend on the platform."""
    paths, labels = [], []
    for child in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not child.is_dir() or child.name.startswith("."):
            continue
        files = find_images(child)
        if not files:
            raise DataError(f"class folder {child} holds no images: add some or remove the folder")
        files.sort(key=lambda file: file.relative_to(folder).as_posix())
        paths += files
        labels += [child.name] * len(files)
    if not paths:
        raise DataError(f"{folder} has no class folders: expected one sub-folder of images per class")
    return paths, labels


def _common_shape(paths: list[Path], train: int, size: int | None) -> tuple[int, int, int]:
    headers = [read_header(path) for path in paths]
    channels = 1 if all(header.grey for header in headers) else 3
    if size is not None:
        return channels, size, size
    sizes = Counter((header.height, header.width) for header in headers[:train])
    height, width = max(sizes, key=lambda hw: (sizes[hw], hw))
    return channels, height, width


def _samples(paths: list[Path], labels: Tensor, shape: tuple[int, int, int]) -> Samples:
    files = ImageFiles(paths, labels, shape)
    ids = torch.arange(len(files))
    if len(files) * int(np.prod(shape)) <= IN_MEMORY_BYTES:
        return Samples(torch.stack([files[i][0] for i in range(len(files))]), labels, ids)
    return Samples(None, labels, ids, LazyInputs(files, torch.arange(len(files)), shape, torch.uint8))


def _data(path: Path, targets: Targets, samples: Samples, stay: Tensor, aside: Tensor, paths: list[Path]) -> Data:
    name = f"folder:{path.name}"
    train, test = samples.subset(stay), samples.subset(aside)
    if samples.inputs is not None:
        return in_memory(name=name, task=targets.task, train=train, test=test, classes=targets.classes)
    files = [(file.relative_to(path).as_posix(), file.stat().st_size) for file in paths]
    return lazily_read(name, targets, train, test, notes=files)
