"""Where a training stands, so that a killed one goes on exactly where it was."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from irene.errors import RunError, first_line
from irene.files import write_atomically, write_json
from irene.tensor_files import save_tensors

_SECONDS = "seconds.json"


class Checkpoints:
    """The stages of a training in a folder: finished ones as safetensors, the running one as a checkpoint."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._before = self._seconds_before()
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long the training has taken: this attempt, and those before it up to where each was kept last."""
        return self._before + time.monotonic() - self._started

    def keep_seconds(self) -> None:
        """Write how long the training has taken, for the attempt that goes on with it."""
        if self.folder is not None:
            write_json(self.folder / _SECONDS, self.seconds)

    def finished(self, stage: str) -> dict[str, Tensor] | None:
        """The tensors a finished stage left, or None if it has not finished."""
        if self.folder is None or not (path := self._finished_path(stage)).exists():
            return None
        try:
            return load(path.read_bytes())
        except SafetensorError as error:
            raise RunError(f"{path}: damaged ({error}); delete it and resume to train that stage again") from None

    def finish(self, stage: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep what a stage ended with and forget its checkpoint."""
        if self.folder is None:
            return
        save_tensors(self._finished_path(stage), tensors)
        self.keep_seconds()
        self._running_path(stage).unlink(missing_ok=True)

    def running(self, stage: str) -> dict[str, Any] | None:
        """The checkpoint of a stage that was interrupted, or None."""
        if self.folder is None or not (path := self._running_path(stage)).exists():
            return None
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except (RuntimeError, EOFError, ValueError, KeyError, UnpicklingError):
            raise RunError(f"{path}: damaged; delete it and resume to train that stage from its start") from None
        return state

    @contextmanager
    def fitting(self, stage: str, *, finished: bool) -> Iterator[None]:
        """Name the file of a stage where what it holds does not fit the training, as that of another version."""
        try:
            yield
        except (LookupError, TypeError, ValueError, RuntimeError) as error:
            path = self._finished_path(stage) if finished else self._running_path(stage)
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise RunError(
                f"{path}: does not fit this training ({reason}); delete it and resume to train that stage again"
            ) from error

    def save(self, stage: str, state: dict[str, Any]) -> None:
        """Write the checkpoint of the running stage."""
        if self.folder is None:
            return
        buffer = io.BytesIO()
        torch.save(state, buffer)
        write_atomically(self._running_path(stage), buffer.getvalue())
        self.keep_seconds()

    def _seconds_before(self) -> float:
        if self.folder is None or not (path := self.folder / _SECONDS).exists():
            return 0.0
        try:
            return float(json.loads(path.read_text()))
        except (ValueError, TypeError):
            raise RunError(f"{path}: damaged; delete it, and the time of earlier attempts is not counted") from None

    def _finished_path(self, stage: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{stage}.safetensors"

    def _running_path(self, stage: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{stage}.checkpoint.pt"
