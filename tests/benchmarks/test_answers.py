"""What runs answer right stays as it was found, in little space."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from replay import answers
from replay.against import COSTS, Known, threshold_curve
from replay.answers import Answers, At
from replay.packed import Packed

PAPER = Path(answers.__file__).parents[1]


def some(name: str = "a", seed: int = 0, count: int = 10_000) -> Answers:
    generator = torch.Generator().manual_seed(seed)
    sure_N = (torch.rand(count, generator=generator) < 0.95).double()
    near_N = sure_N.clone()
    near_N[:50] = 1 - near_N[:50]
    shared_N = 0.3 * sure_N + 0.7 * near_N  # two thresholds share a cost
    return Answers(
        {"name": name, "seed": seed}, {At("own", 1.05): sure_N, At("own", 2.0): near_N, At("margin", 1.05): shared_N}
    )


def test_answers_are_exactly_those_that_were_packed_and_take_little() -> None:
    one = some()
    text = json.dumps(one.packed())
    again = Answers.unpacked(json.loads(text))
    assert again.about == one.about
    assert again.seed == 0
    assert again.right.keys() == one.right.keys()
    for at, right_N in one.right.items():
        assert torch.equal(again.right[at], right_N)
    assert len(text) < 10_000, "less than a byte a sample, for three policies"


def test_what_is_found_again_replaces_what_was_kept(tmp_path: Path) -> None:
    folder = tmp_path / "answers"
    assert answers.kept(folder) == []
    answers.keep([some("b").packed(), some("a", 1).packed()], folder)
    answers.keep([some("b", 7).packed()], folder)
    assert [(one.about["name"], one.seed) for one in answers.kept(folder)] == [("a", 1), ("b", 7)]


@pytest.mark.parametrize("seed", [0, 2])
def test_the_committed_answers_are_those_of_the_committed_banks(seed: int) -> None:
    run = Packed.open(PAPER / f"banks/cifar10-resnet32-average-s{seed}-e30")
    known = Known.of(answers.kept())
    (found,) = [one for one in known.runs if one.about["name"] == run.name]
    assert (found.about["label"], found.seed) == ("average", seed)
    curve = threshold_curve(run, "margin")
    for cost in COSTS:
        assert float(found.right[At("margin", cost)].mean()) == pytest.approx(float(curve.quality_at(cost).mean()))
