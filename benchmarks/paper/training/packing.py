"""Runs in tars of a limited size: banks in half precision, and weights in half precision where they are asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from irene.run import Run
from training.corruptions import NAMES
from training.tars import LIMIT, parts, write_tars

WEIGHTS_LIMIT = 15 * 2**20  # bytes of one tar


def pack(run: Run, folder: Path, limit: int = LIMIT) -> list[Path]:
    """Tars of a run without its members' weights, banks in half precision; a large file goes in several parts."""
    folder.mkdir(parents=True, exist_ok=True)
    name = run.path.name
    clean = [split for split in run.manifest["banks"] if split not in NAMES]
    corrupted = [split for split in run.manifest["banks"] if split in NAMES]
    paths = write_tars(folder / name, [*small_files(run), *halved_banks(run, clean, limit // 4)], limit)
    return paths + write_tars(folder / f"{name}.corrupted", halved_banks(run, corrupted, limit // 4), limit)


def pack_weights(run: Run, folder: Path, limit: int = WEIGHTS_LIMIT) -> list[Path]:
    """Tars of a run's manifest, policy and members, these in half precision; a large file goes in several parts."""
    folder.mkdir(parents=True, exist_ok=True)
    name = run.path.name
    weights = [
        part
        for file in weight_files(run.manifest)
        for part in parts(f"{name}/{file}", halved_weights(run.path / file), limit // 8)
    ]
    return write_tars(folder / f"{name}.weights", [*small_files(run), *weights], limit)


def small_files(run: Run) -> list[tuple[str, bytes]]:
    """The manifest, the course of training and the policy, each as a file for a tar."""
    files = [run.path / file for file in ("run.json", "metrics.jsonl", "policy.safetensors")]
    return [(f"{run.path.name}/{file.name}", file.read_bytes()) for file in files if file.exists()]


def halved_banks(run: Run, splits: Iterable[str], size: int) -> Iterator[tuple[str, bytes]]:
    """The banks of these splits in half precision, each as a file for a tar, or several of at most this size."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bank"
        for split in splits:
            run.bank(split).save(file, dtype=torch.float16)
            yield from parts(f"{run.path.name}/banks/{split}.safetensors", file.read_bytes(), size)


def networks_of(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """What a manifest says of the networks of its run: members and gate."""
    return [*manifest["members"], *([manifest["gate"]] if "gate" in manifest else [])]


def weight_files(manifest: dict[str, Any]) -> list[str]:
    """The files of all networks of a run."""
    return [entry["file"] for entry in networks_of(manifest) if "file" in entry]


def halved_weights(path: Path) -> bytes:
    """A file of tensors with those of two axes or more in half precision; other files as they are.

    Batch norms, biases and what inputs are normalised by are small and precious.
    """
    content = path.read_bytes()
    return (
        save({key: halved(value) for key, value in load(content).items()}) if path.suffix == ".safetensors" else content
    )


def halved(tensor: Tensor) -> Tensor:
    if tensor.ndim < 2 or not tensor.is_floating_point():
        return tensor
    half = tensor.half()
    return half if bool(half.isfinite().all()) else tensor
