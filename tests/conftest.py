"""Toy members, synthetic banks and small data sets for every test."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
from torch import Tensor

from irene.bank import Bank
from irene.data import Data, from_arrays
from irene.types import Cost, Task

torch.set_num_threads(1)
hypothesis.settings.register_profile("irene", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("irene")


class TableMember:
    """A member that looks its answers up by the sample number in the first column of its input.

    So its answer for a sample is exactly the same in every batch, and it knows which samples it was asked about.
    """

    def __init__(self, outputs_NHK: Tensor) -> None:
        self.outputs_NHK = outputs_NHK
        self.asked: list[list[int]] = []

    def __call__(self, inputs: Tensor) -> Tensor:
        rows = inputs[:, 0].long()
        self.asked.append(rows.tolist())
        return self.outputs_NHK[rows]


def _make_bank(
    samples: int = 60,
    *,
    members: int = 3,
    heads: int = 2,
    outputs: int = 4,
    accuracy: float | Sequence[float] = 0.8,
    task: Task = "classification",
    costs: Sequence[Cost] | None = None,
    seed: int = 0,
) -> Bank:
    generator = torch.Generator().manual_seed(seed)
    rates = [accuracy] * members if isinstance(accuracy, float) else list(accuracy)
    if task == "classification":
        targets = torch.randint(outputs, (samples,), generator=generator)
        first = [_logits(targets, outputs, rate, generator) for rate in rates]
        apart = 0.5
    else:
        targets = torch.randn(samples, outputs, generator=generator)
        first = [targets + (1 - rate) * torch.randn(samples, outputs, generator=generator) for rate in rates]
        apart = 0.1
    column_NT1K = torch.stack(first, 1)[:, :, None]
    others = apart * torch.randn(samples, members, heads - 1, outputs, generator=generator)
    return Bank(
        task=task,
        outputs=torch.cat([column_NT1K, column_NT1K + others], 2),
        targets=targets,
        ids=torch.arange(samples) + 1000,
        costs=tuple(costs) if costs is not None else (Cost(),) * members,
    )


def _logits(targets: Tensor, classes: int, accuracy: float, generator: torch.Generator) -> Tensor:
    """Logits whose largest is at the target for exactly this share of the samples; the others lead by less."""
    samples = len(targets)
    wrong = torch.randperm(samples, generator=generator) >= round(accuracy * samples)
    shift = torch.randint(1, classes, (samples,), generator=generator) * wrong
    winner = (targets + shift) % classes
    logits = torch.randn(samples, classes, generator=generator)
    lead = (torch.rand(samples, generator=generator) * 3 + 0.01) * torch.where(wrong, 0.4, 1.0)
    return logits.scatter(1, winner[:, None], (logits.max(1).values + lead)[:, None])


def _lifelike_bank(
    samples: int,
    *,
    skills: Sequence[float] = (2.0, 2.0, 2.0),
    flops: Sequence[float] | None = None,
    classes: int = 5,
    sharpness: float = 1.5,
    seed: int = 0,
) -> Bank:
    """Unsure members are more often wrong, as in life: some samples are easier, and members share part of their errors.

    They are too sure of themselves by a factor of `sharpness`.
    """
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(classes, (samples,), generator=generator)
    ease = torch.rand(samples, 1, generator=generator) * 2
    truth = torch.nn.functional.one_hot(targets, classes) * ease
    shared = torch.randn(samples, classes, generator=generator) * 0.5
    outputs = [skill * truth + shared + torch.randn(samples, classes, generator=generator) * 0.8 for skill in skills]
    work = flops or (1.0,) * len(skills)
    return Bank(
        task="classification",
        outputs=sharpness * torch.stack(outputs, 1)[:, :, None],
        targets=targets,
        ids=torch.arange(samples),
        costs=tuple(Cost(flops=1e6 * one, ms=2.0 * one) for one in work),
        about={"split": "heldout", "fingerprint": "f00d"},
    )


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def make_bank() -> Callable[..., Bank]:
    """Makes a bank whose members are right for a share of the samples that is asked for."""
    return _make_bank


@pytest.fixture(scope="session")
def lifelike_bank() -> Callable[..., Bank]:
    return _lifelike_bank


@pytest.fixture(scope="session")
def table_members() -> Callable[[Bank], list[Any]]:
    """The members of a bank as callables that look their answers up; `sample_numbers(n)` are their inputs."""
    return lambda bank: [TableMember(bank.outputs[:, t]) for t in range(bank.steps)]


@pytest.fixture(scope="session")
def sample_numbers() -> Callable[[int], Tensor]:
    return lambda count: torch.arange(float(count))[:, None]


@pytest.fixture(scope="session")
def blobs() -> Data:
    """Three classes of points with 5 features, a little apart: an MLP gets most of them right within seconds."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=300)
    centres = rng.normal(size=(3, 5)) * 1.5
    return from_arrays(centres[labels] + rng.normal(size=(300, 5)), labels, name="blobs", seed=0)


@pytest.fixture(scope="session")
def curve() -> Data:
    """Two values that are smooth functions of 4 features, on quite different scales."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 4))
    y = np.stack([50 + 20 * np.sin(x[:, 0]) + x[:, 1], 0.01 * x[:, 2] * x[:, 3]], 1)
    return from_arrays(x, y, task="regression", name="curve", classes=("large", "small"), seed=0)


@pytest.fixture
def make_loop() -> Callable[..., Any]:
    """Makes a training loop on the CPU that leaves metrics and checkpoints in a folder, if it is given one."""

    def make(folder: Path | None = None, *, seed: int = 0, checkpoint_seconds: float = 0.0, **options: Any) -> Any:
        from irene.training.checkpoint import Checkpoints
        from irene.training.loop import Loop
        from irene.training.recorder import Recorder

        return Loop(
            device=torch.device("cpu"),
            seed=seed,
            recorder=Recorder(None if folder is None else folder / "metrics.jsonl"),
            checkpoints=Checkpoints(None if folder is None else folder / "stages"),
            checkpoint_seconds=checkpoint_seconds,
            **options,
        )

    return make


@pytest.fixture
def never_waiting() -> Callable[[], AbstractContextManager[None]]:
    """Where whatever makes the host wait for a GPU is an error, but for events, which are waited for by name."""

    @contextmanager
    def never_waiting() -> Iterator[None]:
        with warnings.catch_warnings(category=UserWarning, action="ignore"):  # torch calls the mode a prototype, once
            torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    return never_waiting
