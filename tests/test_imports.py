"""Imports of the package point one way, and the check that says so can fail."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "check_imports.py"


def check(*arguments: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False, timeout=60)


def tree(root: Path, files: dict[str, str]) -> Path:
    package = root / "irene"
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return package


def test_imports_of_the_package_point_one_way() -> None:
    result = check()
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_layers_are_those_of_the_contributors_page() -> None:
    page = (SCRIPT.parents[1] / "CONTRIBUTING.md").read_text()
    layers = runpy.run_path(str(SCRIPT))["LAYERS"]
    assert "".join(f"    {', '.join(layer)}\n" for layer in layers) in page


def test_downward_imports_pass(tmp_path: Path) -> None:
    package = tree(
        tmp_path,
        {
            "__init__.py": "from irene.cli import main\nfrom irene.cascade import Cascade\n",
            "types.py": "from .errors import IreneError\n",
            "cascade.py": "import torch\nfrom irene import __version__, types\nfrom .models import cost\n",
            "cli/__init__.py": "from .train import train\n",
            "cli/train.py": "from irene.serving import app\nfrom irene.training import loop\n",
        },
    )
    result = check(package)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("name", "text", "line", "reason"),
    [
        ("types.py", "import os\nfrom irene.cascade import Cascade\n", 2, "types imports cascade"),
        ("types.py", "import irene.cli.train\n", 1, "types imports cli"),
        ("bank.py", "def f():\n    from irene.training.loop import fit\n", 2, "bank imports training"),
        (
            "bank.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from irene import runtime\n",
            3,
            "bank imports runtime",
        ),
        ("halting/maths.py", "from ..bank import Bank\n", 1, "halting imports bank"),
        ("halting/__init__.py", "from .. import evaluation\n", 1, "halting imports evaluation"),
        (
            "data/loader.py",
            "import importlib\nimportlib.import_module('irene.run')\n",
            2,
            "data imports run",
        ),
        ("serving/app.py", "from irene.training import loop\n", 1, "serving imports training"),
        ("training/train.py", "from irene.evaluation import evaluate\n", 1, "training imports evaluation"),
        ("runtime/bench.py", "from irene.training import loop\n", 1, "runtime imports training"),
        ("training/loop.py", "from irene.serving import app\n", 1, "training imports serving"),
        ("cli/demo.py", "from irene import Cascade\n", 1, "cli imports Cascade, no module with a layer"),
        ("cli/demo.py", "import irene\n", 1, "cli imports the package itself"),
        ("utils.py", "import os\n", 1, "utils has no layer"),
    ],
)
def test_wrong_imports_are_named_with_file_and_line(
    tmp_path: Path, name: str, text: str, line: int, reason: str
) -> None:
    package = tree(tmp_path, {"errors.py": "", name: text})
    result = check(package)
    assert result.returncode == 1
    (violation,) = result.stdout.splitlines()
    assert violation.startswith(f"{package / name}:{line}: {reason}")


def test_every_violation_gets_a_line(tmp_path: Path) -> None:
    package = tree(
        tmp_path,
        {"errors.py": "import irene.types\nimport irene.run, irene.cli\n", "types.py": "import irene.bank\n"},
    )
    result = check(package)
    assert result.returncode == 1
    assert [line.partition(": ")[0] for line in result.stdout.splitlines()] == [
        f"{package / 'errors.py'}:2",
        f"{package / 'errors.py'}:2",
        f"{package / 'types.py'}:1",
    ]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    result = check(tmp_path / "irene")
    assert result.returncode == 1
    assert "found none" in result.stdout
