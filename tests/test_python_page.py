"""The page of the Python API names everything public, and its snippets run."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import irene
from irene.models import MemberSpec, build

PAGE = (Path(__file__).parents[1] / "docs/python.md").read_text()


@pytest.mark.parametrize("name", irene.__all__)
def test_every_public_name_is_explained(name: str) -> None:
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    assert re.search(rf"`{name}\b", prose)


def test_the_snippets_run_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    assert torch.equal(names["same"].outputs, names["bank"].outputs)
    assert torch.equal(names["same"].targets, names["bank"].targets)
    assert names["point"].expected["cost"] == pytest.approx(1.3, abs=0.02)
    assert "a mean cost of 5 members cannot be met" in capsys.readouterr().out


def test_the_backbone_of_the_page_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```python\n(# mynet\.py\n.*?)```", PAGE, re.DOTALL)
    (tmp_path / "mynet.py").write_text(block)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for shape in ((1, 8, 8), (5,)):
        member = build(MemberSpec(backbone="mynet:net", shape=shape, outputs=3), seed=0)
        assert member(torch.zeros(2, *shape)).shape == (2, 1, 3)
