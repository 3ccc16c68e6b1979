"""What docs/predict.md tells people to type works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from irene.cli import main

PAGE = (Path(__file__).parents[1] / "docs/predict.md").read_text()


def test_the_example_prints_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    python, commands, shown = re.findall(r"```(?:python|text|)\n(.*?)```", PAGE.split("## An example")[1], re.DOTALL)
    exec(python, {})
    for command in commands.splitlines():
        capsys.readouterr()
        assert main(shlex.split(command)[1:]) == 0
    printed = capsys.readouterr()
    (*_, warning) = re.findall(r"`('.*? training)`", PAGE)
    assert warning in printed.err
    head, *lines = shown.splitlines()
    found = printed.out.splitlines()
    assert found[0] == head
    # How probable, and how many members that takes, depends on the machine that trains.
    assert [line.split(",")[:2] for line in found[1:]] == [line.split(",")[:2] for line in lines]
    assert found[1].split(",")[3] == "oak"
