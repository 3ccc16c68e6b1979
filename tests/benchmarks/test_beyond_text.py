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


def test_of_wrong_labels_gains_on_clean_images_are_told_too(found: dict[str, Any]) -> None:
    about = found["cifar10-resnet18-irene-e30"]
    for here in about["sets"]["clean"]["asked"].values():
        here["own selector"]["gain at the same cost"] = [0.5, 0.25, 0.75]
    clean = "**+0.50 [+0.25, +0.75]**"
    for slug, told in (("cifar10-resnet18-irene-e30", False), ("cifar10-noise20-resnet18-irene-e30", True)):
        for said in (beyond_text.sentence(slug, about), beyond_text.in_short(slug, about)):
            assert (clean in said) == told
            assert ("20 % wrong labels" in said) == told


def test_kept_promises_are_counted_over_policies_and_wishes(found: dict[str, Any]) -> None:
    slug = "cifar10-resnet18-irene-e30"
    for rows in found[slug]["promises on fresh splits"]["policies"].values():
        for row in rows:
            row |= {"kept": 2 if "risk" in row["wish"] else 1, "calibrations": 5, "refused": 1}
    said = beyond_text.promises_on_fresh_splits(slug, found[slug])  # three policies, two wishes of each kind
    assert "kept in 12 of 24 calibrations" in said
    assert said.endswith("kept in 6 of 24.")


def test_promises_under_corruption_are_counted_apart() -> None:
    def row(risk: float, kept: int, realised: float) -> dict[str, Any]:
        return {"wish": {"risk": risk}, "kept": kept, "calibrations": 3, "refused": 1, "realised": realised}

    drop = {"clean": {"wish": {"max_drop": 0.01}}, "blur-1": {"wish": {"max_drop": 0.01}}}
    strict = {"clean": row(0.005, 2, 0.004), "blur-1": row(0.005, 0, 0.02)}
    mild = {"clean": row(0.01, 1, 0.009), "blur-1": row(0.01, 1, 0.03), "noise-2": row(0.01, 0, 0.011)}
    said = beyond_text.promises_made({"0.5%": {"margin": strict}, "1%": {"margin": mild}, "drop": {"margin": drop}})
    assert "kept in 3 of 4 cases on clean test images and in 1 of 6 on corrupted ones" in said
    assert "up to 2.00% there, where 0.50% was asked for" in said  # four times as much, and not three times


def test_without_splits_nothing_is_said_of_promises(found: dict[str, Any]) -> None:
    for about in found.values():
        del about["promises on fresh splits"]
    assert "fresh splits" not in " ".join(beyond_text.sentences(found))
    assert "Promises" not in beyond_text.section(found)
