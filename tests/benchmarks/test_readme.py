"""Who reads benchmarks/README.md finds every command, and every command shown there exists with its options."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
README = (BENCHMARKS / "README.md").read_text()
SCRIPTS = [str(path.relative_to(ROOT)) for path in sorted(BENCHMARKS.rglob("*.py")) if "__main__" in path.read_text()]
COMMANDS = re.findall(r"^python (benchmarks/\S+\.py)(.*)$", README, re.MULTILINE)


def test_every_script_is_shown_in_a_command_and_has_a_line_in_a_table() -> None:
    assert set(SCRIPTS) == {script for script, _ in COMMANDS}
    for script in SCRIPTS:
        assert re.search(rf"^\| `{script.removeprefix('benchmarks/')}` \|", README, re.MULTILINE), script


@pytest.fixture
def as_if_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules of benchmarks are found only as a script that is started by itself finds them."""

    def ours() -> dict[str, object]:
        return {
            name: module
            for name, module in list(sys.modules.items())
            if str(getattr(module, "__file__", None)).startswith(f"{BENCHMARKS}/")
        }

    before = ours()
    for name in before:
        del sys.modules[name]
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if not folder.startswith(str(BENCHMARKS))])
    yield
    for name in ours():
        del sys.modules[name]
    sys.modules.update(before)


@pytest.mark.usefixtures("as_if_alone")
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_command_has_help_and_the_options_that_are_shown(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "torchensemble" in script and find_spec("torchensemble") is None:
        pytest.skip("torchensemble is an extra")
    path = ROOT / script
    monkeypatch.syspath_prepend(path.parent)
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(path), run_name="__main__")
    assert not end.value.code
    offered = set(re.findall(r"--[a-z-]+", capsys.readouterr().out.partition("options:")[2]))
    shown = {flag for name, rest in COMMANDS if name == script for flag in re.findall(r"--[a-z-]+", rest)}
    assert shown <= offered


def test_the_tree_shows_files_and_folders_there_are() -> None:
    tree = README.split("```")[1]
    named = set(re.findall(r"[\w.]+\.(?:py|json)\b", tree)) | set(re.findall(r"(\w+)/ ", tree))
    assert named <= {path.name for path in BENCHMARKS.rglob("*")}
    assert {path.name for path in BENCHMARKS.glob("*.py")} <= named
    assert {path.name for path in (BENCHMARKS / "paper").glob("*.py")} <= named
