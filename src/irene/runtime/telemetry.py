"""OpenVINO and nncf report their use to their makers when they are imported. Imported through here, they do not."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from irene.errors import MissingExtraError

_REPORTER = "openvino_telemetry"


def import_quietly(name: str) -> Any:
    """Import `openvino` or `nncf` as if their reporter were not installed: both then do without it."""
    present = sys.modules.get(_REPORTER)
    if present is None:
        sys.modules[_REPORTER] = None  # type: ignore[assignment] # how Python marks a module that cannot be imported
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(name, "openvino") from error
    finally:
        if present is None:
            del sys.modules[_REPORTER]
