"""Small trained runs to evaluate and report on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from irene.data import Data
from irene.evaluation.jobs import Job
from irene.run import Run
from irene.training.options import LoopOptions
from irene.training.train import TrainOptions, train

LOOP = LoopOptions(epochs=3, batch_size=32)


@pytest.fixture(scope="session")
def runs(blobs: Data, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A single model, an average ensemble of three, a cascade and a mixture, on the same samples."""
    folder = tmp_path_factory.mktemp("runs")
    methods = ("single", "average", "irene", "sparse-moe")
    return {method: train(method, blobs, folder / method, loop=LOOP) for method in methods}


@pytest.fixture(scope="session")
def regression_runs(curve: Data, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder: Path = tmp_path_factory.mktemp("regression")
    return [train(method, curve, folder / method, loop=LOOP) for method in ("average", "irene")]


@pytest.fixture
def make_job(blobs: Data, tmp_path: Path) -> Callable[..., Job]:
    """Makes a job of a few seconds, in a folder of the method's name."""

    def make(method: str, **given: Any) -> Job:
        settings = {
            "folder": tmp_path / method,
            "data": blobs,
            "options": TrainOptions(members=2, device="cpu"),
            "loop": LoopOptions(epochs=2, batch_size=32),
            **given,
        }
        return Job(method=method, **settings)

    return make
