"""A data set: samples to learn from, samples to test on, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from irene.data.lazy import LazyInputs
from irene.errors import DataError, OptionError
from irene.types import Task, check_task_name


@dataclass(frozen=True)
class Augment:
    """How training images are varied: a random crop within a zero border of `crop` pixels, a mirror flip."""

    crop: int = 0
    flip: bool = False

    def __post_init__(self) -> None:
        if self.crop < 0:
            raise OptionError(f"crop must be 0 or more pixels, got {self.crop}")

    def __bool__(self) -> bool:
        return self.crop > 0 or self.flip


@dataclass(frozen=True, eq=False, repr=False)
class Samples:
    """A set of samples: raw inputs, targets and ids.

    Inputs are uint8 images (N, C, H, W) or float32 features (N, ...), in memory, or None when they are read
    from a torch Dataset as they are needed (then `lazy` holds it). Targets are (N,) int64 class indices or
    (N, K) float32 values. Ids name each sample in the whole data set, whatever subset it is in.
    """

    inputs: Tensor | None
    targets: Tensor
    ids: Tensor
    lazy: LazyInputs | None = None

    def __post_init__(self) -> None:
        if (self.inputs is None) == (self.lazy is None):
            raise DataError("samples need inputs in memory or lazily read inputs, exactly one of the two")
        inputs = len(self.inputs) if self.inputs is not None else len(self._lazy)
        if not inputs == len(self.targets) == len(self.ids):
            raise DataError(
                f"every sample needs one input, one target and one id: got {inputs} inputs, "
                f"{len(self.targets)} targets and {len(self.ids)} ids"
            )

    def __len__(self) -> int:
        return len(self.targets)

    def __repr__(self) -> str:
        return f"Samples({len(self):,} of shape {self.shape}{', read as needed' * (self.lazy is not None)})"

    @property
    def _lazy(self) -> LazyInputs:
        if self.lazy is None:
            raise DataError("these samples are in memory: use .inputs")
        return self.lazy

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.inputs.shape[1:]) if self.inputs is not None else self._lazy.shape

    def subset(self, indices: Tensor) -> Samples:
        """The samples at these positions, in this order."""
        return Samples(
            inputs=None if self.inputs is None else self.inputs[indices],
            targets=self.targets[indices],
            ids=self.ids[indices],
            lazy=None if self.lazy is None else self.lazy.subset(indices),
        )

    def read(self, positions: Sequence[int], seed: int = 0) -> Tensor:
        """The inputs at these positions; `seed` fixes what a Dataset with random transforms draws."""
        if self.inputs is not None:
            return self.inputs[list(positions)]
        return self._lazy.read(positions, seed)


@dataclass(frozen=True)
class Column:
    """A column of a table: numeric, or text with the categories that were seen in training."""

    name: str
    categories: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        """How many features the column becomes."""
        return 1 if self.categories is None else len(self.categories)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "categories": self.categories and list(self.categories)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Column:
        return cls(values["name"], values["categories"] and tuple(values["categories"]))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Data:
    """A data set with its train and test samples; the held-out slice is taken from train by `split`."""

    name: str
    task: Task
    train: Samples
    test: Samples
    classes: tuple[str, ...]
    """Class names; for regression the names of the target values."""
    fingerprint: str
    """SHA-256 over the contents."""
    augment: Augment = field(default_factory=Augment)
    columns: tuple[Column, ...] = ()
    """How a table's columns became features; empty for other sources."""
    target: str | None = None
    """The column of a table that is to be predicted."""

    def __post_init__(self) -> None:
        check_task_name(self.task)
        if self.train.shape != self.test.shape:
            raise DataError(
                f"{self.name}: train inputs have shape {self.train.shape} and test inputs {self.test.shape}; "
                "they must be the same"
            )

    def __repr__(self) -> str:
        sizes = f"{len(self.train):,} train and {len(self.test):,} test samples of shape {self.shape}"
        lazily = ", read as needed" * (self.train.lazy is not None)
        return f"Data({self.name}, {self.task}, {self.outputs} outputs, {sizes}{lazily})"

    @property
    def table(self) -> dict[str, Any]:
        """How a table was read, as a run records it to read others alike; empty for other sources."""
        if not self.columns:
            return {}
        return {"columns": [column.to_dict() for column in self.columns], "target": self.target}

    @property
    def outputs(self) -> int:
        """Number of classes, or of target values."""
        return len(self.classes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.train.shape
