"""Banks on which unsure members are more often wrong, as they are in life."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from irene.bank import Bank
from irene.types import Cost


def _lifelike_bank(
    samples: int,
    *,
    skills: Sequence[float] = (2.0, 2.0, 2.0),
    flops: Sequence[float] | None = None,
    classes: int = 5,
    sharpness: float = 1.5,
    seed: int = 0,
) -> Bank:
    """Some samples are easier than others, members share part of their errors, and are too sure by `sharpness`."""
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


@pytest.fixture(scope="session")
def lifelike_bank() -> Callable[..., Bank]:
    return _lifelike_bank
