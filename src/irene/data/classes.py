"""Class numbers in the order of the names a model answers with, whatever the order of the data's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from irene.data.samples import Data, Samples
from irene.errors import DataError, some_of


def align_classes(data: Data, classes: Sequence[str]) -> Data:
    """The data with its classes numbered as in `classes`; some of them may not occur.

    Classes are found by their names. Where the data alone knows its classes by number, the number is the place.
    """
    names = tuple(classes)
    if data.task != "classification" or data.classes == names:
        return data
    known = {name: place for place, name in enumerate(names)}
    if all(name.isdecimal() for name in data.classes) and not any(name.isdecimal() for name in names):
        known = {str(place): place for place in range(len(names))}
    missing = [name for name in data.classes if name not in known]
    if missing:
        raise DataError(
            f"{data.name} has the class {missing[0]!r}, which is none of the {len(names)} known: {some_of(names)}; "
            "rename it, or name the outputs of members that you import with --labels"
        )
    place_K = torch.tensor([known[name] for name in data.classes])

    def moved(samples: Samples) -> Samples:
        return replace(samples, targets=place_K[samples.targets])

    return replace(data, train=moved(data.train), test=moved(data.test), classes=names)
