"""Small trained runs to evaluate and report on."""

from __future__ import annotations

from pathlib import Path

import pytest

from irene.data import Data
from irene.run import Run
from irene.training.options import LoopOptions
from irene.training.train import train

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
