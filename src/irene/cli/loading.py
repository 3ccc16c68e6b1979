"""From the flags that name data to the data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from irene.data import Data, load


def load_data(spec: str, *, target: str | None, task: str | None, root: Path | None) -> Data:
    """The data set the flags name.

    The test samples of a source that comes without any are cut by a fixed seed and not by --seed, so that runs
    of different seeds are about the same test samples.
    """
    given: dict[str, Any] = {"task": task}  # `load` says what a task may be
    return load(spec, target=target, root=root, **given)
