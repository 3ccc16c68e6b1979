"""From the flags that name data to the data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irene.data import Data, load
from irene.data.like import Like
from irene.data.readers import check_readers
from irene.errors import OptionError
from irene.evaluation.banks import as_run_expects, like_training
from irene.run import Run


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How data is to be read: the flags --target, --task, --root, --size and --readers."""

    target: str | None = None
    task: str | None = None
    root: Path | None = None
    size: int | None = None
    readers: int = 0

    def refuse_alone(self) -> None:
        """Refuse these flags where no data is named."""
        if self != Reading():
            raise OptionError("--target, --task, --root and --readers say how to read --data: give it too")


def load_data(spec: str, how: Reading, *, like: Like | None = None) -> Data:
    """The data set of this name.

    The test samples of a source that comes without any are cut by a fixed seed and not by --seed, so that runs
    of different seeds are about the same test samples.
    """
    given: dict[str, Any] = {"task": how.task}  # `load` says what a task may be
    data = load(spec, target=how.target, root=how.root, size=how.size, like=like, **given)
    check_readers(how.readers, data)
    return data


def load_for(run: Run, spec: str, how: Reading, *, warn: Callable[[str], None]) -> Data:
    """The data set of this name, read as the run takes it; `warn` is told of categories not seen in training."""
    like = like_training(run, lambda column, words: warn(words))
    return as_run_expects(run, load_data(spec, how, like=like))
