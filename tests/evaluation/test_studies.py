"""What studies measure, against loops over the same banks, and that they can be drawn."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from irene import metrics
from irene.data import Data
from irene.errors import OptionError, RunError
from irene.evaluation.studies import STUDIES, find_study
from irene.evaluation.studies.members import smallest
from irene.evaluation.studies.study import write_study
from irene.halting.policies import Confidence
from irene.run import Run
from irene.training.methods.irene import IreneOptions
from irene.training.methods.woc import choose_threshold
from irene.training.options import LoopOptions
from irene.training.train import TrainOptions, train

LOOP = LoopOptions(epochs=3, batch_size=32)
ASKED = {  # the runs of each study
    "members": ("average-4",),
    "pareto": ("average-3", "irene-3"),
    "size": ("average-4", "fge", "snapshot", "irene-2", "irene-3"),
    "ablation": ("average-3", "irene-3", "irene-rank", "irene-selector"),
    "curves": ("irene-3",),
}


@pytest.fixture(scope="module")
def studied(blobs: Data, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Two seeds of what the studies look at, smaller than they would train it."""
    folder = tmp_path_factory.mktemp("studied")
    found = []
    for seed in range(2):
        for name, method, members, own in (
            ("average-3", "average", 3, None),
            ("average-4", "average", 4, None),
            ("fge", "fge", 3, None),
            ("snapshot-2", "snapshot", 2, None),
            ("snapshot-3", "snapshot", 3, None),
            ("irene-2", "irene", 2, None),
            ("irene-3", "irene", 3, None),
            ("irene-rank", "irene", 3, IreneOptions(without=("rank",))),
            ("irene-selector", "irene", 3, IreneOptions(without=("selector",))),
        ):
            options = TrainOptions(members=members, seed=seed, device="cpu")
            run = train(method, blobs, folder / f"{name}-{seed}", options=options, loop=LOOP, method_options=own)
            found.append(run)
    return found


def of(runs: list[Run], *names: str) -> list[Run]:
    return [run for run in runs if run.path.name.startswith(names)]


def chosen(runs: list[Run], study: str) -> list[Run]:
    return of(runs, *ASKED[study])


def told(run: Run, *, fingerprint: str | None = None, epochs: int | None = None, **about: Any) -> Run:
    """The same run, whose manifest says something else."""
    data, options = run.manifest["data"], run.manifest["options"]
    if fingerprint is not None:
        about["data"] = {**data, "fingerprint": fingerprint}
    if epochs is not None:
        about["options"] = {**options, "loop": {**options["loop"], "epochs": epochs}}
    return Run(run.path, {**run.manifest, **about})


def probabilities(run: Run, members: int) -> np.ndarray:
    outputs: np.ndarray = run.bank("test").outputs[:, :members, 0].softmax(2).mean(1).numpy()
    return outputs


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_leaves_data_and_a_picture(name: str, studied: list[Run], tmp_path: Path) -> None:
    runs = chosen(studied, name)
    data, paths = write_study(find_study(name), runs, tmp_path)
    assert [path.name for path in paths] == [f"{name}.json", f"{name}.svg", f"{name}.png"]
    assert json.loads(paths[0].read_text()) == data
    assert data["study"] == name
    assert paths[1].read_text().lstrip().startswith("<?xml")
    picture = np.asarray(Image.open(paths[2]).convert("L"))
    assert picture.shape[1] == 1680
    assert (picture < 200).mean() > 0.005, "something was drawn"
    before = [path.read_bytes() for path in paths]
    write_study(find_study(name), runs, tmp_path)
    assert [path.read_bytes() for path in paths] == before


def test_members(studied: list[Run]) -> None:
    data = STUDIES["members"].measure(chosen(studied, "members"))
    runs = of(studied, "average-4")
    assert data["members"] == [1, 2, 3, 4]
    for t in range(4):
        together = [(probabilities(run, t + 1).argmax(1) == run.bank("test").targets.numpy()).mean() for run in runs]
        assert data["together"][t]["mean"] == pytest.approx(np.mean(together))
        assert data["together"][t]["spread"] == pytest.approx(np.std(together, ddof=1))
    counts = np.zeros(5)
    for run in runs:
        right = [probabilities(run, t + 1).argmax(1) == run.bank("test").targets.numpy() for t in range(4)]
        for sample in zip(*right, strict=True):
            counts[sample.index(True) if any(sample) else 4] += 1
    assert [share["mean"] for share in data["smallest"]] == pytest.approx(counts / counts.sum())


def test_the_smallest_ensemble_that_is_right() -> None:
    right_NT = torch.tensor([[1, 0, 1], [0, 0, 1], [0, 0, 0], [0, 1, 0]]).double()
    assert smallest(right_NT).argmax(1).tolist() == [0, 2, 3, 1]


def test_pareto_takes_thresholds_from_heldout_samples(studied: list[Run]) -> None:
    data = STUDIES["pareto"].measure(chosen(studied, "pareto"))
    assert data["plainest"] == "confidence (WoC)"
    assert set(data["curves"]) == {"IRENE", "confidence (WoC)", "margin, temperature", "change predictor"}
    for points in data["curves"].values():
        asked = [point["asked"] for point in points]
        assert asked[0] == 1
        assert asked == sorted(asked)
        assert all(point["low"] <= point["quality"] <= point["high"] for point in points)
        assert points[0]["cost"] < 1.2
    level = 6
    costs, rights = [], []
    for run in of(studied, "average-3"):
        heldout, test = run.bank("heldout"), run.bank("test")
        wanted = data["curves"]["confidence (WoC)"][level]["asked"]
        scores = heldout.trajectory(Confidence()).scores_NT[:, :-1].flatten()
        grid = torch.cat([scores - 1e-6, scores + 1e-6]).tolist()
        cost = {threshold: float(heldout.replay(Confidence(threshold)).cost.mean()) for threshold in grid}
        nearest = min(abs(value - wanted) for value in cost.values())
        threshold = next(key for key, value in cost.items() if abs(value - wanted) == nearest)
        prediction = test.replay(Confidence(threshold))
        costs.append(float(prediction.cost.mean()))
        rights.append(metrics.accuracy(prediction.outputs, test.targets))
    point = data["curves"]["confidence (WoC)"][level]
    assert point["cost"] == pytest.approx(np.mean(costs), abs=0.05)
    assert point["quality"] == pytest.approx(np.mean(rights), abs=0.02)
    assert data["curves"]["confidence (WoC)"][level]["gain"] == {"mean": 0.0, "low": 0.0, "high": 0.0}


def test_pareto_shows_the_interval_of_every_line_in_full() -> None:
    def line(quality: float) -> list[dict[str, Any]]:
        around = {"quality": quality, "low": quality - 0.05, "high": quality + 0.04}
        gain = {"mean": 0.0, "low": -0.01, "high": 0.01}
        return [{"asked": cost, "cost": cost, **around, "gain": gain} for cost in np.linspace(1, 3, 13)]

    names = ("IRENE", "confidence (WoC)", "margin, temperature", "change predictor")
    curves = {name: line(0.9 + index / 1000) for index, name in enumerate(names)}
    whole = [point for point in line(0.9) if point["cost"] in (1, 2, 3)]
    data = {"task": "classification", "plainest": names[1], "curves": curves, "first members": whole}
    upper, _ = STUDIES["pareto"].draw(data).axes
    bars = {str(one.get_label()): one.lines[2][0].get_segments() for one in upper.containers}
    assert {name: len(bars[name]) for name in names} == dict.fromkeys(names, 3)
    assert len({segment[0][0] for name in names for segment in bars[name]}) == 12, "none hides another"
    low, high = upper.get_ylim()
    assert all(low < end[1] < high for segments in bars.values() for segment in segments for end in segment)


def test_size_reads_nested_ensembles_off_the_largest(studied: list[Run]) -> None:
    data = STUDIES["size"].measure(chosen(studied, "size"))
    assert sorted(data["runs"]) == sorted(str(run.path) for run in chosen(studied, "size"))
    sizes = {name: [point["members"] for point in points] for name, points in data["methods"].items()}
    assert sizes == {
        "average": [1, 2, 3, 4],
        "snapshot": [2, 3],
        "fge": [1, 2, 3],
        "woc": [1, 2, 3, 4],
        "irene": [2, 3],
    }
    runs = of(studied, "average-4")
    for count in (1, 3):
        accuracy = np.mean([metrics.accuracy(probabilities(run, count), run.bank("test").targets) for run in runs])
        assert data["methods"]["average"][count - 1]["accuracy"]["mean"] == pytest.approx(accuracy)
    if data["average"] > data["single"]:
        assert data["methods"]["average"][0]["utility"] == pytest.approx(1)
        assert data["methods"]["average"][2]["utility"] == pytest.approx(1)
    costs = []
    for run in runs:
        heldout = run.bank("heldout").members(range(2))
        threshold = choose_threshold(heldout.trajectory(Confidence()), heldout.targets)
        costs.append(float(run.bank("test").members(range(2)).replay(Confidence(threshold)).cost.mean()))
    assert data["methods"]["woc"][1]["cost"]["mean"] == pytest.approx(np.mean(costs))


def test_a_smaller_woc_is_what_woc_would_train(studied: list[Run], blobs: Data, tmp_path: Path) -> None:
    options = TrainOptions(members=2, device="cpu")
    trained = train("woc", blobs, tmp_path / "woc", options=options, loop=LOOP).figures["test"]
    data = STUDIES["size"].measure(of(studied, "average-4-0"))
    assert data["methods"]["woc"][1]["accuracy"]["mean"] == pytest.approx(trained["accuracy"])
    assert data["methods"]["woc"][1]["cost"]["mean"] == pytest.approx(trained["cost"])


def test_ablation_is_against_the_whole(studied: list[Run]) -> None:
    data = STUDIES["ablation"].measure(chosen(studied, "ablation"))
    assert list(data["variants"]) == [
        *("average ensemble", "IRENE", "without the rank loss", "sequential only, no selector")
    ]
    assert data["variants"]["IRENE"]["gain"] is None
    whole, part = (
        np.mean([run.figures["test"]["accuracy"] for run in of(studied, name)]) for name in ("irene-3", "irene-rank")
    )
    assert data["variants"]["without the rank loss"]["gain"]["mean"] == pytest.approx(part - whole)
    assert data["variants"]["sequential only, no selector"]["cost"]["mean"] == 3


def test_ablation_trains_one_run_without_each_part() -> None:
    variants = STUDIES["ablation"].variants(3, {"irene": IreneOptions(cost=1.4)})
    left_out = [variant.own.without for variant in variants if variant.method == "irene"]
    assert left_out == [(), ("ensemble",), ("cost",), ("rank",), ("discrepancy",), ("joint",), ("selector",)]
    assert {variant.own.cost for variant in variants if variant.method == "irene"} == {1.4}
    assert len({variant.folder(0) for variant in variants}) == len(variants)


def test_curves_are_the_lines_of_the_metrics(studied: list[Run]) -> None:
    runs = of(studied, "irene-3")
    terms = STUDIES["curves"].measure(runs)["terms"]
    assert set(terms["base"]) == {"member 1", "member 2", "member 3"}
    assert set(terms["rank"]) == {"member 2", "member 3"}
    trained = {key for run in runs for epoch in run.epochs()["member-3"] for key in epoch}
    assert set(terms) == trained - {"stage", "epoch", "loss", "seconds", "S1", "S2", "S3"}, "no term is left out"
    expected = np.mean([run.epochs()["member-2"][1]["rank"] for run in runs])
    assert terms["rank"]["member 2"][1]["mean"] == pytest.approx(expected)
    assert len(terms["base"]["member 1"]) == LOOP.epochs


def test_regression_has_its_own_measures(regression_runs: list[Run], tmp_path: Path) -> None:
    members, _ = write_study(STUDIES["members"], regression_runs, tmp_path)
    assert "smallest" not in members
    whole = regression_runs[0].figures["test"]["rmse"]
    assert members["together"][-1]["mean"] == pytest.approx(whole)
    pareto, _ = write_study(STUDIES["pareto"], regression_runs, tmp_path)
    assert pareto["plainest"] == "spread"
    last = pareto["curves"]["spread"][-1]
    assert last["quality"] == pytest.approx(whole, rel=1e-3)
    assert last["low"] < last["quality"] < last["high"]
    ablation, _ = write_study(STUDIES["ablation"], regression_runs, tmp_path)
    assert ablation["quality"] == "rmse"
    with pytest.raises(RunError, match="utility is measured against"):
        STUDIES["size"].measure(regression_runs)


@pytest.mark.parametrize(
    ("name", "words"),
    [("pareto", "needs a run of average"), ("curves", "needs a run of irene"), ("ablation", "with all its parts")],
)
def test_runs_that_do_not_answer_the_question(name: str, words: str, studied: list[Run]) -> None:
    with pytest.raises(RunError, match=words):
        STUDIES[name].measure(of(studied, "fge"))


def test_runs_on_different_samples(studied: list[Run]) -> None:
    one, two = of(studied, "average-4")
    other = Run(two.path, {**two.manifest, "data": {**two.manifest["data"], "fingerprint": "other"}})
    with pytest.raises(RunError, match="not evaluated on the same samples"):
        STUDIES["members"].measure([one, other])


@pytest.mark.parametrize("name", ASKED)
def test_no_study_mixes_data_sets(name: str, studied: list[Run]) -> None:
    *runs, last = chosen(studied, name)
    with pytest.raises(RunError, match="not evaluated on the same samples: compare runs of one data set"):
        STUDIES[name].measure([*runs, told(last, fingerprint="other")])


def test_pareto_does_not_mix_data_sets_of_two_methods(studied: list[Run]) -> None:
    others = [told(run, fingerprint="other") for run in of(studied, "irene-3")]
    with pytest.raises(RunError, match="not evaluated on the same samples"):
        STUDIES["pareto"].measure([*of(studied, "average-3"), *others])


@pytest.mark.parametrize("name", ASKED)
def test_a_run_given_twice_is_not_two_seeds(name: str, studied: list[Run]) -> None:
    runs = chosen(studied, name)
    with pytest.raises((RunError, OptionError), match=r"would count as two seeds|given twice"):
        STUDIES[name].measure([*runs, Run.open(runs[-1].path)])


@pytest.mark.parametrize("name", ["pareto", "curves"])
def test_runs_of_two_kinds_are_not_mixed(name: str, studied: list[Run]) -> None:
    with pytest.raises(RunError, match="irene members=2"):
        STUDIES[name].measure([*chosen(studied, name), *of(studied, "irene-2")])


@pytest.mark.parametrize(
    ("name", "method", "about", "words"),
    [
        (
            "pareto",
            "irene",
            {"epochs": 4},
            r"average-3-0 and .*irene-3-0 differ in loop.epochs \(3 and 4\): this study",
        ),
        ("pareto", "irene", {"backbones": ["cnn"] * 3}, r"backbones \(mlp\+mlp\+mlp and cnn\+cnn\+cnn\)"),
        ("ablation", "average", {"epochs": 4}, r"loop.epochs \(4 and 3\)"),
        ("ablation", "irene-rank", {"epochs": 4}, r"loop.epochs \(3 and 4\)"),
        ("size", "fge", {"epochs": 4}, r"loop.epochs \(3 and 4\)"),
        ("size", "irene-2", {"backbones": ["cnn"] * 2}, r"backbones \(mlp\+mlp and cnn\+cnn\)"),
    ],
)
def test_only_runs_trained_alike_are_compared(
    name: str, method: str, about: dict[str, Any], words: str, studied: list[Run]
) -> None:
    changed = of(studied, method)
    runs = [told(run, **about) if run in changed else run for run in chosen(studied, name)]
    with pytest.raises(RunError, match=words):
        STUDIES[name].measure(runs)


def test_an_ensemble_is_not_compared_with_a_larger_one(studied: list[Run]) -> None:
    for name in ("pareto", "ablation"):
        with pytest.raises(RunError, match=r"differ in members \(4 and 3\)"):
            STUDIES[name].measure(of(studied, "average-4", "irene-3"))


def test_other_options_of_a_method_are_no_other_size(studied: list[Run]) -> None:
    with pytest.raises(RunError, match=r"runs of irene of one kind, got: irene without=\[\], irene without="):
        STUDIES["size"].measure([*chosen(studied, "size"), *of(studied, "irene-rank")])
    with pytest.raises(RunError, match=r'differ in without \(\[\] and \["rank"\]\)'):
        STUDIES["size"].measure(of(studied, "average-4", "irene-2", "irene-rank"))


def test_the_first_members_of_a_larger_ensemble_count_once(studied: list[Run], blobs: Data, tmp_path: Path) -> None:
    options = TrainOptions(members=2, device="cpu")
    smaller = train("fge", blobs, tmp_path / "fge-2", options=options, loop=LOOP)
    runs = chosen(studied, "size")
    assert STUDIES["size"].measure([*runs, smaller])["methods"] == STUDIES["size"].measure(runs)["methods"]


def test_the_picture_of_sizes_says_where_there_are_seeds(studied: list[Run], tmp_path: Path) -> None:
    one_seed = [run for run in chosen(studied, "size") if run.path.name.endswith("-0")]
    for runs, said in ((chosen(studied, "size"), "accuracy, ± deviation over seeds"), (one_seed, "accuracy")):
        found, _ = write_study(STUDIES["size"], runs, tmp_path)
        assert STUDIES["size"].draw(found).axes[0].get_ylabel() == said


def test_curves_are_not_cut_to_the_shortest(studied: list[Run], tmp_path: Path) -> None:
    whole, other = of(studied, "irene-3")
    short = Run.open(shutil.copytree(other.path, tmp_path / "short"))
    file = short.path / "metrics.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if '"epoch": 2' not in line))
    with pytest.raises(RunError, match=r"metrics.jsonl must have as many epochs of member-1 .* got 2 and 3"):
        STUDIES["curves"].measure([whole, short])


def test_curves_name_equations_where_the_recipe_has_them(studied: list[Run], blobs: Data, tmp_path: Path) -> None:
    own = IreneOptions(recipe="paper")
    options = TrainOptions(members=2, device="cpu")
    paper = train("irene", blobs, tmp_path / "paper", options=options, loop=LOOP, method_options=own)

    def titles(run: Run) -> set[str]:
        figure = STUDIES["curves"].draw(STUDIES["curves"].measure([run]))
        return {axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()}

    equations = {"rank loss (Eq. 12)", "ensemble loss (Eq. 10)", "cost loss (Eq. 11)"}
    assert equations < titles(paper)
    usual = titles(of(studied, "irene-3")[0])
    assert not equations & usual
    assert {"base loss (Eq. 8), log scale", "ensemble loss (regret)", "cost loss (at its price)"} < usual


def test_the_same_kinds_of_members_in_other_numbers_are_not_mixed(studied: list[Run]) -> None:
    one, two = of(studied, "average-4")
    lists = (["mlp", "mlp", "mlp", "cnn"], ["mlp", "cnn", "cnn", "cnn"])
    runs = [Run(run.path, {**run.manifest, "backbones": names}) for run, names in zip((one, two), lists, strict=True)]
    with pytest.raises(RunError, match=r"of one kind, got: average backbones=mlp\+mlp\+mlp\+cnn, average"):
        STUDIES["members"].measure(runs)


def test_an_unknown_study() -> None:
    with pytest.raises(OptionError, match="did you mean pareto"):
        find_study("paretto")
    assert all(study.description for study in STUDIES.values())
