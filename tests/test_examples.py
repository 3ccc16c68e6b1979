"""Every example runs, as a user would run it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")


def test_the_unequal_cascade_is_short_and_saves_work(capsys: pytest.CaptureFixture[str]) -> None:
    path = EXAMPLES[0].with_name("unequal_sklearn.py")
    assert sum(bool(line.strip()) for line in path.read_text().splitlines()) < 20
    seen = runpy.run_path(str(path), run_name="__main__")
    printed = re.findall(r"(\d+\.\d)% right, \d+\.\d ms", capsys.readouterr().out)
    assert len(printed) == 2
    whole, cascade = (seen[name].predict(seen["x_test"]) for name in ("whole", "cascade"))
    assert float(cascade.cost.mean()) < 1.5 < float(whole.cost.mean())
    lost = (whole.labels.numpy() == seen["y_test"]) & (cascade.labels.numpy() != seen["y_test"])
    assert lost.mean() <= 0.02
