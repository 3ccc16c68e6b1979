"""Every error irene raises on purpose, as one tree.

    IreneError
    ├── DataError           a data source is missing, damaged or not what was expected   (also a ValueError)
    ├── OptionError         an option has a value that cannot work                           (also a ValueError)
    ├── RunError            a run directory is missing, damaged or unfinished
    ├── TrainingError       training had to stop (a loss became NaN, a worker died)
    ├── CalibrationError    what was asked for cannot be reached with these members
    └── MissingExtraError   an optional dependency is not installed                          (also an ImportError)

Messages are one line: what was expected, what came, and what to do.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any


class IreneError(Exception):
    """Base of every error irene raises on purpose."""


class DataError(IreneError, ValueError):
    """A data source is missing, damaged or not what was expected."""


class OptionError(IreneError, ValueError):
    """An option has a value that cannot work."""


class RunError(IreneError):
    """A run directory is missing, damaged or unfinished."""


class TrainingError(IreneError):
    """Training had to stop before its end."""


class CalibrationError(IreneError):
    """What was asked for cannot be reached with these members on this data."""


class MissingExtraError(IreneError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)  # what it is made of again in another process

    def __str__(self) -> str:
        package, extra = self.args
        return f"{package} is not installed: run pip install 'irene-ensemble[{extra}]'"


def import_extra(module: str, extra: str) -> Any:
    """A module of an optional library; where that is missing, an error that names the extra it comes with."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(module.partition(".")[0], extra) from error


def some_of(names: Sequence[str], most: int = 10) -> str:
    """The first few of some names, as a message lists them."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def in_words(value: object) -> str:
    """What came in place of something else."""
    return f"the class {value.__name__}" if isinstance(value, type) else repr(value)


def near(name: str, known: Iterable[str]) -> str:
    """': did you mean a or b?' for a mistyped name, or nothing when no known name is close."""
    matches = get_close_matches(name, list(known), n=3)
    return f": did you mean {' or '.join(matches)}?" if matches else ""


def first_line(error: Exception) -> str:
    """What another library's error says, as a reason within one line of ours."""
    return str(error).strip().partition("\n")[0]
