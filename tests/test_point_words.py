"""Operating points in words."""

from __future__ import annotations

from typing import Any

import pytest

from irene.point_words import asked_words, expected_words, possible, wanted


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"cost": 1.3, "unit": "members"}, "cost 1.30 members"),
        ({"cost": 2.5e8, "unit": "flops", "confidence": 0.9}, "cost 250M flops, with 90% confidence"),
        ({"p99": 8.0, "unit": "ms"}, "p99 8 ms"),
        ({"risk": 0.005, "unit": "members", "confidence": 0.95}, "risk 0.5%, with 95% confidence"),
        ({"risk": 0.02, "unit": "members", "confidence": 0.995}, "risk 2%, with 99.5% confidence"),
        ({"max_drop": 0.01, "unit": "members"}, "max-drop 1%"),
    ],
)
def test_what_was_asked(asked: dict[str, Any], words: str) -> None:
    assert asked_words(asked) == words


def test_costs_that_cannot_and_can_be_had() -> None:
    assert wanted(36_000, "flops") == "36K flops"
    assert wanted(1.2345, "members") == "1.2345 members"
    assert possible(1_807_616, "flops") == "1.808M"
    assert possible(0.0498417, "ms") == "0.04984"


def test_what_to_expect() -> None:
    classes = {"accuracy": 0.981, "cost": 1.3, "unit": "members", "drop": 0.002}
    values = {"mse": 12.345, "cost": 2.5, "unit": "ms", "drop": 0.05}
    assert expected_words(classes) == "98.10% at 1.30 members, drop 0.20%"
    assert expected_words(values) == "mse 12.35 at 2.5 ms, drop 5.00%"
    assert expected_words({**values, "drop": None}).endswith("drop -")
