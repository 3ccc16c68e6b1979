"""OpenVINO and nncf report their use to their makers when they are imported. Imported through here, they do not."""

from __future__ import annotations

import sys
from typing import Any

from irene.errors import import_extra

_REPORTER = "openvino_telemetry"


def import_quietly(name: str) -> Any:
    """Import `openvino` or `nncf` as if their reporter were not installed: both then do without it."""
    modules: dict[str, Any] = sys.modules
    hide = _REPORTER not in modules
    if hide:
        modules[_REPORTER] = None  # which Python takes for a module that cannot be imported
    try:
        return import_extra(name, "openvino")
    finally:
        if hide:
            del modules[_REPORTER]
