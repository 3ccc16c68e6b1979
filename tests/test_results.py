from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from irene.halting.registry import POLICIES

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks/paper"))
import figures

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("script", ["benchmarks/paper/write.py", "benchmarks/write_engine.py"])
def test_the_documents_say_what_the_committed_figures_say(script: str) -> None:
    done = subprocess.run([sys.executable, script, "--check"], check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def pictures() -> dict[str, Figure]:
    return figures.drawn()


def test_every_figure_is_drawn_from_committed_numbers_and_shown(pictures: dict[str, Figure]) -> None:
    drawn = set(pictures)
    assert drawn == {path.name for path in (ROOT / "docs/figures").glob("*.svg")}
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("results*.md"))
    assert drawn == set(re.findall(r"\(figures/(.*?)\)", pages))


def test_no_legend_is_cut_off(pictures: dict[str, Figure]) -> None:
    for name, figure in pictures.items():
        FigureCanvasAgg(figure).draw()
        for legend in filter(None, [*figure.legends, *(axes.get_legend() for axes in figure.axes)]):
            around, box = figure.bbox, legend.get_window_extent()
            assert around.x0 <= box.x0 < box.x1 <= around.x1, name
            assert around.y0 <= box.y0 < box.y1 <= around.y1, name


def test_committed_numbers_name_no_folder_of_the_machine_they_were_collected_on() -> None:
    for name in ("results.json", "figures.json"):
        text = (ROOT / "benchmarks/paper" / name).read_text()
        json.loads(text)
        assert not re.search(r'"/', text)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_is_explained(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs/calibrate.md").read_text().partition("## The policies")[2].partition("\n## ")[0]
