"""From the text of flags to the option dataclasses of a method, checked against their fields."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from irene.errors import OptionError

Name = TypeVar("Name", bound=str)
_SUFFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_FLAGS = {  # of the options whose flag is not their name
    "optimizer.kind": "--optimizer",
    "optimizer.lr": "--lr",
    "optimizer.weight_decay": "--weight-decay",
    "optimizer.schedule.kind": "--schedule",
    "loss_weights.ensemble": "--ensemble-weight",
    "loss_weights.cost": "--cost-weight",
    "loss_weights.rank": "--rank-weight",
    "loss_weights.discrepancy": "--discrepancy-weight",
}
_TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def number(text: str) -> float:
    """A finite number that may end in K, M, G or T: 250M is 250 million."""
    factor = _SUFFIXES.get(text[-1:].upper(), 1.0)
    return plain_number(text[:-1] if factor != 1.0 else text, factor)


def plain_number(text: str, factor: float = 1.0) -> float:
    """A number, times a factor; both are finite."""
    value = factor * float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def fraction(text: str) -> float:
    """A number, or a hundredth of what stands before a %."""
    return plain_number(text.removesuffix("%").strip()) / (100 if text.endswith("%") else 1)


def share_or_count(text: str | None, flag: str = "--heldout") -> float | int | None:
    """A share such as 0.1 or 10%, or a whole number such as 5000, as `heldout` takes them."""
    if text is None:
        return None
    try:
        if text.endswith("%"):
            return fraction(text)
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        raise OptionError(f"{flag} takes a share such as 0.1 or 10%, or a number of samples, got {text!r}") from None


def one_of(text: str, known: Sequence[Name], flag: str) -> Name:
    """The one of these names that the text is."""
    for name in known:
        if name == text:
            return name
    raise OptionError(f"{flag} must be one of {', '.join(known)}, got {text!r}")


def names(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list; none of them may be empty."""
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise OptionError(f"expected names with commas between them, got {text!r}, where a name is empty: fill it in")
    return found


def backbones(one: str | None, several: str | None) -> tuple[str, ...]:
    """The backbones that --backbone or --backbones names."""
    if one is not None and several is not None:
        raise OptionError("give --backbone for all members or --backbones for each, not both")
    if several is not None:
        return names(several)
    found = () if one is None else names(one)
    if len(found) > 1:
        raise OptionError(f"--backbone takes one name, got {one!r}: use --backbones for several")
    return found


def folder_name(*words: str) -> str:
    """Words as the name of a folder, with dashes between; data such as csv:a/table.csv goes by its stem."""
    short = (Path(word.partition(":")[2]).stem if ":" in word else word for word in words)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(short))


def settings(pairs: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE pairs as a dictionary."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise OptionError(f"--set takes NAME=VALUE, got {pair!r}")
        if name.strip() in found:
            raise OptionError(f"--set {name.strip()} is given twice: leave one of the two out")
        found[name.strip()] = value.strip()
    return found


def given(values: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The options that are not None, by their names: each with its flag and its value as text."""
    return {
        name: (_FLAGS.get(name, f"--{name.replace('_', '-')}"), str(value))
        for name, value in values.items()
        if value is not None
    }


def apply(options: Any, given: Mapping[str, tuple[str, str]], owner: str) -> Any:
    """The options with the given values, each from its name to the flag it came by and its text.

    A dotted name reaches into a dataclass within. A name the options do not have is an error that lists them.
    All values are set at once: some are right only together, in whatever order they were given.
    """
    changes: dict[str, Any] = {}
    for name, (flag, text) in given.items():
        _note(changes, options, name.split("."), flag, text, owner)
    return _changed(options, changes)


def known(options: Any) -> list[str]:
    """Every name that `apply` takes for these options."""
    found = []
    for field in dataclasses.fields(options) if options is not None else ():
        value = getattr(options, field.name)
        inner = known(value) if dataclasses.is_dataclass(value) else []
        found += [f"{field.name}.{name}" for name in inner] or [field.name]
    return found


def _note(changes: dict[str, Any], options: Any, path: list[str], flag: str, text: str, owner: str) -> None:
    """Put a value into the changes of these options, which hold further changes for a dataclass within."""
    head, *rest = path
    hints = get_type_hints(type(options)) if options is not None else {}
    value = getattr(options, head, None)
    if head not in hints or bool(rest) != dataclasses.is_dataclass(value):
        there = known(options)
        has = f"its options are {', '.join(there)}" if there else "it has no options of its own"
        raise OptionError(f"{flag} is no option of {owner}: {has}")
    if rest:
        _note(changes.setdefault(head, {}), value, rest, flag, text, owner)
        return
    try:
        changes[head] = convert(text, hints[head])
    except ValueError:
        raise OptionError(f"{flag} takes {describe(hints[head])}, got {text!r}") from None


def _changed(options: Any, changes: Mapping[str, Any]) -> Any:
    values = {
        name: _changed(getattr(options, name), value) if isinstance(value, dict) else value
        for name, value in changes.items()
    }
    return dataclasses.replace(options, **values) if values else options


def convert(text: str, kind: Any) -> Any:
    """Text as a value of a type; a ValueError if it is none."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _first_that_fits(text, inside)
    if origin is tuple:
        return _tuple(names(text) if text else (), inside)
    if origin is Literal:
        if text not in inside:
            raise ValueError(text)
        return text
    if kind is NoneType:
        return _looked_up({"none": None}, text)
    if kind is bool:
        return _looked_up(_TRUTH, text)
    if kind is int:
        value = number(text)
        if not value.is_integer():
            raise ValueError(text)
        return int(value)
    return number(text) if kind is float else text


def describe(kind: Any) -> str:
    """What a type takes, in words."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(describe(one) for one in inside)
    if origin is tuple:
        return "a comma-separated list: " + (", ".join(describe(one) for one in inside if one is not ...))
    if origin is Literal:
        return "one of " + ", ".join(map(str, inside)) if len(inside) > 1 else str(inside[0])
    words = {NoneType: "none", bool: "true or false", int: "a whole number", float: "a number"}
    return words.get(kind, "text")


def _tuple(parts: tuple[str, ...], kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    if kinds[-1] is ...:
        kinds = (kinds[0],) * len(parts)
    if len(parts) != len(kinds):
        raise ValueError(parts)
    return tuple(convert(part, kind) for part, kind in zip(parts, kinds, strict=True))


def _first_that_fits(text: str, kinds: tuple[Any, ...]) -> Any:
    # None first: "none" is also text.
    for kind in sorted(kinds, key=lambda one: one is not NoneType):
        try:
            return convert(text, kind)
        except ValueError:
            continue
    raise ValueError(text)


def _looked_up(table: Mapping[str, Any], text: str) -> Any:
    if text.lower() not in table:
        raise ValueError(text)
    return table[text.lower()]
