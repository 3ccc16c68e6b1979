"""From the flags that name data to the data set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from irene.data import Data, load
from irene.data.like import Like
from irene.errors import OptionError
from irene.evaluation.banks import as_run_expects, like_training
from irene.run import Run


def load_data(
    spec: str,
    *,
    target: str | None,
    task: str | None,
    root: Path | None,
    size: int | None = None,
    like: Like | None = None,
) -> Data:
    """The data set the flags name.

    The test samples of a source that comes without any are cut by a fixed seed and not by --seed, so that runs
    of different seeds are about the same test samples.
    """
    given: dict[str, Any] = {"task": task}  # `load` says what a task may be
    return load(spec, target=target, root=root, size=size, like=like, **given)


def refuse_alone(target: str | None, task: str | None, root: Path | None) -> None:
    """Refuse flags that say how to read data where no data is named."""
    if target is not None or task is not None or root is not None:
        raise OptionError("--target, --task and --root say how to read --data: give it too")


def load_for(
    run: Run, spec: str, *, target: str | None, task: str | None, root: Path | None, warn: Callable[[str], None]
) -> Data:
    """The data set the flags name, read as the run takes it; `warn` is told of categories not seen in training."""
    like = like_training(run, lambda column, words: warn(words))
    return as_run_expects(run, load_data(spec, target=target, task=task, root=root, like=like))
