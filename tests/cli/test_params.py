"""What several verbs share is checked in each of them alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

Irene = Callable[..., Any]


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "RUN"),
        ("calibrate", "RUN", "--cost", "1.5"),
        ("drift", "RUN", "--data", "digits"),
        ("predict", "RUN", "photo.png"),
        ("bench", "RUN", "--quick"),
        ("train", "single", "--data", "digits"),
        ("tune", "--data", "digits"),
        ("compare", "--data", "digits"),
        ("compare", "RUN"),
        ("study", "pareto", "--data", "digits"),
        ("import", "model.onnx"),
        ("demo",),
    ],
)
def test_a_device_that_is_not_there_is_refused(
    irene: Irene, run_folder: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    words = [str(run_folder) if word == "RUN" else word for word in command]
    assert (
        irene(*words, "--device", "cuda").mistake
    ) == "device cuda was asked for and torch sees none here: use auto or --device cpu"
    assert not list(workplace.iterdir())
