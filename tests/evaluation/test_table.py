"""The table against figures computed by hand from the same banks, and its four file formats."""

from __future__ import annotations

import csv
import json
import math
import shutil
import statistics
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch

from irene import metrics
from irene.data import Data
from irene.errors import OptionError, RunError
from irene.evaluation.evaluate import Evaluation, evaluate
from irene.evaluation.table import Row, Spread, Table, as_dict, gain, make_table
from irene.evaluation.table_files import as_csv, as_latex, as_markdown, cells, heads, note, write_table
from irene.fitting import fit_policy
from irene.run import Run
from irene.training.methods.irene import IreneOptions
from irene.training.options import LoopOptions
from irene.training.train import TrainOptions, train

LOOP = LoopOptions(epochs=3, batch_size=32)
METHODS = ("single", "average", "woc")


@pytest.fixture(scope="module")
def seeds(blobs: Data, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Run]]:
    """Three methods over three seeds."""
    folder = tmp_path_factory.mktemp("table")
    return {
        method: [
            train(method, blobs, folder / f"{method}-{seed}", options=TrainOptions(seed=seed, device="cpu"), loop=LOOP)
            for seed in range(3)
        ]
        for method in METHODS
    }


@pytest.fixture(scope="module")
def table(seeds: dict[str, list[Run]]) -> Table:
    return make_table([run for runs in seeds.values() for run in runs])


def right(run: Run) -> torch.Tensor:
    bank = run.bank("test")
    return (bank.replay(run.policy(), run.aggregation).labels == bank.targets).double()


def test_runs_are_shown_at_operating_points_too(seeds: dict[str, list[Run]], table: Table, tmp_path: Path) -> None:
    runs = [Run.open(shutil.copytree(run.path, tmp_path / run.path.name)) for run in seeds["average"]]
    for run in runs[:2]:
        run.save_point(fit_policy(run.bank("heldout"), "margin", cost=1.4, name="fast"))
    found = make_table(runs, points=("fast",))
    whole, fast = found.rows
    assert (whole.name, fast.name, found.reference) == ("average", "average at fast", "average")
    assert whole.figures["accuracy"] == next(row for row in table.rows if row.name == "average").figures["accuracy"]
    assert fast.seeds == (0, 1)
    costs = []
    for run in runs[:2]:
        point, bank = run.point("fast"), run.bank("test")
        costs.append(float(bank.replay(point.policy, point.aggregation).cost.mean()))
    assert fast.figures["cost"].mean == pytest.approx(np.mean(costs))
    assert not math.isnan(fast.utility)
    with pytest.raises(OptionError, match="none of the runs has an operating point 'slow'"):
        make_table(runs, points=("slow",))


def test_a_point_may_have_fewer_members_with_one_seed(seeds: dict[str, list[Run]], tmp_path: Path) -> None:
    """As where a time to answer in leaves no room for the last member."""
    runs = [Run.open(shutil.copytree(run.path, tmp_path / run.path.name)) for run in seeds["average"][:2]]
    for run, limit in zip(runs, (2.5, 9.0), strict=True):
        costs = tuple(replace(cost, ms=1.0, ms_batch=1) for cost in run.costs)
        run.save_point(fit_policy(replace(run.bank("heldout"), costs=costs), "margin", p99=limit, name="quick"))
    assert [len(run.point("quick").members) for run in runs] == [2, 3]
    row = make_table(runs, points=("quick",)).rows[1]
    used = []
    for run in runs:
        point = run.point("quick")
        bank = run.bank("test").members(point.members)
        ran = bank.replay(point.policy, point.aggregation).members_used
        used.append([float((ran == count).double().mean()) for count in (1, 2, 3)])
    assert row.members == 3
    assert row.used == pytest.approx(np.mean(used, axis=0))


def test_mean_and_spread_over_seeds(table: Table, seeds: dict[str, list[Run]]) -> None:
    assert [row.name for row in table.rows] == list(METHODS)
    for row in table.rows:
        assert row.seeds == (0, 1, 2)
        for name in ("accuracy", "cost", "flops", "ms", "nll", "ece", "brier", "error_auroc"):
            values = [run.figures["test"][name] for run in seeds[row.method]]
            assert row.figures[name].mean == pytest.approx(np.mean(values))
            assert row.figures[name].spread == pytest.approx(np.std(values, ddof=1))
        shares = [run.figures["test"]["used"] for run in seeds[row.method]]
        assert row.used == pytest.approx(np.mean(shares, axis=0))


def test_a_figure_that_some_seed_does_not_have() -> None:
    """Without an error there is nothing to detect."""
    found = Spread.of([0.9, math.nan])
    assert math.isnan(found.mean)
    assert math.isnan(found.spread)


def test_the_gain_is_paired_by_sample_and_pooled_over_seeds(table: Table, seeds: dict[str, list[Run]]) -> None:
    mine, theirs = (torch.stack([right(run) for run in seeds[name]]).mean(0) for name in ("woc", "average"))
    gains = {row.name: row.gain for row in table.rows}
    assert gains["average"] is None
    assert gains["woc"] is not None
    assert gains["woc"].mean == pytest.approx(float(mine.mean() - theirs.mean()))

    # A bootstrap of one's own, sample by sample.
    rng = np.random.default_rng(1)
    difference = (mine - theirs).numpy()
    means = difference[rng.integers(len(difference), size=(4000, len(difference)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    assert gains["woc"].low == pytest.approx(low, abs=0.01)
    assert gains["woc"].high == pytest.approx(high, abs=0.01)


def test_utility_is_against_the_single_and_average_of_the_same_seeds(table: Table, seeds: dict[str, list[Run]]) -> None:
    accuracy = {name: statistics.fmean(float(right(run).mean()) for run in runs) for name, runs in seeds.items()}
    cost = statistics.fmean(run.figures["test"]["cost"] for run in seeds["woc"])
    by_name = {row.name: row.utility for row in table.rows}
    reference = {"single": accuracy["single"], "average": accuracy["average"]}
    expected = metrics.utility(accuracy["woc"], cost, **reference)
    assert by_name["woc"] == pytest.approx(expected, nan_ok=True)
    if accuracy["average"] > accuracy["single"]:
        assert by_name["single"] == pytest.approx(1)
        assert by_name["average"] == pytest.approx(1)


def test_without_an_average_of_three_there_is_no_utility(seeds: dict[str, list[Run]]) -> None:
    table = make_table([*seeds["single"], *seeds["woc"]])
    assert all(math.isnan(row.utility) for row in table.rows)
    assert "utility" not in table.columns
    assert table.reference == "single"


def test_the_reference_can_be_chosen(seeds: dict[str, list[Run]]) -> None:
    table = make_table([*seeds["single"], *seeds["woc"]], reference="woc")
    gains = {row.name: row.gain for row in table.rows}
    assert gains["woc"] is None
    assert gains["single"] is not None
    with pytest.raises(OptionError, match=r"no run is of the reference 'fge' \(there are: single\)"):
        make_table(seeds["single"], reference="fge")


def test_seeds_that_only_one_side_has_are_left_out_of_the_gain(seeds: dict[str, list[Run]]) -> None:
    table = make_table([*seeds["average"], seeds["woc"][1]])
    gain = table.rows[1].gain
    assert gain is not None
    pair = right(seeds["woc"][1]) - right(seeds["average"][1])
    assert gain.mean == pytest.approx(float(pair.mean()))
    assert math.isnan(table.rows[1].figures["accuracy"].spread)


def test_runs_of_one_method_with_other_options_are_told_apart(blobs: Data, tmp_path: Path) -> None:
    runs = [
        train("irene", blobs, tmp_path / "a", loop=LOOP, method_options=IreneOptions(cost=1.2)),
        train("irene", blobs, tmp_path / "b", loop=LOOP, method_options=IreneOptions(cost=1.5)),
        train(
            "irene",
            blobs,
            tmp_path / "c",
            options=TrainOptions(members=2),
            loop=LOOP,
            method_options=IreneOptions(cost=1.5),
        ),
    ]
    assert [row.name for row in make_table(runs).rows] == [
        "irene members=3 cost=1.2",
        "irene members=3 cost=1.5",
        "irene members=2 cost=1.5",
    ]


@pytest.fixture(scope="module")
def mixed(blobs: Data, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Average ensembles of one seed with the same kinds of members, and not the same members."""
    folder = tmp_path_factory.mktemp("mixed")
    small = "mlpx0.05"
    lists = ((small, "mlp", "mlp"), (small, small, "mlp"), (small, "mlp", small))
    options = [TrainOptions(backbones=backbones, device="cpu") for backbones in lists]
    return [train("average", blobs, folder / str(n), options=one, loop=LOOP) for n, one in enumerate(options)]


def test_runs_with_other_members_are_told_apart(mixed: list[Run]) -> None:
    rows = make_table(mixed).rows
    assert [row.name for row in rows] == [
        "average backbones=mlpx0.05+mlp+mlp",
        "average backbones=mlpx0.05+mlpx0.05+mlp",
        "average backbones=mlpx0.05+mlp+mlpx0.05",
    ]
    assert [row.runs for row in rows] == [(str(run.path),) for run in mixed]


def test_utility_is_against_the_reference_where_there_are_several_averages(
    mixed: list[Run], seeds: dict[str, list[Run]]
) -> None:
    runs = [*mixed, seeds["woc"][0]]
    accuracy, cost = (seeds["woc"][0].figures["test"][name] for name in ("accuracy", "cost"))
    names = [row.name for row in make_table(mixed).rows]
    found = []
    for reference, run in zip(names, mixed, strict=True):
        bank = run.bank("test")
        single = metrics.accuracy(bank.members([0]).replay().outputs, bank.targets)
        average = float(right(run).mean())
        found.append(make_table(runs, reference=reference).rows[-1].utility)
        assert found[-1] == pytest.approx(metrics.utility(accuracy, cost, single=single, average=average))
    assert found[0] != found[-1]
    assert make_table(runs).rows[-1].utility == found[0]


def test_runs_that_differ_never_share_a_name(mixed: list[Run]) -> None:
    """Files of members that were brought along may be called anything."""
    runs = [
        Run(run.path, {**run.manifest, "backbones": names})
        for run, names in zip(mixed, (["a+b", "c"], ["a", "b+c"]), strict=False)
    ]
    with pytest.raises(RunError, match=r"0 and .*1 differ and would both be called 'average'"):
        make_table(runs)


def test_runs_that_held_out_more_samples_are_told_apart(blobs: Data, tmp_path: Path) -> None:
    runs = [
        train("single", blobs, tmp_path / str(count), options=TrainOptions(heldout=count, device="cpu"), loop=LOOP)
        for count in (20, 60)
    ]
    rows = make_table(runs).rows
    assert [row.name for row in rows] == ["single heldout=20", "single heldout=60"]
    assert [row.seeds for row in rows] == [(0,), (0,)]


def test_a_copy_is_not_another_seed(seeds: dict[str, list[Run]], tmp_path: Path) -> None:
    run = seeds["single"][1]
    copy = Run.open(shutil.copytree(run.path, tmp_path / "copy"))
    with pytest.raises(RunError, match=r"single-1 and .*copy are of one kind and one seed, 1, and would count as two"):
        make_table([*seeds["single"], copy])


def test_runs_on_other_samples_cannot_be_compared(seeds: dict[str, list[Run]], regression_runs: list[Run]) -> None:
    with pytest.raises(RunError, match="not evaluated on the same samples"):
        make_table([seeds["single"][0], regression_runs[0]])
    with pytest.raises(RunError, match="nothing to compare"):
        make_table([])


def test_regression_gains_are_a_share_of_the_squared_error(regression_runs: list[Run]) -> None:
    table = make_table(regression_runs)
    average, irene = (run.figures["test"]["mse"] for run in regression_runs)
    gain = table.rows[1].gain
    assert gain is not None
    assert gain.mean == pytest.approx((average - irene) / average)
    assert gain.low <= gain.mean <= gain.high
    assert table.columns == ("rmse", "mae", "r2", "cost", "flops", "ms")
    assert table.best("rmse") == {min(table.rows, key=lambda row: row.figures["rmse"].mean).name}
    assert "in % of its" in note(table)


def test_nothing_is_a_share_of_no_error(regression_runs: list[Run]) -> None:
    average, irene = (evaluate(run) for run in regression_runs)
    exact = replace(average, prediction=replace(average.prediction, outputs=average.bank.targets))
    assert gain([irene], [exact]) is gain([exact], [exact]) is None
    saved = gain([exact], [irene])
    assert saved is not None
    assert saved.mean == 1


def test_the_interval_of_a_share_knows_that_the_reference_is_a_mean_too(regression_runs: list[Run]) -> None:
    one = evaluate(regression_runs[0])
    targets = one.bank.targets.double()
    errors, others = np.random.default_rng(0).normal(size=(2, *targets.shape))

    def off_by(values: np.ndarray) -> Evaluation:
        return replace(one, prediction=replace(one.prediction, outputs=targets + torch.from_numpy(values)))

    halved = gain([off_by(0.5 * errors)], [off_by(errors)])  # each sample, so whatever samples there are
    assert halved is not None
    assert (halved.low, halved.mean, halved.high) == pytest.approx((0.75, 0.75, 0.75))

    # Where errors have nothing to do with each other: a bootstrap of one's own, of the share itself.
    worse = gain([off_by(2 * others)], [off_by(errors)])
    assert worse is not None
    squares = np.stack([np.square(2 * others).mean(1), np.square(errors).mean(1)])
    drawn = np.random.default_rng(1).integers(len(targets), size=(4000, len(targets)))
    mine, theirs = squares[:, drawn].mean(2)
    low, high = np.quantile(1 - mine / theirs, [0.025, 0.975])
    assert worse.mean == pytest.approx(1 - squares[0].mean() / squares[1].mean())
    assert worse.high - worse.low == pytest.approx(high - low, rel=0.15)


def made_up() -> Table:
    """Numbers whose text is known."""

    def row(name: str, accuracy: tuple[float, ...], utility: float) -> Row:
        other = {key: Spread.of([1.0, 3.0]) for key in ("cost", "ms", "nll", "ece")}
        figures = {"accuracy": Spread.of(accuracy), "flops": Spread.of([2.5e6, 2.5e6]), **other}
        return Row(
            name=name,
            method="m",
            members=3,
            seeds=(0, 1),
            runs=("a", "b"),
            figures=figures,
            used=(0.75, 0.25),
            utility=utility,
            gain=None,
        )

    rows = [row("one_a", (0.9, 0.92), 1.0), row("two|b", (0.8, 0.8), math.nan)]
    return Table(data="d", task="classification", split="test", samples=1234, reference="one_a", rows=rows)


def test_the_best_is_marked_in_every_format() -> None:
    table = made_up()
    assert table.best("accuracy") == {"one_a"}
    assert table.best("cost") == {"one_a", "two|b"}
    assert table.best("utility") == {"one_a"}
    assert heads(table)[:3] == ["method", "accuracy %", "members"]
    assert [cell.text for cell in cells(table, table.rows[0])][:4] == ["one_a", "91.00", "2.00", "2.5M"]

    markdown = as_markdown(table).splitlines()
    assert markdown[2].startswith("| one_a | **91.00** ± 1.41 | **2.00** ± 1.41 | **2.5M** |")
    assert markdown[3].startswith(r"| two\|b | 80.00 ± 0.00 |")
    assert {line.replace(r"\|", "").count("|") for line in markdown[:4]} == {markdown[0].count("|")}

    latex = as_latex(table)
    assert r"one\_a & \textbf{91.00} $\pm$ 1.41 &" in latex
    assert r"accuracy \% &" in latex
    assert latex.count("&") == 3 * (len(heads(table)) - 1)

    lines = list(csv.DictReader(StringIO(as_csv(table))))
    assert float(lines[0]["accuracy"]) == pytest.approx(0.91)
    assert (lines[0]["used_1"], lines[0]["used_2"]) == ("0.75", "0.25")
    assert lines[1]["utility"] == lines[1]["gain_low"] == ""
    assert "1,234 test samples" in note(table)


def test_what_nobody_measured_is_not_the_best() -> None:
    """FLOPs of members that were brought along as files are not known."""
    table = made_up()
    unknown = replace(table.rows[0], figures={**table.rows[0].figures, "flops": Spread.of([math.nan, 2.5e6])})
    table = replace(table, rows=[unknown, table.rows[1]])
    assert table.best("flops") == {"two|b"}


def test_times_of_runs_trained_side_by_side_have_no_best(table: Table) -> None:
    assert table.best("ms") == set()
    assert all("ms" not in row["best"] for row in as_dict(table)["rows"])
    assert "ms are rough, and `irene bench` measures them" in note(table)


def test_a_short_time_is_not_written_as_none() -> None:
    table = made_up()
    quick = replace(table.rows[0], figures={**table.rows[0].figures, "ms": Spread.of([0.00048, 0.00052])})
    (shown,) = [cell for head, cell in zip(heads(table), cells(table, quick), strict=True) if head == "ms"]
    assert (shown.text, shown.spread) == ("0.0005", "2.83e-05")


def test_the_files_are_written(table: Table, tmp_path: Path) -> None:
    assert [path.name for path in write_table(table, tmp_path)] == ["table.csv", "table.md", "table.tex", "table.json"]
    found = json.loads((tmp_path / "table.json").read_text())
    assert [row["name"] for row in found["rows"]] == list(METHODS)
    assert found["rows"][0]["accuracy"]["by_seed"] == list(table.rows[0].figures["accuracy"].by_seed)
    assert found["reference"] == "average"
    assert found["rows"][2]["used"] == list(table.rows[2].used)
    assert found["rows"][2]["brier"]["mean"] == table.rows[2].figures["brier"].mean
    header = (tmp_path / "table.csv").read_text().splitlines()[0].split(",")
    assert {"brier", "error_auroc", "error_auroc_spread", "used_3"} <= set(header)
    for figure in ("accuracy", "nll", "cost"):
        assert {row["name"] for row in found["rows"] if figure in row["best"]} == table.best(figure)
