"""Documents that are written from templates and measured numbers, or checked against them."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def filled(template: Path, parts: dict[str, str]) -> str:
    """The text of a template with {{name}} replaced by the part of that name."""
    text = template.read_text()
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text


def write_or_check(documents: dict[Path, str], script: str) -> None:
    """Write the documents; with --check, end the program and say which of them are not what they should be."""
    if "--check" in sys.argv:
        stale = [path for path, text in documents.items() if not path.exists() or path.read_text() != text]
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"out of date: {names}; run python {script}" if stale else 0)
    for path, text in documents.items():
        path.write_text(text)
