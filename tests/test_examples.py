"""The examples run, and show what they are there to show."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_every_example_has_a_test() -> None:
    tested = re.findall(r'"(\w+\.py)"', Path(__file__).read_text())
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(tested)


def test_the_unequal_cascade_is_short_and_saves_work(capsys: pytest.CaptureFixture[str]) -> None:
    path = EXAMPLES / "unequal_sklearn.py"
    assert sum(bool(line.strip()) for line in path.read_text().splitlines()) < 20
    seen = runpy.run_path(str(path), run_name="__main__")
    printed = re.findall(r"(\d+\.\d)% right, \d+\.\d ms", capsys.readouterr().out)
    assert len(printed) == 2
    whole, cascade = (seen[name].predict(seen["x_test"]) for name in ("whole", "cascade"))
    assert float(cascade.cost.mean()) < 1.5 < float(whole.cost.mean())
    lost = (whole.labels.numpy() == seen["y_test"]) & (cascade.labels.numpy() != seen["y_test"])
    assert lost.mean() <= 0.02


def test_a_small_network_before_a_large_one_is_as_accurate_and_mostly_enough(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = runpy.run_path(str(EXAMPLES / "small_before_large.py"), run_name="__main__")
    assert re.search(r"cascade: +\d+\.\d% right, \d+\.\d\d of its time", capsys.readouterr().out)
    assert float(seen["prediction"].members_used.float().mean()) < 1.3
    right = (seen["prediction"].labels == seen["y_test"]).float().mean()
    assert float(right) >= float(seen["right"]) - 0.005
