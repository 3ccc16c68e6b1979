"""The paper's study from jobs to tables, with its jobs shrunk to small images and one epoch."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import collect
import jobs
import pytest
import torch
import write
from pages import pictures, tables
from pages.rows import load_paper, utility_of
from replay import against, merged
from replay.ablated import ablation
from replay.answers import Answers
from replay.kept import Kept
from replay.packed import Packed, Setting, Study, common_seeds
from training.packing import pack
from training.tars import extract

from irene.bank import Bank
from irene.calibration.frontier import Frontier
from irene.data import Data, load
from irene.evaluation import studies
from irene.evaluation.evaluate import evaluate
from irene.fitting import fit_policy
from irene.metrics import utility
from irene.models import MemberSpec, build
from irene.run import Run
from irene.training.methods import find_method
from irene.training.methods.distil import DistilOptions
from irene.training.methods.fge import FgeOptions
from irene.training.methods.irene import IreneOptions
from irene.training.options import LoopOptions
from irene.training.train import train

ALL = {job.name: job for group in jobs.JOBS.values() for job in group}


def small_digits() -> Data:
    data = load("digits")
    return replace(data, train=data.train.subset(torch.arange(300)), test=data.test.subset(torch.arange(100)))


def shrunk(job: jobs.Job) -> jobs.Job:
    own = job.method_options
    if isinstance(own, IreneOptions):
        own = replace(own, cost=1.3, cost_unit="members")
    if isinstance(own, FgeOptions):
        own = replace(own, cycle=2)
    if isinstance(own, DistilOptions) and own.taught_epochs is not None:
        own = replace(own, taught_epochs=2)
    loop = LoopOptions(epochs=1, batch_size=64)
    backbones = tuple("cnn" if name == job.backbones[-1] else "cnnx0.5" for name in job.backbones)
    return replace(job, backbones=backbones, method_options=own, loop=loop)


def do(job: jobs.Job, out: Path) -> Run:
    options = replace(job.options, device="cpu")
    return train(job.method, small_digits(), out, options=options, loop=job.loop, method_options=job.method_options)


KINDS = {  # one job of each kind: what differs in data, backbone, seed or length alone is trained by the same code
    f"{job.method} {job.variant} {len(job.backbones)}": job for job in reversed(ALL.values())
}


def test_a_name_stands_for_one_job_and_names_of_finished_runs_are_still_names() -> None:
    for group in jobs.JOBS.values():
        for job in group:
            assert ALL[job.name] == job
    finished = (
        "cifar10-resnet18-average-s0-e30",
        "cifar10-resnet32-average-s0-e60",
        "cifar10-resnet18-irene-s2-e30",
        "cifar10-resnet18-irene-folds-s0-e30",
        "cifar10-resnet18-irene-paper-s0-e30",
        "cifar10-resnet32_resnet18-irene-half-flops-s0-e60",
    )
    assert set(finished) <= set(ALL)


def test_every_job_has_options_of_its_method_and_backbones_that_can_be_built() -> None:
    for job in ALL.values():
        method = find_method(job.method)
        assert job.method_options is None or isinstance(job.method_options, method.options)
        assert job.options.members == len(job.backbones)
    for name in {name for job in ALL.values() for name in job.backbones}:
        build(MemberSpec(backbone=name, shape=(3, 32, 32), outputs=100), seed=0)


def test_the_budget_of_fge_is_that_of_three_members() -> None:
    cycle = jobs.OTHERS["fge"].cycle
    assert jobs.SHORT.epochs + cycle // 2 + 2 * cycle == 3 * jobs.SHORT.epochs


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_of_each_kind_trains(kind: str, tmp_path: Path) -> None:
    run = do(shrunk(KINDS[kind]), tmp_path / "run")
    assert run.finished
    assert 0 < run.figures["test"]["accuracy"] <= 1


@pytest.fixture(scope="module")
def study(
    tmp_path_factory: pytest.TempPathFactory, lifelike_bank: Callable[..., Bank], make_run: Callable[..., Run]
) -> Study:
    """Two seeds of average and irene, one of all images and one of five members, packed and unpacked."""
    folder = tmp_path_factory.mktemp("study")

    def banks(seed: int, members: int = 3, splits: tuple[str, ...] = ("heldout", "test")) -> dict[str, Bank]:
        skills = (2.0,) * members
        return {split: lifelike_bank(500, skills=skills, seed=len(split) + 10 * seed) for split in splits}

    own = asdict(IreneOptions())
    runs = [
        *(make_run(folder / f"average-{seed}", banks(seed), "average", seed) for seed in range(2)),
        *(make_run(folder / f"irene-{seed}", banks(seed + 2), "irene", seed, own) for seed in range(2)),
        make_run(folder / "full", banks(0, splits=("test",)), "average", 0),
        make_run(folder / "five", banks(0, 5), "average", 0),
    ]
    for run in runs:
        for path in pack(run, folder / "packs"):
            extract(path, folder / "unpacked")
    return Study.read(folder / "unpacked")


def test_packed_runs_become_rows_with_the_fields_of_the_study(study: Study) -> None:
    rows = [row for run in study.runs for row in collect.rows_of(run, alone=True)]
    named = {"dataset", "backbone", "method", "members", "seed", "epochs", "accuracy", "cost", "nll", "ece", "train_s"}
    assert all(named | {"hardware", "flops", "ms"} <= set(row) for row in rows)
    keys = [(row["method"], row["seed"], row["images"]) for row in rows]
    assert len(set(keys)) == len(keys)
    of_five = {row["method"] for row in rows if row["members"] == 5}
    assert {"average of 5", "woc of 5"} <= of_five
    assert {row["method"] for row in rows if row["images"] == 50_000} == {"single", "average"}  # nothing held out
    assert {row["members"] for row in rows if row["method"] == "single"} == {1}


def test_members_of_fge_are_stopped_with_the_last_one_first(
    tmp_path: Path, lifelike_bank: Callable[..., Bank], make_run: Callable[..., Run]
) -> None:
    banks = {split: lifelike_bank(500, skills=(1.0, 2.0, 3.0), seed=len(split)) for split in ("heldout", "test")}
    run = Packed.open(make_run(tmp_path / "fge", banks, "fge", 0).path)
    whole, margin, change = collect.rows_of(run, alone=True)
    assert [row["method"] for row in (whole, margin, change)] == [
        "fge",
        "fge last first, margin + temperature at 1.3",
        "fge last first, change predictor at 1.3",
    ]
    turned = {split: bank.members([2, 1, 0]) for split, bank in banks.items()}
    point = fit_policy(turned["heldout"], "margin", cost=1.3)
    labels = turned["test"].replay(point.policy, point.aggregation).labels
    assert margin["accuracy"] == pytest.approx(float((labels == turned["test"].targets).double().mean()), abs=0.005)
    assert margin["cost"] == pytest.approx(1.3, abs=0.15)
    assert whole["cost"] == 3
    assert {merged.like_the_run(key) for key in merged.by([whole, margin, change], merged.ROW)} == {
        "digits-cnn-fge-s0-e2"
    }


def test_figures_are_measured_on_packed_runs(study: Study, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        found = collect.pictures(study, pool, Kept(tmp_path))
    slug = "digits-cnn-e2"
    assert set(found["pareto"]) == set(found["curves"]) == set(found["size"]) == {slug}
    assert found["members"][slug]["members"] == [1, 2, 3, 4, 5]
    assert found["curves"][slug]["runs"] == ["irene-0", "irene-1"]


def test_the_end_of_training_on_heldout_outputs_is_done_over(study: Study) -> None:
    run = next(run for run in study.runs if run.ends_on_heldout)
    trained, again = Run.open(run.path).policy(), run.policy()
    assert again.name == trained.name == "selector"
    test = run.bank("test")
    costs = [float(test.replay(policy, run.aggregation).cost.mean()) for policy in (trained, again)]
    assert costs[0] == pytest.approx(costs[1], abs=0.25)


@pytest.fixture
def fitted_for(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    """The seeds and costs that a selector was to be fitted for anew: the run's own stands for it, which is quicker."""
    asked: list[tuple[int, float]] = []

    def own_for_any_cost(run: Packed, cost: float) -> Frontier:
        asked.append((run.seed, cost))
        return against.own_curve(run)

    monkeypatch.setattr(against, "fitted_anew", own_for_any_cost)
    return asked


def known(runs: Iterable[Packed]) -> against.Known:
    """What stays of runs whose banks are gone."""
    return against.Known([Answers.unpacked(against.answers_of(run)) for run in against.worth_keeping(runs)])


def test_irene_is_compared_with_thresholds_on_its_own_and_on_other_members(
    study: Study, fitted_for: list[tuple[int, float]]
) -> None:
    setting = next(run.setting for run in study.runs if run.label == collect.IRENE)
    found = against.against(known(study.runs), setting)
    assert found is not None
    assert found["seeds"] == 2
    assert "folds" not in found
    assert sorted(fitted_for) == [(seed, cost) for seed in range(2) for cost in against.COSTS]
    assert found["fitted"] == found["gains"]["margin + temperature, the same members"]
    assert len(found["gains"]) == 4
    for gains in found["gains"].values():
        assert all(low <= mean <= high for mean, low, high in gains.values())
        each = [mean for cost, (mean, _, _) in gains.items() if cost != "all"]
        assert gains["all"][0] == pytest.approx(sum(each) / len(each))


def test_members_that_go_on_are_compared_with_thresholds_where_there_are_seeds_in_common(
    study: Study,
    tmp_path: Path,
    lifelike_bank: Callable[..., Bank],
    make_run: Callable[..., Run],
    fitted_for: list[tuple[int, float]],
) -> None:
    setting = next(run.setting for run in study.runs if run.label == collect.IRENE)
    assert against.warm_started(known(study.runs), setting) is None
    own = asdict(IreneOptions(later="go-on"))
    banks = {split: lifelike_bank(500, skills=(2.5, 2.0, 2.0), seed=len(split)) for split in ("heldout", "test")}
    runs = [make_run(tmp_path / f"go-on-{seed}", banks, "irene", seed, own) for seed in (1, 5)]
    packed = [Packed.open(run.path) for run in runs]
    found = against.warm_started(known([*study.runs, *packed]), setting)
    assert found is not None
    assert {name: gains["seeds"] for name, gains in found.items()} == {"same": 2, "independent": 1}
    curve = against.own_curve(packed[0])
    averaged = next(run for run in study.of(setting, "average") if run.seed == 1)
    for cost in against.COSTS:
        ours, theirs = (
            float(one.quality_at(cost).mean()) for one in (curve, against.threshold_curve(averaged, "margin"))
        )
        assert found["independent"]["gain"][f"{cost:g}"][0] == pytest.approx(100 * (ours - theirs), abs=1e-4)
    assert list(against.warm_started(known(packed), setting) or {}) == ["same"]


def test_what_a_part_is_worth_is_told_of_runs_whose_banks_are_gone(
    study: Study,
    tmp_path: Path,
    lifelike_bank: Callable[..., Bank],
    make_run: Callable[..., Run],
    fitted_for: list[tuple[int, float]],
) -> None:
    setting = next(run.setting for run in study.runs if run.label == collect.IRENE)
    assert ablation(known(study.runs), setting) is None
    own = asdict(IreneOptions(without=("rank",)))
    banks = {split: lifelike_bank(500, skills=(1.5, 1.5, 1.5), seed=len(split)) for split in ("heldout", "test")}
    without = [Packed.open(make_run(tmp_path / f"rank-{seed}", banks, "irene", seed, own).path) for seed in (1, 4)]
    found = ablation(known([*study.runs, *without]), setting)
    assert found is not None
    variants = found["variants"]
    assert {name: about["seeds"] for name, about in variants.items()} == {
        "average ensemble": 2,
        "IRENE": 2,
        "without the rank loss": 2,
    }
    (whole,) = [run for run in study.of(setting, collect.IRENE) if run.seed == 1]
    right = [evaluate(run).figures["accuracy"] for run in (without[0], whole)]
    gain = variants["without the rank loss"]["gain"]
    assert gain["mean"] == pytest.approx(right[0] - right[1]), "on the seed they have in common"
    assert gain["low"] < gain["mean"] < gain["high"]
    assert variants["IRENE"]["gain"] is None
    assert variants["average ensemble"]["cost"]["mean"] == 3.0
    figure = studies.find_study("ablation").draw(collect.shortened(found))
    assert [label.get_text().partition(",")[0] for label in figure.axes[0].get_yticklabels()] == [
        "IRENE",
        "average ensemble",
        "without the rank loss",
    ]


def test_the_card_is_in_use_once_while_runs_train_side_by_side(study: Study) -> None:
    assert collect.in_use(study.runs) == 3.0, "all began at once and took three seconds"
    apart = [Packed.open(run.path) for run in study.runs[:3]]
    for run, second in zip(apart, ("00", "02", "30"), strict=True):
        run.manifest["environment"]["begun"] = f"2026-01-01T00:00:{second}+00:00"
    assert collect.in_use(apart[::-1]) == 5.0 + 3.0


def test_settings_without_irene_are_not_compared(study: Study, fitted_for: list[tuple[int, float]]) -> None:
    setting = next(run.setting for run in study.runs if run.setting.images == 50_000)
    runs = known(study.runs)
    assert fitted_for
    assert against.against(runs, setting) is None


def test_realised_costs_are_near_those_asked_for(study: Study) -> None:
    runs = [run for run in study.runs if run.label == collect.IRENE]
    (found,) = collect.by_setting(runs, [against.asked_and_realised(run) for run in runs]).values()
    assert len(found) == len(runs) == 2
    for costs in found:
        assert all(realised == pytest.approx(float(asked), abs=0.2) for asked, realised in costs.items())


def test_seeds_that_all_sides_have_are_compared(study: Study) -> None:
    setting = next(run.setting for run in study.runs if run.label == "irene at 1.3")
    averages, irenes = common_seeds(study.of(setting, "average"), study.of(setting, "irene at 1.3")[1:])
    assert [run.seed for run in averages] == [run.seed for run in irenes] == [1]


def test_a_run_whose_later_members_were_slowed_down_had_not_the_card_to_itself(
    study: Study, tmp_path: Path, lifelike_bank: Callable[..., Bank], make_run: Callable[..., Run]
) -> None:
    average = next(run for run in study.runs if run.method == "average" and run.setting.images < 50_000)
    assert study.alone(average)
    slowed = make_run(tmp_path / "slowed", {"test": lifelike_bank(50), "heldout": lifelike_bank(50)}, "average", 5)
    lines = [json.loads(line) for line in (slowed.path / "metrics.jsonl").read_text().splitlines()]
    for line in lines[2:]:
        line["seconds"] *= 3
    (slowed.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = Packed.open(slowed.path)
    assert not Study([*study.runs, run]).alone(run)


def test_a_run_that_took_its_teachers_from_another_tells_no_speed(
    study: Study, tmp_path: Path, lifelike_bank: Callable[..., Bank], make_run: Callable[..., Run]
) -> None:
    average = next(run for run in study.runs if run.method == "average" and run.setting.images < 50_000)
    taught = make_run(tmp_path / "taught", {"test": lifelike_bank(50)}, "distil", 5, {"teachers": "runs/large"})
    lines = [json.loads(line) for line in (taught.path / "metrics.jsonl").read_text().splitlines()]
    quick = "".join(json.dumps({**line, "seconds": line["seconds"] / 9}) + "\n" for line in lines)
    (taught.path / "metrics.jsonl").write_text(quick)
    run = Packed.open(taught.path)
    both = Study([*study.runs, run])
    assert run.first_trained == average.first_trained, "the premise"
    assert both.alone(average)
    assert not both.alone(run)


def test_runs_that_begin_together_tell_what_the_card_does_in_all(study: Study) -> None:
    averages = [run for run in study.runs if run.method == "average"]
    alike = [run for run in averages if run.setting.images < 50_000 and run.first_trained == averages[0].first_trained]
    groups = collect.side_by_side(alike)
    assert [len(group) for group in groups] == [len(alike)], "the fixture: all begin at once"
    one, all_of_them = collect.speed_of(alike[:1]), collect.speed_of(alike)
    assert all_of_them["images_per_s"] == pytest.approx(len(alike) * one["images_per_s"], abs=len(alike))
    assert all_of_them["epoch_s"] == pytest.approx(one["epoch_s"] / len(alike), abs=1e-4)
    later = copy.deepcopy(alike[0])
    later.manifest["environment"]["begun"] = "2026-01-01T00:01:00+00:00"
    assert collect.side_by_side([alike[0], later]) == []
    alone = {alike[0].first_trained: alike[0].rate()}
    assert collect.pays(alike, alone)
    assert not collect.pays(alike[:1], alone), "the card may have had others to train"


def test_single_networks_are_counted_as_runs_where_they_are_no_members() -> None:
    about = {"dataset": "cifar10", "backbone": "resnet18", "epochs": 30, "images": 45_000, "seed": 0, "train_s": 3600.0}
    member, ensemble, woc = ({**about, "method": method} for method in ("single", "average", "woc"))
    alone = {**about, "method": "single", "backbone": "resnet20"}
    assert tables.total_time([member, ensemble, woc, alone], 5400.0) == (
        "All 2 runs took 1.5 hours of one H200, most of them side by side: added up, they trained for 2.0 hours. "
        "What was trained again counts once."
    )


def test_epochs_are_compared_in_the_run_whose_epochs_vary_least() -> None:
    def stages(unsteady: float, *seconds: float) -> dict[str, Any]:
        return {f"m{t}": {"median_epoch_s": one, "epoch_s_unsteady": unsteady} for t, one in enumerate(seconds)}

    said = write.epoch_ratios({"a": stages(0.5, 1.0, 9.0, 9.0), "b": stages(0.1, 2.0, 2.5, 3.0)})
    assert said.startswith("t = 2: 1.25, t = 3: 1.50\n(medians of `b`")


def test_how_far_epochs_vary_is_told_by_their_deciles() -> None:
    assert collect.unsteady([2.0] * 30) == 0
    assert collect.unsteady([27.0, *[2.0] * 29]) == 0  # the first one compiles
    assert collect.unsteady([1.0] * 15 + [2.0] * 15) == pytest.approx(1 / 1.5)


def row(method: str, accuracy: float, cost: float = 1.0, **changes: Any) -> dict[str, Any]:
    about = {"dataset": "cifar10", "backbone": "resnet18", "epochs": 30, "images": 45_000, "flops": 1e9 * cost}
    return {**about, "method": method, "accuracy": accuracy, "cost": cost, **changes}


def test_utility_is_against_single_and_average_of_the_same_setting() -> None:
    here = [row("single", 0.90), row("single", 0.92), row("average", 0.94, 3.0), row("irene at 1.3", 0.94, 1.3)]
    elsewhere = [row("single", 0.5, epochs=200), row("average", 0.8, 3.0, epochs=200), row("woc", 0.9, images=50_000)]
    found = collect.add_utilities([*here, *elsewhere])
    value = {(one["method"], one["epochs"], one["accuracy"]): one["utility"] for one in found}
    assert value["average", 30, 0.94] == pytest.approx(1.0)
    assert value["average", 200, 0.8] == pytest.approx(1.0)
    assert value["single", 30, 0.90] < 1 < value["single", 30, 0.92]
    assert value["irene at 1.3", 30, 0.94] > 2
    assert value["woc", 30, 0.9] is None  # no single or average of all images


def test_a_network_that_computes_as_several_costs_as_much() -> None:
    rows = [row("single", 0.9), row("batch-ensemble", 0.91, flops=3e9), row("woc", 0.9, 1.2)]
    assert [one["cost"] for one in collect.true_costs(rows)] == [1.0, 3.0, 1.2]


def test_runs_of_other_epochs_or_images_are_other_settings() -> None:
    base = Setting("cifar10", "resnet18", 30, 45_000)
    assert collect.setting_of(row("single", 0.9)) == base
    assert len({base, base._replace(epochs=60), base._replace(images=50_000), base._replace(backbone="resnet32")}) == 4


def test_sizes_that_only_rows_know_are_shown_beside_those_of_a_figure() -> None:
    about = {"dataset": "cifar10", "backbone": "resnet18", "epochs": 30, "images": 45_000, "cost": 1.3}
    rows = [
        {**about, "method": method, "members": members, "seed": seed, "accuracy": accuracy + 0.01 * seed}
        for method, members, accuracy in (
            ("single", 1, 0.90),
            ("average", 3, 0.94),
            ("irene at 1.3", 3, 0.93),
            ("irene at 1.3 of 2", 2, 0.92),
            ("irene at 1.3 of 5", 5, 0.94),
            ("irene at 1.3 warm-started of 5", 5, 0.99),
        )
        for seed in range(2)
    ]
    three = {"members": 3, "accuracy": {"mean": 0.5, "spread": None}, "cost": {}, "utility": 1.0}
    found = pictures.of_all_counts({"methods": {"irene": [three], "fge": []}}, "cifar10-resnet18-e30", rows)["methods"]
    assert found["fge"] == []
    two, same, five = found["irene"]
    assert (two["members"], same, five["members"]) == (2, three, 5)
    assert five["accuracy"] == {"mean": pytest.approx(0.945), "spread": pytest.approx(0.01 / 2**0.5)}
    assert five["cost"]["mean"] == pytest.approx(1.3)
    assert five["utility"] == pytest.approx(utility(0.945, 1.3, single=0.905, average=0.945))


def test_the_paper_has_33_rows_and_its_utilities_follow_from_its_formula() -> None:
    rows = load_paper()
    assert len(rows) == len({(one["dataset"], one["backbone"], one["method"]) for one in rows}) == 33
    apart = []
    for one in rows:
        setting = [other for other in rows if all(other[key] == one[key] for key in ("dataset", "backbone"))]
        if abs(utility_of([one], setting) - one["utility"]) > 0.025:
            apart.append((one["dataset"], one["backbone"], one["method"]))
    assert apart == [("cifar100", "resnet32", name) for name in ("snapshot", "fge", "moe")]


def test_a_difference_to_the_paper_is_inside_or_outside_the_spread_of_both() -> None:
    paper = {"accuracy": 94.0, "accuracy_spread": 0.1, "cost": 1.0, "utility": 2.0}
    near = [row("woc", 0.939, utility=1.9), row("woc", 0.940, utility=2.2)]
    far = [row("woc", 0.930, utility=1.0), row("woc", 0.931, utility=1.1)]
    assert tables.beside(paper, near, 2.05)[1:] == ["-0.05, inside", "+0.05, inside"]
    assert tables.beside(paper, far, 1.05)[1:] == ["-0.95, outside", "-0.95, outside"]
    assert tables.beside(paper, near[:1], 1.9)[1:] == ["-0.10", "-0.10"]  # one seed has no spread
    assert tables.beside(None, near, 2.0) == ["", "", ""]
