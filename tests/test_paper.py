"""The paper-to-code map names nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/paper.md").read_text()
ROWS = [line for line in TEXT.splitlines() if re.match(r"\| (Eq\.|[A-D][,.]|Table|Fig\.)", line)]


def named(column: int) -> set[str]:
    return {name for row in ROWS for name in re.findall(r"`([^`]+)`", row.split("|")[column])}


def test_every_equation_and_appendix_is_mapped() -> None:
    first = " ".join(row.split("|")[1] for row in ROWS)
    for number in range(1, 14):
        assert f"Eq. {number}," in first
    for section in ("A.1.1", "A.1.2", "A.2", "B", "C", "D", "Table 3"):
        assert f" {section}," in first


def test_every_function_and_file_is_there() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "src/irene").rglob("*.py"))
    for name in named(2):
        if "/" in name or name.endswith(".py"):
            assert list((ROOT / "src/irene").rglob(name)) or list((ROOT / "src/irene/training").rglob(name)), name
        elif not name.startswith("irene "):
            assert re.search(rf"(def|class) {name.rpartition('.')[2]}\b", code), name


def test_every_test_is_there() -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    for name in named(3):
        if "/" in name or name.endswith(".py"):
            assert list((ROOT / "tests").rglob(name)), name
        else:
            assert re.search(rf"def {name.removesuffix('...')}", tests), name
