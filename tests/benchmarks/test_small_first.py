"""Cascades of small members before large ones: whose members they are, how they were trained, and what is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from comparison import joined
from names import DISTILLED, INDEPENDENT, title, trained
from pages import headline_figure, pictures, short_tables, tables
from pages.rows import best_cascades, networks
from replay import small_first
from replay.answers import Answers, At
from replay.packed import Packed, Study
from replay.searched import pools
from replay.small_first import Part, SmallFirst
from replay.taught import one_by_one, taught

from irene.bank import Bank
from irene.halting.policies import Margin
from irene.run import Run

R18 = ["resnet18"] * 3


def kind(cascade: SmallFirst) -> tuple[str, list[tuple[str, int]], list[int]]:
    parts = [(part.backbone, part.count) for part in cascade.parts[0]]
    return cascade.training, parts, [some[0].run.seed for some in cascade.parts]


def test_small_members_come_first_in_a_cascade_of_two_banks(lifelike_bank: Callable[..., Bank]) -> None:
    small, large = (lifelike_bank(20, flops=(work,) * 3, seed=seed) for seed, work in ((0, 1.0), (1, 8.0)))
    both = joined(small.members([0]), large.members([0, 1]))
    assert [cost.flops for cost in both.costs] == [1e6, 8e6, 8e6]
    assert torch.equal(both.outputs[:, 0], small.outputs[:, 0])
    assert torch.equal(both.outputs[:, 1:], large.outputs[:, :2])
    with pytest.raises(SystemExit, match="other samples"):
        joined(small, large.rows(torch.arange(19, -1, -1)))


def test_cascades_are_of_independent_members_and_of_distillations(study: Study) -> None:
    assert [kind(one) for one in small_first.small_first(study)] == [
        *((INDEPENDENT, [("resnet32", few), ("resnet18", many)], [0, 1]) for few, many in small_first.COUNTS),
        (DISTILLED, [("resnet32", 2), ("resnet18", 3)], [0, 1]),
        (DISTILLED, [("vgg8", 1), ("resnet18", 3)], [0, 1]),
        (DISTILLED, [("resnet32", 2), ("vgg8", 1), ("resnet18", 3)], [0, 1]),
    ]
    assert [one.whole_run for one in small_first.small_first(study)] == [False] * 5 + [True]


def test_independent_cascades_are_of_seeds_that_there_are_small_and_large_networks_of(study: Study) -> None:
    fewer = Study([run for run in study.runs if (run.setting.backbone, run.seed) != ("resnet18", 0)])
    seeds = {one.training: kind(one)[2] for one in small_first.small_first(fewer)}
    assert seeds == {INDEPENDENT: [1], DISTILLED: [0, 1]}, "who was taught has large ones of the same run"
    plain = Study([run for run in study.runs if run.method == "average"])
    assert {one.training for one in small_first.small_first(plain)} == {INDEPENDENT}


def test_those_who_were_taught_for_longer_are_cascades_of_their_own(
    study: Study, tmp_path: Path, make_run: Callable[..., Run]
) -> None:
    run = next(run for run in study.runs if run.method == "distil" and run.seed == 1)
    banks = {split: run.bank(split) for split in ("heldout", "test")}
    own = {"taught_epochs": 240, "mixed": True}
    long = Packed.open(make_run(tmp_path / "long", banks, "distil", 7, own, run.backbones).path)
    assert long.label == "distil for 240 epochs on mixtures"
    both = Study([*study.runs, long])
    trainings = {one.training: kind(one)[2] for one in small_first.small_first(both) if one.whole_run}
    assert trainings == {DISTILLED: [0, 1], "distilled for 240 epochs on mixtures": [7]}
    distilled = [run for run in both.runs if run.method == "distil"]
    assert {(one["training"], one["seeds"]) for one in taught(map(one_by_one, distilled))} == {
        (DISTILLED, 2),
        ("distilled for 240 epochs on mixtures", 1),
    }
    assert [pool.training for pool in pools(both)][-1] == "distilled for 240 epochs on mixtures"
    assert trained("distilled for 240 epochs") == "small members distilled for 240 epochs"


def test_those_who_were_taught_by_warm_started_members_are_told_apart(
    study: Study, tmp_path: Path, make_run: Callable[..., Run]
) -> None:
    run = next(run for run in study.runs if run.method == "distil" and run.seed == 1)
    banks = {split: run.bank(split) for split in ("heldout", "test")}
    own = {"taught_epochs": 120, "later": "go-on"}
    other = Packed.open(make_run(tmp_path / "other", banks, "distil", 7, own, run.backbones).path)
    assert other.taught == "distilled for 120 epochs warm-started"
    assert trained(other.taught) == "small members distilled for 120 epochs, large ones warm-started"
    assert other.taught in {one.training for one in small_first.small_first(Study([*study.runs, other]))}


@pytest.mark.parametrize(
    ("small", "members"),
    [(["vgg8"], [2, 3, 4, 5]), (["resnet32"] * 2, [0, 1, 3, 4, 5]), (["resnet32", "resnet32", "vgg8"], range(6))],
)
def test_a_distilled_cascade_has_the_members_of_its_run(study: Study, small: list[str], members: Sequence[int]) -> None:
    cascade = next(
        one
        for one in small_first.small_first(study)
        if (one.training, one.members) == (DISTILLED, [*small, *["resnet18"] * 3])
    )
    runs = {run.seed: run for run in study.runs if run.method == "distil"}
    for seed, banks in enumerate(cascade.banks()):
        for split, bank in zip(("heldout", "test"), banks, strict=True):
            assert torch.equal(bank.outputs, runs[seed].bank(split).outputs[:, list(members)])
            assert [cost.flops for cost in bank.costs[-3:]] == [1e6] * 3


def test_a_cascade_is_looked_at_where_its_first_member_can_be_paid_for(
    tmp_path: Path,
    lifelike_bank: Callable[..., Bank],
    make_run: Callable[..., Run],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(small_first, "COSTS", (0.2, 0.5, 1.0))
    monkeypatch.setattr(small_first, "selector_fitter", lambda cost: lambda *_: Margin())
    pair = []
    for name, work, count in (("small", 0.25, 1), ("large", 1.0, 3)):
        banks = {split: lifelike_bank(200, flops=(work,) * 3, seed=len(split)) for split in ("heldout", "test")}
        run = Packed.open(make_run(tmp_path / name, banks, "average", 4).path)
        pair.append(Part(run, "cnn", count))
    cascade = SmallFirst(pair[1].run.setting, INDEPENDENT, [(pair[0], pair[1])])
    found = small_first.at_every_cost([Answers.unpacked(small_first.answers_of(cascade))])
    assert (found["seeds"], found["which_seeds"], found["small_flops"]) == (1, [4], 0.25)
    assert found["members"] == ["cnn"] * 4
    assert found["training"] == INDEPENDENT
    large = pair[1].bank("test")
    right = large.outputs[:, :, 0].softmax(2).mean(1).argmax(1) == large.targets
    assert found["large"] == pytest.approx(float(right.double().mean()))
    assert [list(points) for points in found["policies"].values()] == [["0.5", "1"]] * 4
    assert found["policies"]["selector"] == found["policies"]["margin"]


def test_small_members_that_look_again_run_right_after_their_first_look(
    study: Study, tmp_path: Path, make_run: Callable[..., Run], lifelike_bank: Callable[..., Bank]
) -> None:
    run = next(run for run in study.runs if run.method == "distil" and run.seed == 1)
    banks = {split: run.bank(split) for split in ("heldout", "test")}
    banks |= {f"{split}-mirrored": run.bank(split).members([2, 1, 0]) for split in ("heldout", "test")}  # told apart
    seen = Packed.open(make_run(tmp_path / "seen", banks, "distil", 7, {}, run.backbones).path)
    *others, twice = small_first.small_first(Study([seen]))
    assert [one.whole_run for one in others] == [False, False, True]
    again = ["resnet32-mirrored"] * 2
    assert twice.members == ["resnet32"] * 2 + again + ["vgg8", "vgg8-mirrored"] + R18
    ((_, test),) = twice.banks()
    assert torch.equal(test.outputs[:, 2:4], banks["test"].outputs[:, [2, 1]])
    assert torch.equal(test.outputs[:, 5], banks["test"].outputs[:, 0])
    assert [title(name) for name in twice.members[2:5]] == ["ResNet-32 again, mirrored"] * 2 + ["VGG-8"]
    assert [pool.members for pool in pools(Study([seen]))] == [run.backbones, twice.members], "and may be chosen"


def test_seeds_that_were_looked_at_apart_make_one_cascade(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_first, "COSTS", (0.3, 0.7))
    monkeypatch.setattr(small_first, "selector_fitter", lambda cost: lambda *_: Margin())
    cascades = small_first.of_one_seed(one for one in small_first.small_first(study) if one.whole_run)
    apart = [Answers.unpacked(small_first.answers_of(one)) for one in reversed(cascades)]
    other = Answers({**apart[0].about, "training": INDEPENDENT}, apart[0].right)
    of_a_run = Answers({"name": "run", "seed": 0, "setting": {}}, apart[0].right)
    both, alone = small_first.of_all_seeds([*apart, other, of_a_run])
    assert [one.seed for one in both] == [0, 1]
    assert alone == [other]
    found = small_first.at_every_cost(both)
    assert (found["seeds"], found["which_seeds"], found["training"]) == (2, [0, 1], DISTILLED)
    for cost in ("0.3", "0.7"):
        each = [one.right[At("cost-to-go", float(cost))].mean() for one in apart]
        assert found["policies"]["cost-to-go"][cost]["accuracy"] == pytest.approx(float(sum(each)) / 2)
    assert found["whole"] == pytest.approx(sum(one.about["whole"] for one in apart) / 2)
    assert len({one.about["name"] for one in apart}) == 2


def entry(training: str, small: list[str], accuracy: float = 0.94, **changes: Any) -> dict[str, Any]:
    """A cascade as results.json has it."""
    point = {"accuracy": accuracy, "low": accuracy - 0.01, "high": accuracy + 0.01, "gain": [0.2, 0.1, 0.3]}
    linear = {**point, "accuracy": accuracy - 0.001}
    policies = {"margin": {"0.5": point}, "cost-to-go": {"0.5": linear}, "selector": {"0.5": point}}
    about = {"dataset": "cifar10", "epochs": 60, "members": small + R18, "training": training, "whole_run": False}
    figures = {"small_flops": 0.124, "whole": 0.95, "large": 0.945, "policies": policies}
    return {**about, "seeds": 2, "which_seeds": [0, 1], **figures, **changes}


def rows(*backbones: str) -> list[dict[str, Any]]:
    return [
        {"dataset": "cifar10", "backbone": backbone, "epochs": 60, "images": 45_000, "seed": seed, "method": method}
        | {"accuracy": accuracy + 0.01 * (seed == 2), "flops": 1e9}
        for backbone in backbones
        for seed in range(3)
        for method, accuracy in (("single", 0.935), ("average", 0.945))
    ]


CASCADES = [
    entry(DISTILLED, ["vgg8"]),
    entry(DISTILLED, ["resnet32"] * 2, 0.946, whole_run=True),
    entry(INDEPENDENT, ["resnet32"] * 2),
    entry(INDEPENDENT, ["resnet32"]),
]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("resnet18", "ResNet-18"),
        ("resnet56", "ResNet-56"),
        ("resnet18x0.5", "ResNet-18 x 0.5"),
        ("resnet18s2", "ResNet-18/2"),
        ("resnet18s2x0.5", "ResNet-18/2 x 0.5"),
        ("vgg8", "VGG-8"),
        ("cnn", "cnn"),
    ],
)
def test_networks_have_written_names(name: str, written: str) -> None:
    assert title(name) == written


def test_networks_that_a_cascade_is_compared_with_are_independent_and_of_its_seeds() -> None:
    found = networks(rows("resnet18", "resnet32"), CASCADES[1], "resnet18", "single")
    assert [(row["backbone"], row["method"], row["seed"]) for row in found] == [
        ("resnet18", "single", 0),
        ("resnet18", "single", 1),
    ]


def test_tables_show_cascades_side_by_side_and_say_how_they_were_trained() -> None:
    said = tables.cascade_tables(CASCADES, rows("resnet18", "resnet32"))
    explained, vgg8, resnet32 = said.split("\n\n### ")[0], *said.split("### ")[1:]
    assert "learned from the large ones" in explained
    assert vgg8.startswith("CIFAR-10, VGG-8 and ResNet-18, 60 epochs, 2 seeds\n")
    assert "seeds: one ResNet-18 93.50, three ResNet-18 94.50. A VGG-8" in vgg8  # no VGG-8 was trained by itself
    assert "seeds: one ResNet-32 93.50, three ResNet-32 94.50, one ResNet-18 93.50" in resnet32
    trainings = [line.split(" | ")[1] for line in resnet32.splitlines() if "| selector |" in line]
    assert trainings == [DISTILLED, INDEPENDENT, INDEPENDENT]
    assert "learned" not in tables.cascade_tables(CASCADES[2:], rows("resnet18", "resnet32"))


def test_the_headline_is_of_each_training_with_as_many_seeds() -> None:
    assert best_cascades(CASCADES, ["cifar10"]) == [[CASCADES[1]], [CASCADES[2]]]
    more = entry(INDEPENDENT, ["resnet32"] * 2, seeds=3)
    assert best_cascades([*CASCADES, more], ["cifar10"]) == [[more]]


def test_the_headline_is_drawn_of_the_longest_taught_and_of_independent_members() -> None:
    longer = entry("distilled for 240 epochs", ["resnet32"] * 2, whole_run=True)
    known = rows("resnet18")
    small = [
        {**longer, "members": [name, *R18], "whole_run": False, "small_flops": work, "backbone": name}
        | {"alone": {"accuracy": 0.9, "spread": None}}
        for name, work in (("vgg8", 0.3), ("resnet32", 0.124))
    ]
    study = {"small_first": [*CASCADES, longer, *small], "rows": known, "taught": small}
    figure = headline_figure.drawn(study, ["cifar10"])["headline.svg"]
    (axes,) = figure.axes
    taught, independent, alone = axes.get_legend_handles_labels()[0]
    assert (alone.get_label(), alone.get_xydata().tolist()) == ("vgg8 of the first, alone", [[0.3, 0.9]])
    others = pictures.headline_data(study)["cifar10"]["others"]
    assert others == {"R32, taught": (0.124e9, 0.9), "vgg8, taught": (0.3e9, 0.9)}
    for line, cascade in ((taught, longer), (independent, CASCADES[2])):
        points = cascade["policies"]["selector"]
        assert list(line.get_xdata()) == [float(cost) for cost in points]
        assert list(line.get_ydata()) == [point["accuracy"] for point in points.values()]
    marks = {text.get_text(): text.xy for text in axes.texts}
    assert marks == {"one ResNet-18": (1, 0.935), "three averaged": (3, 0.945)}
    assert headline_figure.drawn({"small_first": [], "rows": known}, ["cifar10"]) == {}


def test_the_headline_table_is_bold_where_one_large_network_is_clearly_beaten() -> None:
    points = {"0.25": {"accuracy": 0.9395, "low": 0.9345}, "0.5": {"accuracy": 0.946, "low": 0.936}}
    best = [[{**one, "policies": {"selector": points}}] for one in CASCADES[1:3]]
    study = {"rows": rows("resnet18"), "taught": [], "small_first": []}
    assert short_tables.headline(best, study).splitlines()[2:] == [
        "| one ResNet-18 | 1.00 | 93.50 |",
        "| three ResNet-18, averaged | 3.00 | 94.50 |",
        "| cascade, small members distilled | 0.25 | 93.95 |",
        "|  | 0.50 | **94.60** |",
        "| cascade, independent members | 0.25 | 93.95 |",
        "|  | 0.50 | **94.60** |",
    ]
    long = [{**row, "epochs": 200, "accuracy": 0.955} for row in rows("resnet18") if row["seed"] == 1]
    longer = short_tables.headline(best, {**study, "rows": [*study["rows"], *long]}).splitlines()[4]
    assert longer == "| one ResNet-18, 200 epochs (one seed) | 1.00 | 95.50 |"


def test_the_headline_begins_with_who_was_taught_longest_on_all_data_sets() -> None:
    longer = entry("distilled for 240 epochs", ["resnet32"] * 2, whole_run=True)
    assert best_cascades([*CASCADES, longer], ["cifar10"])[0] == [longer]
    fewer = {**longer, "seeds": 1}
    assert best_cascades([*CASCADES, fewer], ["cifar10"])[0] == [CASCADES[1]]
    other = [{**one, "dataset": "cifar100"} for one in CASCADES]
    assert best_cascades([*CASCADES, *other, longer], ["cifar10", "cifar100"])[0] == [CASCADES[1], other[1]]


def test_the_figure_has_a_line_for_each_cascade_by_its_training() -> None:
    data = pictures.headline_data({"taught": [], "small_first": CASCADES, "rows": rows("resnet18", "resnet32")})[
        "cifar10"
    ]
    assert list(data["networks"]) == ["ResNet-32", "ResNet-18"]
    (axes,) = pictures.small_first(data).axes
    lines = {str(line.get_label()): line for line in axes.get_lines()}
    two = "R32, R32, R18, R18, R18"
    styles = {name: line.get_linestyle() for name, line in lines.items() if name.startswith(two)}
    assert styles == {
        f"{two}: small members distilled, 2 seeds": "--",
        f"{two}: independent members, 2 seeds": "-",
    }
    assert len({lines[name].get_color() for name in styles}) == 1
    assert len(lines) == 4, "two cascades and two kinds of networks"


def test_the_figure_leaves_out_fewer_seeds_of_the_same_members() -> None:
    fewer = {**CASCADES[1], "training": "distilled for 240 epochs", "seeds": 1}
    cascades = [*CASCADES, fewer]
    data = pictures.headline_data({"taught": [], "small_first": cascades, "rows": rows("resnet18", "resnet32")})[
        "cifar10"
    ]
    assert {one["training"] for one in data["cascades"]} == {DISTILLED, INDEPENDENT}
    alone = pictures.headline_data({"taught": [], "small_first": [fewer], "rows": rows("resnet18", "resnet32")})[
        "cifar10"
    ]
    assert alone["cascades"] == [fewer]


def test_the_figure_has_members_alone_that_were_trained_so_too() -> None:
    alone = [row for row in rows("resnet32") if row["method"] == "single"]
    data = pictures.headline_data({"taught": [], "small_first": CASCADES, "rows": [*rows("resnet18"), *alone]})[
        "cifar10"
    ]
    assert list(data["others"]) == ["R32"]
    assert list(data["networks"]) == ["ResNet-18"]


def test_the_figure_has_single_networks_of_other_sizes_and_mimo_of_as_many_epochs() -> None:
    others = [{**row, "backbone": "resnet20"} for row in rows("resnet32") if row["method"] == "single"]
    mimo = [{**row, "method": "mimo", "flops": 1.1e9} for row in rows("resnet18") if row["method"] == "single"]
    thin = [{**row, "backbone": "resnet32", "flops": 1e8} for row in mimo]
    shorter = [{**row, "epochs": 30, "backbone": "resnet56"} for row in others]
    study = {
        "taught": [],
        "small_first": CASCADES,
        "rows": [*rows("resnet18", "resnet32"), *others, *mimo, *thin, *shorter],
    }
    data = pictures.headline_data(study)["cifar10"]
    accuracy = pytest.approx(0.935 + 0.01 / 3)
    assert data["others"] == {
        "R20": (1e9, accuracy),
        "MIMO R18": (pytest.approx(1.1e9), accuracy),
        "MIMO R32": (pytest.approx(1e8), accuracy),
    }
    (axes,) = pictures.small_first(data).axes
    assert {text.get_text() for text in axes.texts} == set(data["others"])
