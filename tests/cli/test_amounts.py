"""Amounts as people write them, and a word where one could be meant otherwise."""

from __future__ import annotations

import pytest

from irene.cli import amounts
from irene.errors import OptionError


@pytest.mark.parametrize(("text", "value"), [("0.5%", 0.005), ("0.005", 0.005), (" 2 % ", 0.02), ("50%", 0.5)])
def test_shares(text: str, value: float) -> None:
    assert amounts.share(text, "--risk") == pytest.approx(value)


def test_a_forgotten_percent_sign_is_not_guessed() -> None:
    with pytest.raises(OptionError, match=r"--risk 0\.5 would be 50%: write 0\.5% if that is what you mean, or 50%"):
        amounts.share("0.5", "--risk")
    assert amounts.share("0.9", "--confidence", large=True) == 0.9
    with pytest.raises(OptionError, match="--confidence 90 would be 9000%: write 90%"):
        amounts.share("90", "--confidence", large=True)


@pytest.mark.parametrize(("text", "value"), [("8ms", 8), ("8", 8), ("0.5s", 500), ("1.5 ms", 1.5), ("8MS", 8)])
def test_times(text: str, value: float) -> None:
    assert amounts.milliseconds(text, "--p99") == value


@pytest.mark.parametrize("text", ["8m", "8k", "8 m s", "inf", "nanms"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="--p99 takes a time such as 8ms, got"):
        amounts.milliseconds(text, "--p99")


def test_shares_are_no_millions() -> None:
    with pytest.raises(OptionError, match=r"--risk takes a share such as 0\.5% or 0\.005, got '3M%'"):
        amounts.share("3M%", "--risk")


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("1.3", None, (1.3, "members")),
        ("250M", "flops", (250e6, "flops")),
        ("1.1G", "flops", (1.1e9, "flops")),
        ("3ms", None, (3.0, "ms")),
        ("3", "ms", (3.0, "ms")),
        (None, "ms", (None, "ms")),
    ],
)
def test_costs(text: str | None, unit: str | None, value: tuple[float | None, str]) -> None:
    assert amounts.cost(text, unit) == value


def test_nothing_given_is_nothing() -> None:
    assert amounts.share(None, "--risk") is amounts.milliseconds(None, "--p99") is None
    assert amounts.cost(None, None) == (None, "members")


def test_what_is_no_amount_is_refused() -> None:
    for call, words in (
        (lambda: amounts.share("much", "--risk"), "--risk takes a share"),
        (lambda: amounts.milliseconds("soon", "--p99"), "--p99 takes a time"),
        (lambda: amounts.milliseconds("mss", "--p99"), "--p99 takes a time"),
        (lambda: amounts.cost("low", None), "--cost takes a number"),
        (lambda: amounts.cost("3ms", "flops"), "--cost 3ms is a time and --cost-unit is flops"),
        (lambda: amounts.cost("3", "watts"), "--cost-unit must be one of members, flops, ms"),
    ):
        with pytest.raises(OptionError, match=words):
            call()
