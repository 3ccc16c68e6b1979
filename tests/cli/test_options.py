"""Text becomes option values of the right type, or an error that says what is taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.cli.experiment import own_options
from irene.cli.options import (
    apply,
    backbones,
    convert,
    describe,
    folder_name,
    known,
    names,
    number,
    settings,
    share_or_count,
)
from irene.errors import OptionError
from irene.training.methods.fge import FgeOptions
from irene.training.methods.woc import WocOptions


@dataclass(frozen=True, kw_only=True)
class Inner:
    depth: int = 1


@dataclass(frozen=True, kw_only=True)
class Options:
    rate: float = 0.5
    kind: Literal["a", "b"] = "a"
    pair: tuple[int, int] | None = None
    inner: Inner = field(default_factory=Inner)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", int, 7),
        ("2K", int, 2000),
        ("1e-3", float, 0.001),
        ("250M", float, 250e6),
        ("1.5g", float, 1.5e9),
        ("yes", bool, True),
        ("False", bool, False),
        ("0", bool, False),
        ("none", str | None, None),
        ("text", str | None, "text"),
        ("None", float | None, None),
        ("b", Literal["a", "b"], "b"),
        ("1,2, 3", tuple[int, ...], (1, 2, 3)),
        ("", tuple[int, ...], ()),
        ("4,5", tuple[int, int] | None, (4, 5)),
        ("a,b", tuple[Literal["a", "b"], ...], ("a", "b")),
    ],
)
def test_text_becomes_a_value(text: str, kind: Any, value: Any) -> None:
    converted = convert(text, kind)
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1.5", int),
        ("inf", int),
        ("nan", int),
        ("many", float),
        ("K", float),
        ("nan", float),
        ("1e308G", float),
        ("", float),
        ("maybe", bool),
        ("c", Literal["a", "b"]),
        ("1", tuple[int, int]),
        ("1,x", tuple[int, ...]),
    ],
)
def test_text_that_is_no_such_value(text: str, kind: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (the words are added by `apply`, which knows the flag)
        convert(text, kind)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_plain_numbers_are_read_exactly(value: float) -> None:
    assert number(repr(value)) == value


def test_types_in_words() -> None:
    assert describe(float | None) == "a number or none"
    assert describe(Literal["a", "b"]) == "one of a, b"
    assert describe(tuple[int, ...]) == "a comma-separated list: a whole number"
    assert describe(tuple[int, float]) == "a comma-separated list: a whole number, a number"


def test_values_are_set_also_within() -> None:
    changes = {"rate": ("--rate", "1K"), "inner.depth": ("--depth", "3"), "pair": ("--pair", "1,2")}
    changed = apply(Options(), changes, "it")
    assert changed == Options(rate=1000.0, inner=Inner(depth=3), pair=(1, 2))


@dataclass(frozen=True, kw_only=True)
class Range:
    low: int = 1
    high: int = 2

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise OptionError(f"low {self.low} is not below high {self.high}")


@dataclass(frozen=True, kw_only=True)
class Outer:
    range: Range = field(default_factory=Range)


@pytest.mark.parametrize("order", [("low", "high"), ("high", "low")])
def test_values_that_are_right_together_come_in_any_order(order: tuple[str, str]) -> None:
    texts = {"low": "5", "high": "6"}
    changes = {f"range.{name}": (f"--{name}", texts[name]) for name in order}
    assert apply(Outer(), changes, "it") == Outer(range=Range(low=5, high=6))
    with pytest.raises(OptionError, match="low 5 is not below high 2"):
        apply(Outer(), {"range.low": ("--low", "5")}, "it")


def test_options_of_methods_come_in_any_order() -> None:
    found = own_options(["fge.low=0.6", "woc.tolerance=0.1", "fge.high=0.9"])
    assert found == {"fge": FgeOptions(low=0.6, high=0.9), "woc": WocOptions(tolerance=0.1)}


def test_unknown_names_list_the_known_ones() -> None:
    assert known(Options()) == ["rate", "kind", "pair", "inner.depth"]
    for name in ("rat", "inner", "inner.width", "rate.more", "__class__"):
        with pytest.raises(OptionError, match=r"--x is no option of it: its options are .*depth"):
            apply(Options(), {name: ("--x", "1")}, "it")
    with pytest.raises(OptionError, match="no options of its own"):
        apply(None, {"rate": ("--rate", "1")}, "it")


def test_a_wrong_value_names_the_flag() -> None:
    with pytest.raises(OptionError, match="--kind takes one of a, b, got 'c'"):
        apply(Options(), {"kind": ("--kind", "c")}, "it")


def test_lists_and_pairs() -> None:
    assert names(" a, b,c ") == ("a", "b", "c")
    for text in ("a,,b", "a,", ",a", " ", ""):
        with pytest.raises(OptionError, match=r"got '.*', where a name is empty: fill it in"):
            names(text)
    assert settings(["a=1", " b = x=y "]) == {"a": "1", "b": "x=y"}
    for wrong in ("a", "=1"):
        with pytest.raises(OptionError, match="NAME=VALUE"):
            settings([wrong])


def test_held_out_samples_as_a_share_or_a_count() -> None:
    assert share_or_count(None) is None
    assert (share_or_count("0.1"), share_or_count("500"), share_or_count("0")) == (0.1, 500, 0)
    assert share_or_count("10%") == 0.1
    assert isinstance(share_or_count("500"), int)
    with pytest.raises(OptionError, match="--heldout"):
        share_or_count("half")


def test_one_backbone_for_all_or_one_for_each() -> None:
    assert backbones(None, None) == ()
    assert backbones("cnn", None) == ("cnn",)
    assert backbones(None, "cnn, mlp") == ("cnn", "mlp")
    with pytest.raises(OptionError, match="not both"):
        backbones("cnn", "cnn,mlp")
    with pytest.raises(OptionError, match="--backbone takes one name, got 'cnn,mlp'"):
        backbones("cnn,mlp", None)


def test_a_folder_is_named_by_the_stem_of_a_file() -> None:
    assert folder_name("digits") == "digits"
    assert folder_name("woc", "csv:some/my table.csv", "seed3") == "woc-my-table-seed3"
