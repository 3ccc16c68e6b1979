"""Documents that are written from templates and measured numbers, or checked against them, and the JSON between."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from irene.files import as_json

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks/results"


def filled(template: Path, parts: dict[str, str]) -> str:
    """The text of a template with {{name}} replaced by the part of that name."""

    def part(found: re.Match[str]) -> str:
        if found[1] not in parts:
            raise SystemExit(f"{template.name} asks for {found[0]}, but there is no such part")
        return parts[found[1]]

    return re.sub(r"\{\{([^{}]+)\}\}", part, template.read_text())


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def asked_to_check(about: str | None) -> bool:
    """Whether the command line of a script that writes documents has --check."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a document is out of date")
    return bool(parser.parse_args().check)


def write_or_check(documents: dict[Path, str], script: str, *, check: bool) -> None:
    """Write the documents; or end the program and say which of them are not what they should be."""
    if check:
        stale = [path for path, text in documents.items() if not path.exists() or path.read_text() != text]
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"out of date: {names}; run python {script}" if stale else 0)
    for path, text in documents.items():
        path.write_text(text)


def write_results(name: str, report: dict[str, Any], tables: Sequence[str], folder: Path = RESULTS) -> None:
    """Write NAME.json and NAME.md, and print the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
    text = "\n\n".join(tables) + "\n"
    (folder / f"{name}.md").write_text(text)
    print(text)


def machine(hardware: dict[str, Any]) -> str:
    """What was measured on, in words."""
    place = hardware["gpu"] or f"{hardware['cpu']}, {hardware['threads']} threads"
    return f"{place}, torch {hardware['torch']}"


def json_in_lines(content: dict[str, Any]) -> str:
    """JSON with one line for each entry of each part, which keeps changes readable."""
    parts = []
    for name, part in as_json(content).items():
        if isinstance(part, list):
            lines = [json.dumps(entry) for entry in part]
            ends = "[]"
        else:
            lines = [f"{json.dumps(key)}: {json.dumps(entry)}" for key, entry in part.items()]
            ends = "{}"
        parts.append(f"{json.dumps(name)}: {ends[0]}\n" + ",\n".join(f" {line}" for line in lines) + f"\n{ends[1]}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
