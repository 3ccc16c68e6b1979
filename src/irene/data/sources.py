"""From a short text such as 'cifar10' or 'csv:table.csv', or from Python objects, to a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from irene.data.arrays import from_arrays
from irene.data.bundled import diabetes, digits
from irene.data.cifar import CIFAR10, CIFAR100, read_cifar
from irene.data.datasets import from_datasets
from irene.data.folder import from_folder
from irene.data.like import Like
from irene.data.npz import from_npz
from irene.data.samples import Data
from irene.data.table import from_csv
from irene.errors import OptionError, near
from irene.types import Task, check_task_name

SOURCES: dict[str, str] = {
    "digits": "1,797 handwritten digits, 8 x 8 grey of 0 to 16, 10 classes; bundled",
    "diabetes": "442 patients, 10 measurements, regression; bundled",
    "cifar10": "60,000 colour images, 32 x 32, 10 classes; files below --root, IRENE_DATA or ./data",
    "cifar100": "60,000 colour images, 32 x 32, 100 classes; files below --root, IRENE_DATA or ./data",
    "folder:PATH": "images in one sub-folder per class, or in train and test folders of such, all in one --size",
    "npz:PATH": "numpy arrays x and y, or x_train, y_train, x_test and y_test",
    "csv:PATH": "a table with a line of column names; --target names the column to predict",
}
_OPTIONS_OF = {"folder": ("size", "seed"), "npz": ("task", "seed"), "csv": ("target", "task", "seed")}


def names() -> list[tuple[str, str]]:
    """Every source of data, with one line that says what it is."""
    return list(SOURCES.items())


def load(
    spec: Any,
    *,
    target: str | None = None,
    task: Task | None = None,
    root: str | Path | None = None,
    size: int | None = None,
    seed: int = 0,
    like: Like | None = None,
) -> Data:
    """Load a data set.

    `spec` is a name ('digits', 'diabetes', 'cifar10', 'cifar100'), a path with its kind ('folder:PATH',
    'npz:PATH', 'csv:PATH'), a torch Dataset or a (train, test) pair of them, arrays or tensors (x, y) or
    (x, y, x_test, y_test), or a Data, which is returned as it is. `target` is the column a csv is to predict,
    `task` overrides what the targets suggest, `root` is where the CIFAR folders lie, `size` the side in
    pixels that images of a folder are resized to. `seed` cuts the test set off sources that come without one.
    `like` says how files are read for a model that is there already.
    """
    if task is not None:
        check_task_name(task)
    given = {key: value for key, value in {"target": target, "task": task, "size": size}.items() if value is not None}
    if isinstance(spec, str):
        return _load_named(spec, given, root, seed, like)
    if isinstance(spec, Data):
        _refuse(given, "a loaded data set", ())
        return spec
    _refuse(given, "Python objects", ("task",))
    if isinstance(spec, Dataset):
        return from_datasets(spec, task=task, seed=seed)
    if isinstance(spec, tuple | list) and len(spec) in (2, 4):
        if len(spec) == 2 and all(isinstance(part, Dataset) for part in spec):
            return from_datasets(*spec, task=task, seed=seed)
        x, y, *tests = spec
        x_test, y_test = tests or (None, None)
        return from_arrays(x, y, x_test=x_test, y_test=y_test, task=task, seed=seed)
    raise OptionError(
        f"data must be a name, a torch Dataset, or arrays (x, y) or (x, y, x_test, y_test), got {type(spec).__name__}"
    )


def _load_named(spec: str, given: dict[str, Any], root: str | Path | None, seed: int, like: Like | None) -> Data:
    kind, _, path = spec.partition(":")
    if kind in _OPTIONS_OF and path:
        _refuse(given, spec, _OPTIONS_OF[kind])
        if kind == "folder":
            return from_folder(path, seed=seed, size=given.get("size"), like=like)
        if kind == "npz":
            return from_npz(path, seed=seed, task=given.get("task"), like=like)
        return from_csv(path, seed=seed, target=given.get("target"), task=given.get("task"), like=like)
    if spec not in SOURCES or ":" in spec:
        own = "folder" if Path(spec).is_dir() else Path(spec).suffix.removeprefix(".")
        there = bool(spec) and own in _OPTIONS_OF and Path(spec).exists()
        meant = f": did you mean {own}:{spec}?" if there else near(spec, SOURCES)
        raise OptionError(f"unknown data {spec!r}{meant} (there are {', '.join(SOURCES)})")
    _refuse(given, spec, ())
    if spec == "digits":
        return digits()
    if spec == "diabetes":
        return diabetes()
    return read_cifar(CIFAR10 if spec == "cifar10" else CIFAR100, root)


def _refuse(given: dict[str, Any], what: str, allowed: tuple[str, ...]) -> None:
    """Refuse options that this source would ignore."""
    for option in given:
        if option not in allowed:
            raise OptionError(f"{option} has no meaning for {what}: leave it out")
