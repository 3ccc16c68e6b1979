"""Tensors and a header that describes them, in one safetensors file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from irene.files import as_json, check_writable, write_atomically


def write_with_header(path: Path, kind: str, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """Write tensors and a header, whose name says the kind of file; returns the SHA-256."""
    check_writable(path)
    return save_tensors(path, tensors, {kind: json.dumps(as_json(dict(header)), allow_nan=False)})


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> str:
    """Write tensors, on whatever device they are, as a safetensors file; returns its SHA-256."""
    content = {key: value.detach().contiguous().cpu() for key, value in tensors.items()}
    return write_atomically(path, save(content, metadata=metadata))


def read_with_header(path: str | Path, kind: str) -> tuple[Any, dict[str, Tensor]]:
    """Read the header and the tensors of such a file; the caller explains what goes wrong."""
    with safe_open(str(path), framework="pt") as file:
        return json.loads(file.metadata()[kind]), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
