"""An option of one value is given once, in every verb."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Irene = Callable[..., Any]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train average --data digits --epochs 1 --epochs 2", "--epochs is given 2 times: leave all but one out"),
        ("train average --data digits --data=digits --data digits", "--data is given 3 times"),
        ("calibrate nowhere --cost 1 --cost 2", "--cost is given 2 times"),
        ("calibrate nowhere --cost 1 --weights --no-weights", "--weights is given 2 times"),
        ("predict nowhere one.csv --out a.csv --out b.csv", "--out is given 2 times"),
    ],
)
def test_an_option_of_one_value_is_given_once(irene: Irene, line: str, words: str) -> None:
    assert irene(*line.split()).mistake.startswith(words)


@pytest.mark.parametrize(
    "line", ["bench nowhere --batch 1 --batch 2 --quick --quick", "points nowhere --delete a --delete b"]
)
def test_what_may_be_repeated_may_be(irene: Irene, line: str) -> None:
    assert "there is no run.json" in irene(*line.split()).mistake
