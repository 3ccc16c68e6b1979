from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from irene.errors import OptionError
from irene.run import Run
from irene.training.methods.dive2 import Dive2Options

Trainer = Callable[..., Run]


def members_a_sample(run: Run) -> list[float]:
    lines = map(json.loads, (run.path / "metrics.jsonl").read_text().splitlines())
    return [line["members_a_sample"] for line in lines if line["stage"] == "members"]


def test_the_curriculum_goes_from_half_of_the_samples_each_to_two_of_three_members_each(trainer: Trainer) -> None:
    seen = members_a_sample(trainer("dive2", epochs=5))
    assert seen[0] == pytest.approx(1.5, abs=0.01)  # three members with half of the samples each
    assert seen[-1] == pytest.approx(2.0)  # every sample has two members


def test_the_curriculum_is_an_option(trainer: Trainer) -> None:
    options = Dive2Options(models=(1, 2), samples=(0.2, 1.0))
    seen = members_a_sample(trainer("dive2", epochs=3, options=options))
    assert seen == pytest.approx([0.6, 1.8, 2.0], abs=0.01)  # the first two are all that three members may take


def test_a_single_member_learns_from_all_samples_in_the_end(trainer: Trainer) -> None:
    run = trainer("dive2", members=1)
    assert members_a_sample(run)[-1] == 1.0
    assert run.figures["test"]["accuracy"] > 0.8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"models": (0, 1)}, "at least 1 member"),
        ({"samples": (0.0, 1.0)}, "share of samples"),
        ({"samples": (0.5, 1.1 + 0.2)}, r"share of samples above 0 and up to 1, got 0.5, 1\.3$"),
        ({"inter": (0.0, -1.0)}, "diversity weights must be at least 0, got 1, 0 for intra and 0, -1 for inter"),
    ],
)
def test_refuses_what_cannot_work(settings: dict[str, tuple[float, float]], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Dive2Options(**settings)
