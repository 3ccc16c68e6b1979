"""Outputs that members gave elsewhere, read from a .npz or .parquet file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from irene.data.npz import read_npz
from irene.errors import DataError, OptionError, first_line, import_extra
from irene.types import Cost

Array = NDArray[Any]
_COSTS = ("members", "parameters", "flops", "ms")


@dataclass(frozen=True, kw_only=True)
class OutputFile:
    """The outputs in a file, and whatever else of a bank it holds."""

    outputs: Array
    targets: Array | None = None
    ids: Array | None = None
    costs: tuple[Cost, ...] | None = None


def read_outputs(path: Path) -> OutputFile:
    """Member outputs and, where the file has them, targets, ids and costs."""
    readers = {".npz": _read_npz, ".parquet": _read_parquet}
    if path.suffix not in readers:
        raise DataError(f"{path}: outputs are read from .npz, .parquet and irene's .safetensors files, got another")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    return readers[path.suffix](path)


def _read_npz(path: Path) -> OutputFile:
    """Array `outputs`; if there, `targets`, `ids`, and a cost a member as `ms`, `flops` or `parameters`."""
    arrays = read_npz(path)
    if "outputs" not in arrays:
        found = ", ".join(sorted(arrays)) or "none"
        raise DataError(f"{path}: no array outputs; expected outputs and targets, found {found}")
    outputs = arrays["outputs"]
    steps = outputs.shape[1] if outputs.ndim > 1 else 0
    given = {key: arrays[key].ravel() for key in _COSTS if key in arrays}
    for key, values in given.items():
        if len(values) != steps:
            raise DataError(f"{path}: {key} must have one value for each of {steps} members, got {len(values)}")
    costs = tuple(_cost(path, t, {key: values[t] for key, values in given.items()}) for t in range(steps))
    return OutputFile(
        outputs=outputs, targets=arrays.get("targets"), ids=arrays.get("ids"), costs=costs if given else None
    )


def _cost(path: Path, member: int, values: dict[str, Any]) -> Cost:
    try:
        cost = Cost.from_dict({key: value.item() for key, value in values.items()})
    except OptionError as error:
        raise DataError(f"{path}: member {member + 1}: {error}") from None
    return replace(cost, parameters=int(cost.parameters))


def _read_parquet(path: Path) -> OutputFile:
    """One row a sample: if there `target` and `id`, and every other column a member's list of outputs, in order."""
    import_extra("pyarrow", "parquet")
    from pyarrow import ArrowException, parquet

    try:
        table = parquet.read_table(path)
    except (ArrowException, OSError) as error:
        raise DataError(f"{path}: not a parquet file ({first_line(error)}); write it again") from error
    members = [name for name in table.column_names if name not in ("target", "id")]
    if not members:
        found = ", ".join(table.column_names)
        raise DataError(f"{path}: expected a column target and one column a member with its outputs, found {found}")
    columns = [_column(path, table, name) for name in members]
    for name, column in zip(members, columns, strict=True):
        if column.ndim < 2 or column.shape != columns[0].shape:
            raise DataError(
                f"{path}: column {name} must hold a list of numbers in every row, as many as column {members[0]}"
            )
    targets, ids = (_column(path, table, name) if name in table.column_names else None for name in ("target", "id"))
    return OutputFile(outputs=np.stack(columns, 1), targets=targets, ids=ids)


def _column(path: Path, table: Any, name: str) -> Array:
    """A column as an array; lists of one length become further axes."""
    from pyarrow import compute, types

    column = table.column(name).combine_chunks()
    shape = [len(column)]
    while types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type):
        lengths = compute.unique(compute.list_value_length(column)).to_pylist()  # an empty cell has None
        if len(lengths) != 1 or lengths[0] is None:
            raise DataError(f"{path}: the lists in column {name} must be there in every row and equally long")
        shape.append(lengths[0])
        column = column.flatten()
    if not (types.is_integer(column.type) or types.is_floating(column.type)) or column.null_count:
        raise DataError(f"{path}: column {name} must hold numbers in every row, got {column.type} or empty cells")
    array: Array = column.to_numpy(zero_copy_only=False).reshape(shape)
    return array
