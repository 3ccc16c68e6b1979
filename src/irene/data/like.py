"""How data is read for a model that is there already: as the data that it was trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from irene.data.samples import Column
from irene.types import Task

Unseen = Callable[[str, str], None]
"""Is told of a text that is none of a column's categories: the column's name, and words that say where it stands."""


@dataclass(frozen=True, kw_only=True)
class Like:
    """What data must look like for a model that is there already; a class may then have a single sample."""

    task: Task
    shape: tuple[int, ...]  # of a sample; images are resized to it
    columns: tuple[Column, ...] = ()  # of a table
    target: str | None = None  # the column of a table to predict, unless another is named
    unseen: Unseen | None = None
