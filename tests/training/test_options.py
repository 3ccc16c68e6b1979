"""Options of the loop are checked when they are made."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from irene.errors import OptionError
from irene.training.options import LoopOptions, OptimizerOptions


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (OptimizerOptions, {"kind": "lion"}, "sgd or adam, got 'lion'"),
        (OptimizerOptions, {"lr": 0.0}, "learning rate must be above 0, got 0$"),
        (OptimizerOptions, {"lr": 0.1 - 0.4}, r"learning rate must be above 0, got -0\.3$"),
        (OptimizerOptions, {"momentum": 1.0}, r"momentum in \[0, 1\)"),
        (OptimizerOptions, {"weight_decay": -1.0}, "weight decay must be at least 0"),
        (LoopOptions, {"epochs": 0}, "at least 1, got 0 and 128"),
        (LoopOptions, {"batch_size": 0}, "at least 1"),
        (LoopOptions, {"epochs": 1.5}, r"must be whole numbers, at least 1, got 1\.5 and 128"),
        (LoopOptions, {"batch_size": "32"}, "whole numbers, at least 1, got 20 and '32'"),
        (LoopOptions, {"clip": 0.0}, "gradient-norm limit must be above 0"),
        (LoopOptions, {"precision": "fp8"}, "one of auto, fp32, bf16, got 'fp8'"),
    ],
)
def test_a_value_that_cannot_work_is_refused(kind: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        kind(**values)


@pytest.mark.parametrize(
    ("precision", "device", "expected"),
    [
        ("auto", "cpu", None),
        ("auto", "cuda", torch.bfloat16),
        ("fp32", "cuda", None),
        ("bf16", "cpu", torch.bfloat16),
    ],
)
def test_precision_follows_the_device(precision: Any, device: str, expected: torch.dtype | None) -> None:
    assert LoopOptions(precision=precision).autocast_dtype(torch.device(device)) == expected
