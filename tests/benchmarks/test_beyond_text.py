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


def test_gains_are_told_on_clean_and_on_corrupted_images(found: dict[str, Any]) -> None:
    slug = "cifar10-noise20-resnet18-irene-e30"
    for name, values in (("clean", [0.5, 0.25, 0.75]), ("all corruptions", [-0.5, -0.75, 0.25])):
        for here in found[slug]["sets"][name]["asked"].values():
            here["own selector"]["gain at the same cost"] = values
    said = beyond_text.sentence(slug, found[slug])
    clean, corrupted = (", ".join([one] * 3) for one in ("**+0.50 [+0.25, +0.75]**", "-0.50 [-0.75, +0.25]"))
    assert said.startswith("**CIFAR-10 with 20 % wrong labels, ResNet-18, irene, 30 epochs** (3 seeds): cost 1.30 on")
    assert f"IRENE's selector gains, asked for 1.1, 1.3, 1.5: {clean} on clean images, {corrupted} on corrupted" in said


@pytest.mark.parametrize(("low", "clear"), [(0.1, 1), (-0.1, 0)])
def test_in_short_counts_what_is_clearly_ahead_and_what_was_kept(low: float, clear: int, found: dict[str, Any]) -> None:
    for number, about in enumerate(found.values()):
        point = about["sets"]["all corruptions"]["asked"]["1.3"][beyond_text.learned(about)]
        point["gain at the same cost"] = [0.1 * number, low if number == 1 else -1.0, 1.0]
    said = beyond_text.in_short(found)
    where = " (with wrong labels)" * clear  # the second and the third are of such
    assert f"On corrupted images, at 1.3, it gains +0.00 to +0.20, clearly in {clear} of 3{where}." in said
    fresh, corrupted = (
        [row for about in found.values() for row in rows(about)]
        for rows in (
            lambda about: beyond_text.fresh_rows(about, "risk"),
            lambda about: beyond_text.held_out_rows(about)[1],
        )
    )
    told = f"in {beyond_text.kept(fresh)} cases, on corrupted images in {beyond_text.kept(corrupted)}."
    assert said.endswith(f"Promised risks are kept {told}")


def test_in_short_says_nothing_of_wrong_labels_where_others_are_ahead_too(found: dict[str, Any]) -> None:
    for about in found.values():
        about["sets"]["all corruptions"]["asked"]["1.3"][beyond_text.learned(about)] = {
            "gain at the same cost": [0.1, 0.05, 0.2]
        }
    assert "clearly in 3 of 3. " in beyond_text.in_short(found)


def test_kept_promises_are_counted_over_policies_and_wishes(found: dict[str, Any]) -> None:
    about = found["cifar10-resnet18-irene-e30"]
    for rows in about["promises on fresh splits"]["policies"].values():
        for row in rows:
            row |= {"kept": 2 if "risk" in row["wish"] else 1, "calibrations": 5, "refused": 1}
    said = beyond_text.promises(about)  # three policies, two wishes of each kind
    assert said.startswith("Promised risks kept: 12 of 24 on fresh splits, at 90%, ")
    assert said.endswith("Largest drops kept: 6 of 24 on fresh splits.")


def test_promises_under_corruption_are_counted_apart() -> None:
    def row(risk: float, kept: int, realised: float) -> dict[str, Any]:
        return {"wish": {"risk": risk}, "kept": kept, "calibrations": 3, "refused": 1, "realised": realised}

    drop = {"clean": {"wish": {"max_drop": 0.01}}, "blur-1": {"wish": {"max_drop": 0.01}}}
    strict = {"clean": row(0.005, 2, 0.004), "blur-1": row(0.005, 0, 0.02)}
    mild = {"clean": row(0.01, 1, 0.009), "blur-1": row(0.01, 1, 0.03), "noise-2": row(0.01, 0, 0.011)}
    promised = {"0.5%": {"margin": strict}, "1%": {"margin": mild}, "drop": {"margin": drop}}
    said = beyond_text.promises({"promises on held-out samples": promised})
    assert "kept: 3 of 4 on clean test images and 1 of 6 on corrupted ones" in said
    assert said.endswith("at worst 2.00% where 0.50% was asked for.")  # four times as much, and not three times


def test_without_splits_nothing_is_said_of_promises(found: dict[str, Any]) -> None:
    for about in found.values():
        del about["promises on fresh splits"]
    assert "fresh splits" not in " ".join(beyond_text.sentences(found))
    assert "Promises" not in beyond_text.section(found)
