"""Operating points in words: what was asked of them, and what they are expected to show."""

from __future__ import annotations

from typing import Any

from irene.numbers import percent, plain, share, si


def in_a_line(policy: str, asked: dict[str, Any], expected: dict[str, Any], why: str) -> str:
    """A point: its policy, what was asked and what to expect; one of which nothing was asked says what it is."""
    words = f"{policy} for {asked_words(asked)}" if asked else why
    return words + (f": {expected_words(expected)}" if expected else "")


def asked_words(asked: dict[str, Any]) -> str:
    """What was asked for, as it is written on the command line."""
    if "cost" in asked:
        text = f"cost {amount(asked['cost'], asked['unit'])} {asked['unit']}"
    elif "p99" in asked:
        text = f"p99 {asked['p99']:.4g} ms"
    else:
        kind = "risk" if "risk" in asked else "max_drop"
        text = f"{kind.replace('_', '-')} {share(asked[kind])}"
    return text + (f", with {share(asked['confidence'])} confidence" if "confidence" in asked else "")


def expected_words(expected: dict[str, Any]) -> str:
    """How good a point is expected to be, at what cost."""
    good = f"{expected['accuracy']:.2%}" if "accuracy" in expected else f"mse {expected['mse']:.4g}"
    cost = f"{amount(expected['cost'], expected['unit'])} {expected['unit']}"
    return f"{good} at {cost}, drop {percent(expected['drop'])}"


def amount(value: float, unit: str) -> str:
    """A cost for reading."""
    return plain(value) if unit == "members" else si(value) if unit == "flops" else f"{value:.4g}"


def wanted(cost: float, unit: str) -> str:
    """A cost that was asked for and cannot be had."""
    return f"{si(cost, 6) if unit == 'flops' else f'{cost:g}'} {unit}"


def possible(cost: float, unit: str) -> str:
    """A cost that can be had, as one would ask for it."""
    return si(cost, 4) if unit == "flops" else f"{cost:.4g}"
