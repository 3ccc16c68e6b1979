"""The files of a run: written with the digest that its manifest keeps, and checked against it when they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from irene.errors import RunError
from irene.files import sha256_of, write_json
from irene.point import OperatingPoint
from irene.tensor_files import save_tensors


def check(folder: Path, file: str, sha256: str, remedy: str = "restore it or train the run again") -> Path:
    """The path of a file of the run, once it is known to be there and undamaged."""
    path = folder / file
    if not path.exists():
        raise RunError(f"{path}: missing, though run.json names it; {remedy}")
    if sha256_of(path) != sha256:
        raise RunError(f"{path}: damaged, its SHA-256 is not the one in run.json; {remedy}")
    return path


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        return load(path.read_bytes())
    except SafetensorError as error:
        raise RunError(f"{path}: not a safetensors file ({error})") from None


def write_tensors(folder: Path, file: str, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Write tensors as a safetensors file; its entry in the manifest."""
    return {"file": file, "sha256": save_tensors(folder / file, tensors)}


def reached(folder: Path) -> str:
    """The stage and epoch that a training in this folder has reached, by the last line of its metrics."""
    try:
        record = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
        return f"{record['stage']}, epoch {record['epoch'] + 1}"
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return ""  # not there yet, or a line half written


def write_point(folder: Path, point: OperatingPoint, file: str, tensors: str) -> dict[str, Any]:
    """Write a point as a file and one of its tensors; their entry in the manifest."""
    return {
        "version": point.version,
        "tensors": write_tensors(folder, tensors, point.tensors()),
        "file": file,
        "sha256": write_json(folder / file, point.to_dict()),
    }


def read_point(folder: Path, entry: dict[str, Any]) -> OperatingPoint:
    """The operating point of an entry in the manifest."""
    again = "calibrate the point again"
    values = json.loads(check(folder, entry["file"], entry["sha256"], again).read_text())
    tensors = read_tensors(check(folder, entry["tensors"]["file"], entry["tensors"]["sha256"], again))
    return OperatingPoint.from_dict(values, tensors)
