"""Data: where samples come from, how they are split, and how they reach a device."""

from __future__ import annotations

from irene.data.arrays import from_arrays
from irene.data.augmentation import augment_images
from irene.data.datasets import from_datasets
from irene.data.describe import describe
from irene.data.loader import Batch, Loader
from irene.data.samples import Augment, Column, Data, Samples
from irene.data.sources import load, names
from irene.data.splits import Splits, split

__all__ = [
    "Augment",
    "Batch",
    "Column",
    "Data",
    "Loader",
    "Samples",
    "Splits",
    "augment_images",
    "describe",
    "from_arrays",
    "from_datasets",
    "load",
    "names",
    "split",
]
