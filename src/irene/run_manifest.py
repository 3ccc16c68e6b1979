"""What run.json must hold, checked once, when a run is opened; and what every run writes down of how it came to be."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from irene import __version__
from irene.errors import RunError
from irene.types import TASKS

_NEEDED: dict[str, Any] = {
    "status": str,
    "method": str,
    "task": str,
    "data": {"classes": list, "shape": list},
    "members": list,
    "banks": dict,
}
_FINISHED: dict[str, Any] = {
    "policy": {"name": str, "options": dict},
    "aggregation": {"weights": list, "temperatures": list},
    "figures": dict,
}
_OPTIONAL: dict[str, Any] = {"points": dict, "gate": {"cost": dict}}
_KINDS = {str: "a text", list: "a list", dict: "an object"}
_REMEDY = "restore it or train the run again"


def now() -> str:
    """The time as runs and operating points keep it: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def environment() -> dict[str, Any]:
    """The versions that a run is made with, and when it was begun."""
    return {
        "irene": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "begun": now(),
    }


def check_manifest(file: Path, manifest: dict[str, Any]) -> None:
    """Refuse a manifest in which something is missing or of another kind, and name it by its key."""
    form = _NEEDED | ({} if manifest.get("status") == "training" else _FINISHED)
    _check(file, manifest, form | {key: inside for key, inside in _OPTIONAL.items() if key in manifest})
    if manifest["task"] not in TASKS:
        raise RunError(f"{file}: task must be one of {', '.join(TASKS)}, got {manifest['task']!r}; {_REMEDY}")
    for number, member in enumerate(manifest["members"]):
        _check(file, {f"members.{number}": member}, {f"members.{number}": {"cost": dict}})


def _check(file: Path, values: dict[str, Any], form: dict[str, Any], within: str = "") -> None:
    for key, kind in form.items():
        name, wanted = within + key, dict if isinstance(kind, dict) else kind
        if key not in values:
            raise RunError(f"{file}: has no {name}; {_REMEDY}")
        if not isinstance(values[key], wanted):
            found = "null" if values[key] is None else repr(values[key])
            raise RunError(f"{file}: {name} must be {_KINDS[wanted]}, got {found}; {_REMEDY}")
        if isinstance(kind, dict):
            _check(file, values[key], kind, f"{name}.")


def first_difference(name: str, begun: Any, asked: Any) -> tuple[str, Any, Any]:
    """The dotted name and both values of the first thing in which two records differ."""
    if isinstance(begun, dict) and isinstance(asked, dict):
        absent = "not set"  # as what another version has no option for
        pairs = {key: (begun.get(key, absent), asked.get(key, absent)) for key in (*asked, *begun)}
        key = next(key for key, (there, here) in pairs.items() if there != here)
        return first_difference(f"{name}.{key}", *pairs[key])
    return name, begun, asked
