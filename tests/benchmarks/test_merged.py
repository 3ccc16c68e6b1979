"""Runs are added to what the committed files say of others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import collect
import pytest
from documents import json_in_lines
from names import INDEPENDENT
from replay import merged
from replay.packed import Packed, Study

from irene.bank import Bank
from irene.metrics import utility
from irene.run import Run

PAPER = Path(collect.__file__).parent
FILES = ("results.json", "figures.json")
NOTHING: dict[str, Any] = {"rows": [], "speed": {}, "time": {"card_s": 0.0, "runs": []}}


def found(**parts: Any) -> dict[str, Any]:
    """What some runs tell."""
    return NOTHING | parts


def row(method: str, seed: int = 0, accuracy: float = 0.9, **changes: Any) -> dict[str, Any]:
    about = {"dataset": "cifar10", "backbone": "resnet18", "epochs": 30, "images": 45_000, "members": 3}
    return {**about, "method": method, "seed": seed, "accuracy": accuracy, "cost": 1.0, "flops": 1e9, **changes}


def rows_of(said: list[dict[str, Any]], more: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = merged.results({"rows": said}, found(rows=more))["rows"]
    return rows


def test_of_runs_side_by_side_the_fastest_are_kept() -> None:
    slow, fast, other = (
        {"backbone": backbone, "at_once": 3, "tflops": tflops}
        for backbone, tflops in (("resnet18", 280.0), ("resnet18", 300.0), ("resnet32", 50.0))
    )
    both = merged.results({"side_by_side": [fast]}, found(side_by_side=[other, slow]))
    assert both["side_by_side"] == [fast, other]
    assert merged.results({"side_by_side": [slow]}, found(side_by_side=[fast]))["side_by_side"] == [fast]


def test_rows_of_both_are_there_and_those_of_runs_at_hand_win() -> None:
    said = [row("single"), row("average", accuracy=0.93), row("average", seed=1)]
    more = [row("average", accuracy=0.94), row("average", epochs=60), row("average", members=8)]
    both = rows_of(said, more)
    assert {tuple(one[key] for key in ("epochs", "members", "seed", "method")): one["accuracy"] for one in both} == {
        (30, 3, 0, "single"): 0.9,
        (30, 3, 0, "average"): 0.94,
        (30, 3, 1, "average"): 0.9,
        (60, 3, 0, "average"): 0.9,
        (30, 8, 0, "average"): 0.9,
    }


def test_runs_that_are_taken_out_and_added_again_come_back_to_their_places() -> None:
    said = json.loads((PAPER / "results.json").read_text())["rows"]
    runs = [merged.like_the_run(key) for key in merged.by(said, merged.ROW)]
    names = list(dict.fromkeys(runs))
    for taken in (names[::2], names[1::2], names[:1], names[-3:], names):
        out, rest = (
            [one for one, run in zip(said, runs, strict=True) if (run in taken) == is_out] for is_out in (1, 0)
        )
        assert rows_of(rest, out) == said


def test_utilities_are_against_the_mean_of_all_seeds() -> None:
    said = collect.add_utilities([row("single", accuracy=0.90), row("average", 0, 0.94, cost=3.0)])
    more = [row("single", 1, 0.92), row("average", 1, 0.96, cost=3.0)]
    both = collect.add_utilities(rows_of(said, more))
    assert len(both) == 4
    for one in both:
        assert one["utility"] == utility(one["accuracy"], one["cost"], single=0.91, average=0.95)
    assert both[1]["utility"] != said[1]["utility"]


def test_a_network_that_computes_as_several_finds_the_single_one_among_rows_that_stand() -> None:
    both = collect.true_costs(rows_of([row("single", flops=2e9)], [row("mimo", flops=5e9)]))
    assert [one["cost"] for one in both] == [1.0, 2.5]


def against(seeds: int, mark: str, **parts: Any) -> dict[str, Any]:
    return {"cifar10-resnet18-e30": {"seeds": seeds, "gains": mark, **parts}}


@pytest.mark.parametrize(("seeds", "stays"), [(2, True), (3, False), (4, False)])
def test_what_is_of_fewer_seeds_does_not_replace_what_is_of_more(seeds: int, stays: bool) -> None:
    def said(count: int, mark: str) -> dict[str, Any]:
        about = {"dataset": "cifar10", "epochs": 60, "seeds": count, "mark": mark}
        taught = {"training": "distilled", "backbone": "resnet32", "count": 1}
        return {
            "against": against(count, mark),
            "asked": {"cifar10-resnet18-e30: irene at 1.3": [{"1.1": mark}] * count},
            "small_first": [{**about, "training": "distilled", "members": ["resnet32", "resnet18"]}],
            "searched": [{**about, "training": "distilled", "pool": ["resnet32", "resnet18"]}],
            "taught": [{**about, **taught}],
        }

    old, new = said(3, "old"), said(seeds, "new")
    both = merged.results(old, found(**new))
    expected = old if stays else new
    assert {part: both[part] for part in expected} == expected


def test_parts_with_seeds_of_their_own_are_judged_by_these() -> None:
    old = against(3, "old", folds={"seeds": 3, "gain": "old"}, longer={"seeds": 1, "gain": "old"})
    new = against(3, "new", longer={"seeds": 2, "gain": "new"}, unheld={"seeds": 1, "gain": "new"})
    (both,) = merged.results({"against": old}, found(against=new))["against"].values()
    parts = {"folds": {"seeds": 3, "gain": "old"}, "longer": {"seeds": 2, "gain": "new"}}
    assert both == {"seeds": 3, "gains": "new", **parts, "unheld": {"seeds": 1, "gain": "new"}}


def test_there_is_one_pool_of_independent_members_and_it_does_not_shrink() -> None:
    def pool(seeds: int, *members: str, epochs: int = 60) -> dict[str, Any]:
        return {"dataset": "cifar10", "epochs": epochs, "training": INDEPENDENT, "seeds": seeds, "pool": list(members)}

    small, large = pool(3, "resnet32", "resnet18"), pool(3, "resnet32", "resnet18s2", "resnet18")
    other = pool(1, "resnet18", epochs=30)
    for old, new in ((small, large), (large, small)):
        both = merged.results({"searched": [old]}, found(searched=[new, other]))["searched"]
        assert both == [other, large], "and 30 epochs come before 60"


def figure(*runs: str, **about: Any) -> dict[str, Any]:
    return {"runs": list(runs), **about}


def runs(epochs: int, *seeds: int) -> dict[str, dict[str, Any]]:
    names = [f"cifar10-resnet18-average-s{seed}-e{epochs}" for seed in seeds]
    return {f"cifar10-resnet18-e{epochs}": figure(*names, members=[1, 2, 3])}


@pytest.mark.parametrize(
    ("said", "more", "shown"),
    [
        (runs(60, 0, 1, 2), runs(60, 0, 1), "said"),
        (runs(60, 0, 1), runs(60, 1, 2), "more"),
        (runs(60, 0, 1, 2), runs(200, 0, 1), "said"),
        (runs(60, 0, 1, 2), runs(30, 0, 1, 2, 3), "said"),
        (runs(60, 0, 1, 2, 3), runs(200, 0, 1, 2), "more"),
        (runs(60, 0, 1, 2, 3), runs(60, 0, 1, 2), "said"),
        (runs(60, 0, 1, 2), {"cifar10-resnet18-e30": figure("a-t8-s0", members=[1, 2, 3, 4])}, "more"),
    ],
)
def test_of_a_backbone_the_figure_of_most_members_seeds_and_epochs_is_shown(
    said: dict[str, Any], more: dict[str, Any], shown: str
) -> None:
    both = merged.figures({"members": said}, {"members": more})
    assert both == {"members": said if shown == "said" else more}


def test_a_figure_that_leaves_out_what_another_shows_does_not_replace_it() -> None:
    def points(*spreads: float | None) -> list[dict[str, Any]]:
        return [{"members": 3, "accuracy": {"mean": 0.9, "spread": spread}} for spread in spreads]

    slug = "cifar10-resnet18-e30"
    whole = {slug: figure("a-s0", "a-s1", methods={"average": points(0.1), "fge": points(0.1)})}
    for methods in ({"average": points(0.1), "fge": []}, {"average": points(0.1), "fge": points(None)}):
        part = {slug: figure("a-s0", "a-s1", methods=methods)}
        assert merged.figures({"size": whole}, {"size": part}) == {"size": whole}
        assert merged.figures({"size": part}, {"size": whole}) == {"size": whole}
    ablation = {slug: {"variants": {"IRENE": figure("i-s0", "i-s1"), "without rank": figure("r-s0")}}}
    fewer = {slug: {"variants": {"IRENE": figure("i-s0", "i-s1")}}}
    assert merged.figures({"ablation": ablation}, {"ablation": fewer}) == {"ablation": ablation}
    assert merged.figures({"ablation": fewer}, {"ablation": ablation}) == {"ablation": ablation}


def test_training_and_speed_are_updated_by_run_and_a_run_that_shared_the_card_tells_no_speed_any_more() -> None:
    said = {"training": {"a": 1, "c": 3}, "speed": [{"run": "a", "tflops": 9.0}, {"run": "b", "tflops": 8.0}]}
    speeds = {"a": {"run": "a", "tflops": 9.5}, "aa": {"run": "aa", "tflops": 7.0}, "b": None}
    both = merged.results(said, found(training={"b": 2, "c": 4}, speed=speeds))
    assert list(both["training"].items()) == [("a", 1), ("b", 2), ("c", 4)]
    assert both["speed"] == [speeds["a"], speeds["aa"]]


def test_nothing_added_leaves_the_committed_files_as_they_are() -> None:
    results, figures = (merged.read(PAPER / name) for name in FILES)
    both = merged.results(results, found(time=collect.card_time(results["time"], [])))
    both["rows"] = collect.add_utilities(collect.true_costs(both["rows"]))
    assert json_in_lines(both) == (PAPER / "results.json").read_text()
    for nothing in ({name: {} for name in figures}, figures):
        assert json_in_lines(merged.figures(figures, nothing)) == (PAPER / "figures.json").read_text()
    again = found(**results | {"speed": {one["run"]: one for one in results["speed"]}})
    assert json_in_lines(merged.results(results, again)) == (PAPER / "results.json").read_text()


def test_the_runs_behind_the_committed_seconds_are_those_of_the_rows() -> None:
    results = merged.read(PAPER / "results.json")
    rows = {merged.like_the_run(key) for key in merged.by(results["rows"], merged.ROW)}
    counted = results["time"]["runs"]
    assert len(counted) == len(set(counted)) == len(rows)
    assert {name for name in counted if "-irene-" in name} == set(results["training"])
    assert {name for name in counted if "-irene-" not in name} == {name for name in rows if "-irene-" not in name}


@pytest.fixture
def averages(tmp_path: Path, lifelike_bank: Callable[..., Bank], make_run: Callable[..., Run]) -> Path:
    """Three seeds of average; their training began a minute after another."""
    for seed in range(3):
        banks = {split: lifelike_bank(200, seed=len(split) + 10 * seed) for split in ("heldout", "test")}
        run = make_run(tmp_path / "all" / f"digits-cnn-average-s{seed}-e2", banks, "average", seed)
        run.manifest["environment"]["begun"] = f"2026-01-01T00:0{seed}:00+00:00"
        run.write()
    return tmp_path / "all"


def slowed(run: Path, times: float) -> None:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    slow = [json.dumps({**line, "seconds": times * line["seconds"]}) for line in lines]
    (run / "metrics.jsonl").write_text("\n".join(slow) + "\n")


class Collection:
    """The command, writing to a folder of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, monkeypatch
        monkeypatch.setattr(collect, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))

    def add(self, *paths: Path) -> list[str]:
        """The two files after runs were added."""
        runs = self.folder / "runs"
        shutil.rmtree(runs, ignore_errors=True)
        runs.mkdir(parents=True)
        for path in paths:
            shutil.copytree(path, runs / path.name)
        self._patch.setattr(collect, "HERE", self.folder)
        self._patch.setattr("sys.argv", ["collect.py", str(runs)])
        collect.main()
        return [(self.folder / name).read_text() for name in FILES]


def test_runs_collected_in_parts_and_again_come_to_the_same_rows_and_seconds(
    averages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = sorted(averages.iterdir())
    collection = Collection(tmp_path / "parts", monkeypatch)
    collection.add(second, third)
    parts = collection.add(first)
    assert collection.add(first) == collection.add() == parts
    at_once = Collection(tmp_path / "whole", monkeypatch).add(first, second, third)
    (some, figures), (whole, all_figures) = ([json.loads(text) for text in files] for files in (parts, at_once))
    assert some == whole
    assert whole["time"] == {"card_s": 9.0, "runs": [path.name for path in (first, second, third)]}
    (shown,), (of_all,) = figures["members"].values(), all_figures["members"].values()
    assert (len(shown["runs"]), len(of_all["runs"])) == (2, 3), "banks of all three lay together once only"
    assert collection.add(first, second, third) == at_once


def test_seconds_that_runs_share_with_counted_ones_are_not_counted_again(averages: Path) -> None:
    study = Study.read(averages)
    study.runs[1].manifest["environment"]["begun"] = "2026-01-01T00:00:02+00:00"
    said = {"card_s": 100.0, "runs": [study.runs[0].name, "another"]}
    time = collect.card_time(said, study.runs)
    assert time == {"card_s": 105.0, "runs": ["another", *(run.name for run in study.runs)]}
    assert collect.card_time(time, study.runs) == time


def test_slow_runs_by_themselves_had_not_the_card_where_a_fast_one_is_known(
    averages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast, *slow = sorted(averages.iterdir())
    for path in slow:
        slowed(path, 1.5)
    study = Study(list(map(Packed.open, slow)))
    assert all(map(study.alone, study.runs)), "nothing tells that these were slow"
    collection = Collection(tmp_path / "paper", monkeypatch)
    collection.add(fast)
    results = json.loads(collection.add(*slow)[0])
    assert {one["seed"]: one["alone"] for one in results["rows"]} == {0: True, 1: False, 2: False}
    assert [one["run"] for one in results["speed"]] == [fast.name]
