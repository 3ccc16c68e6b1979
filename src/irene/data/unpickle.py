"""Reading a pickle of plain containers and numpy arrays without running what it asks for.

A pickle can name any function and have it called. This reader answers three names only, all of them numpy's
own array rebuilding, and refuses every other.
"""

from __future__ import annotations

import pickle
from typing import Any, BinaryIO

import numpy as np

from irene.errors import DataError

_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    # numpy moved the module that holds this function; files name it by either place.
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise DataError(f"it asks for {module}.{name}, which a data file does not need")
        return _ALLOWED[module, name]


def read_arrays(file: BinaryIO) -> Any:
    """The containers and arrays in a pickle; byte strings of Python 2 stay bytes."""
    try:
        return _ArrayUnpickler(file, encoding="bytes").load()
    except DataError:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        raise DataError(f"it is not a readable pickle ({type(error).__name__}: {error})") from error
