"""Help for a name that was nearly right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near(name: str, known: Iterable[str]) -> str:
    """': did you mean a or b?' for a mistyped name, or nothing when no known name is close."""
    matches = difflib.get_close_matches(name, list(known), n=3)
    return f": did you mean {' or '.join(matches)}?" if matches else ""
