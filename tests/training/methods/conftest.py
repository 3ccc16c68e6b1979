from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from irene.run import Run
from irene.training.checkpoint import Checkpoints
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.train import TrainOptions, train

Trainer = Callable[..., Run]


class Killed(BaseException):
    """What a kill looks like from inside."""


@pytest.fixture
def trainer(tmp_path: Path) -> Trainer:
    """Trains a method on digits within seconds."""

    def run(
        method: str,
        *,
        data: str = "digits",
        name: str = "run",
        members: int = 3,
        epochs: int = 4,
        lr: float = 0.05,
        backbones: tuple[str, ...] = ("mlp",),
        heldout: float | None = None,
        seed: int = 0,
        options: Any = None,
        resume: bool = False,
    ) -> Run:
        return train(
            method,
            data,
            tmp_path / name,
            options=TrainOptions(members=members, backbones=backbones, heldout=heldout, seed=seed, device="cpu"),
            loop=LoopOptions(epochs=epochs, batch_size=64, optimizer=OptimizerOptions(lr=lr)),
            method_options=options,
            resume=resume,
            checkpoint_seconds=0,
        )

    return run


@pytest.fixture
def interrupted(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> Trainer:
    """Trains a method, killed at its `at`-th write of a checkpoint or of a finished stage, and resumes it."""

    def run(method: str, *, at: int, **settings: Any) -> Run:
        written = 0

        def counting(write: Callable[..., None]) -> Callable[..., None]:
            def call(*arguments: Any) -> None:
                nonlocal written
                write(*arguments)
                written += 1
                if written == at:
                    raise Killed

            return call

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoints, "save", counting(Checkpoints.save))
            patch.setattr(Checkpoints, "finish", counting(Checkpoints.finish))
            with pytest.raises(Killed):
                trainer(method, **settings)
        return trainer(method, resume=True, **settings)

    return run
