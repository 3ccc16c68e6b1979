"""One SHA-256 that says which data this is, the same on every platform."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor


def _add(digest: Any, tensor: Tensor) -> None:
    array = np.ascontiguousarray(tensor.numpy())
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    digest.update(f"{little.dtype.str}{list(little.shape)}".encode())
    digest.update(little.reshape(-1).view(np.uint8).data)


def tensor_digest(*tensors: Tensor) -> str:
    """SHA-256 over the types, shapes and little-endian bytes of tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        _add(digest, tensor)
    return digest.hexdigest()


def data_fingerprint(task: str, classes: Iterable[str], tensors: Iterable[Tensor], notes: object = None) -> str:
    """SHA-256 over what a data set contains.

    `notes` stands in for inputs that are not in memory: file names and sizes, for example.
    """
    digest = hashlib.sha256(json.dumps([task, list(classes), notes]).encode())
    for tensor in tensors:
        _add(digest, tensor)
    return digest.hexdigest()
