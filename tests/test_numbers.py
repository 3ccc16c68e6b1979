"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from irene.numbers import milliseconds, percent, plain, share, si


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (math.nan, "-"),
        (0.0, "0.00"),
        (1.255, "1.25"),
        (-2.5, "-2.50"),
        (0.00123, "0.00123"),
        (12345.0, "1.23e+04"),
    ],
)
def test_plain(value: float | None, shown: str) -> None:
    assert plain(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "-"),
        (None, "-"),
        (math.nan, "-"),
        (999, "999"),
        (999.6, "1K"),
        (1807616, "1.81M"),
        (5.4e9, "5.4G"),
        (2e12, "2T"),
        (5e15, "5e+03T"),
    ],
)
def test_si(value: float | None, shown: str) -> None:
    assert si(value) == shown


def test_si_in_more_digits() -> None:
    assert [si(value, 4) for value in (999.6, 999.96, 1807616)] == ["999.6", "1K", "1.808M"]


@pytest.mark.parametrize(("value", "shown"), [(0.9, "90%"), (0.995, "99.5%"), (0.99999, "99.999%"), (0.005, "0.5%")])
def test_a_share_is_written_as_it_was_asked_for(value: float, shown: str) -> None:
    assert share(value) == shown


def test_a_time_nobody_measured_is_no_time() -> None:
    assert [milliseconds(value) for value in (0.0, None, math.nan, 0.03703)] == ["-", "-", "-", "0.037"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.00%"),
        (-0.0523, "-5.23%"),
        (99.0, "9900.00%"),
        (3.2e14, "3.2e+16%"),
        *((x, "-") for x in (None, math.inf)),
    ],
)
def test_percent(value: float | None, shown: str) -> None:
    assert percent(value) == shown
