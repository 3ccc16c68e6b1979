"""The contributor guide's promise: one file and one line make a method that every verb knows."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]


def guide() -> tuple[str, str]:
    """The file and the line that the guide shows."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Add a method")[2].partition("\n## ")[0]
    file, line = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    return file, line


def test_one_file_and_one_line(tmp_path: Path) -> None:
    package = tmp_path / "src" / "irene"
    shutil.copytree(ROOT / "src" / "irene", package, ignore=shutil.ignore_patterns("__pycache__"))
    file, line = guide()
    (package / "training" / "methods" / "bagging.py").write_text(file)
    registry = package / "training" / "methods" / "__init__.py"
    before = registry.read_text()
    head, end, tail = before.partition("\n)\n")  # of the list of files
    registry.write_text(f"{head}\n{line.rstrip()}{end}{tail}")
    assert len(registry.read_text().splitlines()) == len(before.splitlines()) + 1

    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=200)
    np.savez(tmp_path / "points.npz", x=rng.normal(size=(3, 5))[labels] * 2 + rng.normal(size=(200, 5)), y=labels)

    def irene(*arguments: str) -> dict[str, object]:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "irene", *arguments, "--json"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        value: dict[str, object] = json.loads(done.stdout)
        return value

    listed = irene("methods")["methods"]
    assert isinstance(listed, list)
    assert [method for method in listed if method["name"] == "bagging" and "their own draw" in method["description"]]

    compared = irene(
        *("compare", "--methods", "single,bagging", "--data", "npz:points.npz", "--seeds", "1"),
        *("--epochs", "4", "--batch-size", "32", "--out", "runs"),
    )
    rows = compared["rows"]
    assert isinstance(rows, list)
    assert [(row["name"], row["members"]) for row in rows] == [("single", 1), ("bagging", 3)]
    assert rows[1]["accuracy"]["mean"] > 0.5, "chance is a third"
