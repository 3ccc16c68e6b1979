"""What run.json must hold: checked once, when a run is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
