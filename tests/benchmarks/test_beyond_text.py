"""The results page says of corrupted images and promises what the JSON file says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pages import beyond_text

FOUND = Path(__file__).parents[2] / "benchmarks/results/beyond.json"


@pytest.fixture
def found() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(FOUND.read_text())
    return loaded


def test_every_kind_of_image_has_a_line(found: dict[str, Any]) -> None:
    for about in found.values():
        table = beyond_text.corruption_table(about).splitlines()
        assert [line.split(" (")[0].removeprefix("| ") for line in table[2:]] == list(beyond_text.SETS)
        assert len({line.count("|") for line in table}) == 1


def test_the_learned_policy_is_the_runs_own_or_one_fitted_on_their_members(found: dict[str, Any]) -> None:
    about = found["cifar10-resnet18-irene-e30"]
    assert "IRENE's selector over margin" in beyond_text.corruption_table(about)
    for here in about["sets"].values():
        for policies in here["asked"].values():
            del policies["own selector"]
    assert "| selector over margin, same cost |" in beyond_text.corruption_table(about)


def test_kept_risks_on_fresh_splits_are_counted_over_policies_and_wishes(found: dict[str, Any]) -> None:
    about = found["cifar10-resnet18-irene-e30"]
    for rows in about["promises on fresh splits"]["policies"].values():
        for row in rows:
            row |= {"kept": 2 if "risk" in row["wish"] else 1, "calibrations": 5, "refused": 1}
    kept = {kind: beyond_text.kept(beyond_text.fresh_rows(about, kind)) for kind in ("risk", "max_drop")}
    assert kept == {"risk": "12 of 24", "max_drop": "6 of 24"}  # three policies, two wishes of each kind


def test_promises_under_corruption_are_counted_apart() -> None:
    def row(risk: float, kept: int) -> dict[str, Any]:
        return {"wish": {"risk": risk}, "kept": kept, "calibrations": 3, "refused": 1}

    drop = {"clean": {"wish": {"max_drop": 0.01}}, "blur-1": {"wish": {"max_drop": 0.01}}}
    strict = {"clean": row(0.005, 2), "blur-1": row(0.005, 0)}
    mild = {"clean": row(0.01, 1), "blur-1": row(0.01, 1), "noise-2": row(0.01, 0)}
    promised = {"0.5%": {"margin": strict}, "1%": {"margin": mild}, "drop": {"margin": drop}}
    clean, corrupted = beyond_text.held_out_rows({"promises on held-out samples": promised})
    assert (beyond_text.kept(clean), beyond_text.kept(corrupted)) == ("3 of 4", "1 of 6")


def test_without_splits_nothing_is_said_of_promises(found: dict[str, Any]) -> None:
    for about in found.values():
        del about["promises on fresh splits"]
        assert beyond_text.fresh_rows(about, "risk") == []
    assert "Promises" not in beyond_text.section(found)
