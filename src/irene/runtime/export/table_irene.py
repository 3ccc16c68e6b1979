"""Rows of a table as the numbers that an exported irene cascade takes, made as those of the training table were.

    from table_irene import encode

    batch = encode({"colour": ["brown", "white"], "weight": [33.5, 21]})  # or a data frame, or anything by its columns

Needs numpy alone, and lies in the exported folder beside load_irene.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray
LARGEST = float(np.finfo(np.float32).max)
MISSING = frozenset({"", "?", "n/a", "na", "nan", "null", "none"})


def encode(table: Any, folder: str | Path | None = None) -> Array:
    """(N, features) the rows of a table, which gives its columns by their names; those of no use are left alone.

    A text that was not seen in training counts as none of its column's categories, as it does in irene.
    """
    path = Path(folder or Path(__file__).parent) / "manifest.json"
    blocks: list[Array] = []
    for column in json.loads(path.read_text())["input"]["columns"]:
        name, categories = column["name"], column["categories"]
        try:
            values = table[name]
        except (KeyError, IndexError, TypeError):  # as tables of several kinds say it
            raise ValueError(
                f"the table has no column {name!r}: give columns by the names that the cascade was trained with"
            ) from None
        if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
            raise ValueError(f"column {name!r}: expected a sequence with a value for each row, got {values!r}")
        values = list(values)
        if blocks and len(values) != len(blocks[0]):
            raise ValueError(f"column {name!r} has {len(values)} rows, expected {len(blocks[0])} as those before it")
        blocks.append(_numbers(values, name) if categories is None else _one_hot(values, categories))
    return np.concatenate(blocks, 1, dtype=np.float32)


def _numbers(values: Sequence[Any], name: str) -> Array:
    """(N, 1) a column of numbers."""
    found = [meaning(value) for value in values]
    for row, number in enumerate(found):
        if not isinstance(number, float) or not abs(number) <= LARGEST:
            raise ValueError(f"row {row + 1}, column {name!r}: expected a number, got {values[row]!r}")
    return np.array(found, np.float64)[:, None]


def _one_hot(values: Sequence[Any], categories: Sequence[str]) -> Array:
    """(N, categories) which category each row holds: the one written so, else the first that means the same."""
    written = {category: position for position, category in enumerate(categories)}
    meant = {meaning(category): position for category, position in reversed(written.items())}
    texts = [str(value).strip() for value in values]
    found = [written[text] if text in written else meant.get(meaning(text), -1) for text in texts]
    return np.array(found, int)[:, None] == np.arange(len(categories))


def meaning(value: Any) -> str | float | None:
    """What a value says, however it is written: 1 and 1.0 are the same, true and True, and all marks of nothing."""
    text = str(value).strip()
    if text.lower() in MISSING:
        return None
    try:
        if "_" not in text:  # float() also takes 1_000, which no table means
            return float(text)
    except ValueError:
        pass
    return text.lower() if text.lower() in ("true", "false") else text
