"""Add packed runs of the study to benchmarks/paper/results.json and figures.json.

    python benchmarks/paper/collect.py DIR [--workers 2] [--anew]

DIR holds the unpacked tars that train.py left, one folder a run. Everything is a replay of banks: nothing is trained
but policies, on one core for each worker. What is found is kept in DIR/collected.json: an interrupted collection goes
on, and runs that are added later cost what depends on them. After a change of code that matters to results, `--anew`
computes all of them again; how many are of other code is said at the end.

What the two files say of other runs stays: DIR need not hold those. Rows of a run in DIR replace the ones it had. What
each run answers right is kept in benchmarks/paper/answers, so that runs of one seed are compared with those of others
that are not in DIR. What else is made of several runs (sizes searched, figures) is replaced where DIR gives it of no
fewer seeds. To start from nothing, remove both files and that folder. write.py and figures.py make documents and
pictures of them.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from irene.bank import Bank
from irene.evaluation import studies
from irene.files import as_json
from irene.fitting import fit_policy
from irene.halting.policies import Confidence
from irene.halting.policy import Policy
from irene.halting.rule import Aggregation
from irene.metrics import figures_of, utility
from irene.training.methods.woc import choose_threshold

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from documents import json_in_lines
from names import FOLDS, IRENE, title
from replay import against, answers, merged, small_first
from replay.ablated import ablation
from replay.against import THRESHOLDS
from replay.kept import Kept
from replay.packed import TABLE_MEMBERS, Packed, Setting, Study
from replay.searched import pools, searched
from replay.taught import one_by_one, taught, teachers

HERE = Path(__file__).resolve().parent
BEGAN_TOGETHER_S = 5.0  # seconds within which runs begin that were started side by side
KEPT = ("accuracy", "cost", "nll", "ece", "flops", "ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, metavar="DIR")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--anew", action="store_true", help="compute again what was found before")
    arguments = parser.parse_args()
    study, kept = Study.read(arguments.runs), Kept(arguments.runs, anew=arguments.anew)
    files = HERE / "results.json", HERE / "figures.json"
    said, drawn = (merged.read(path) for path in files)
    rates = merged.rates(said)
    alone = [study.alone(run, rates.get(run.first_trained, 0.0)) for run in study.runs]
    wished = [run for run in study.runs if run.label in (IRENE, FOLDS) and run.has_heldout]
    # In processes of their own: threads inherited by a fork would never wake up.
    with ProcessPoolExecutor(arguments.workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        rows = kept.each(pool, "runs", rows_of, study.runs, alone)
        answers.keep(kept.each(pool, "answers", against.answers_of, against.worth_keeping(study.runs)))
        cascades = small_first.of_one_seed(small_first.small_first(study))
        answers.keep(kept.each(pool, "answers, small members first", small_first.answers_of, cascades))
        asked = kept.each(pool, "asked and realised cost", against.asked_and_realised, wished)
        choices = kept.each(pool, "sizes", searched, list(pools(study)))
        shown = pictures(study, pool, kept)
    every = answers.kept()
    known = against.Known.of(every)
    members = said.get("one_by_one", {}) | {run.name: one_by_one(run) for run in study.runs if tells_of_members(run)}
    found = {
        "rows": [row for of_run in rows for row in of_run],
        "against": by_slug(known.settings(), lambda setting: against.against(known, setting)),
        "warm_started": by_slug(known.settings(), lambda setting: against.warm_started(known, setting)),
        "asked": by_setting(wished, asked),
        "small_first": [small_first.at_every_cost(seeds) for seeds in small_first.of_all_seeds(every)],
        "searched": choices,
        "one_by_one": members,
        "taught": taught(members.values()),
        "teachers": teachers(members.values()),
        "training": {run.name: progress(run) for run in study.runs if run.method == "irene"},
        "time": card_time(said.get("time", {"card_s": 0.0, "runs": []}), study.runs),
        "speed": {
            run.name: speed(run) if had else None
            for run, had in zip(study.runs, alone, strict=True)
            if run.method == "average"
        },
        "side_by_side": [
            {"at_once": len(runs), **speed_of(runs)} for runs in side_by_side(study.runs) if pays(runs, rates)
        ],
    }
    shown["ablation"] = shortened(by_slug(known.settings(), lambda setting: ablation(known, setting)))
    results = merged.results(said, found)
    results["rows"] = add_utilities(true_costs(results["rows"]))
    for path, content in zip(files, (results, merged.figures(drawn, shown)), strict=True):
        path.write_text(json_in_lines(content))
    print(f"{len(found['rows'])} rows of {len(study.runs)} runs; {len(results['rows'])} with those of other runs")
    if kept.others:
        print(f"{kept.others} results were found before the code changed: --anew computes all of them again")


def by_slug(settings: Sequence[Setting], find: Callable[[Setting], Any]) -> dict[str, Any]:
    """What there is to find in each setting."""
    found = ((setting.slug, find(setting)) for setting in settings)
    return {slug: about for slug, about in found if about is not None}


def tells_of_members(run: Packed) -> bool:
    """Whether its members are told of one by one: those who teach and are taught."""
    return run.has_heldout and run.method == "distil"


def by_setting(runs: Sequence[Packed], asked: Sequence[dict[str, float]]) -> dict[str, list[dict[str, float]]]:
    """What runs realised of the costs asked for, by setting and method."""
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    for run, realised in zip(runs, asked, strict=True):
        found[f"{run.setting.slug}: {run.label}"].append(realised)
    return dict(sorted(found.items()))


def rows_of(run: Packed, alone: bool) -> list[dict[str, Any]]:
    """The run itself and, for an average ensemble, the methods that share its members; FGE's with thresholds, too.

    Who was trained last, and so longest, of FGE's members is then the first to run. `alone` says whether the run had
    the card to itself: `train_s` and `ms` of one that had not are no measure.
    """
    setting = run.setting
    version = run.manifest["environment"]["torch"].split("+")[0]
    about = {
        "dataset": setting.dataset,
        "backbone": setting.backbone,
        "members": len(run.backbones),
        "seed": run.seed,
        "epochs": setting.epochs,
        "images": setting.images,
        "train_s": round(run.manifest["seconds"], 1),
        "alone": alone,
        "hardware": f"NVIDIA H200, torch {version}, bf16",
    }

    def row(method: str, figures: dict[str, Any], **changes: Any) -> dict[str, Any]:
        return {**about, "method": method, **{key: figures[key] for key in KEPT}, **changes}

    def replayed(bank: Bank, policy: Policy | None = None, aggregation: Aggregation | None = None) -> dict[str, Any]:
        return figures_of(bank.replay(policy, aggregation), bank.targets, bank.costs)

    def stopped(members: str, heldout: Bank, test: Bank) -> list[dict[str, Any]]:
        points = {name: fit_policy(heldout, name, cost=1.3) for name in THRESHOLDS}
        return [
            row(f"{members}, {title(name)} at 1.3", replayed(test, point.policy, point.aggregation))
            for name, point in points.items()
        ]

    if run.method != "average":
        done_over = run.ends_on_heldout
        figures = replayed(run.bank("test"), run.policy(), run.aggregation) if done_over else run.figures["test"]
        rows = [row(run.label, figures)]
        if run.method == "fge" and run.has_heldout:
            last_first = range(len(run.backbones))[::-1]
            banks = (run.bank(split).members(last_first) for split in ("heldout", "test"))
            rows += stopped(f"{run.label} last first", *banks)
        return rows
    test = run.bank("test")
    count = len(run.backbones)
    size = run.label.removeprefix("average")
    rows = [row(run.label, replayed(test))]
    if count == TABLE_MEMBERS:  # the first member of a larger ensemble is the same one
        train_s = round(run.manifest["seconds"] / count, 1)
        rows.insert(0, row("single", replayed(test.members([0])), members=1, train_s=train_s))
    if run.has_heldout:
        heldout = run.bank("heldout")
        confidence = Confidence(choose_threshold(heldout.trajectory(Confidence()), heldout.targets))
        rows.append(row(f"woc{size}", replayed(test, confidence)))
        rows += stopped(f"average{size}", heldout, test)
    return rows


def setting_of(row: dict[str, Any]) -> Setting:
    return Setting(row["dataset"], row["backbone"], row["epochs"], row["images"])


def true_costs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cost of a network that computes as several do is its FLOPs over those of the single one."""
    single = {setting_of(row): row["flops"] for row in rows if row["method"] == "single"}
    return [
        {**row, "cost": row["flops"] / single[setting_of(row)]}
        if row["method"] in ("mimo", "batch-ensemble") and setting_of(row) in single
        else row
        for row in rows
    ]


def add_utilities(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Utility against the mean single and the mean average of three of the same setting."""
    accuracies: dict[tuple[Setting, str], list[float]] = defaultdict(list)
    for row in rows:
        accuracies[setting_of(row), row["method"]].append(row["accuracy"])
    mean = {key: statistics.mean(values) for key, values in accuracies.items()}

    def of(row: dict[str, Any]) -> float | None:
        single, average = (mean.get((setting_of(row), name)) for name in ("single", "average"))
        if single is None or average is None:
            return None
        return utility(row["accuracy"], row["cost"], single=single, average=average)

    return [{**row, "utility": of(row)} for row in rows]


def progress(run: Packed) -> dict[str, Any]:
    """Seconds an epoch of each member and how they vary, and S(t) and the expected cost over training."""
    wanted = ("S2", "S3", "S4", "expected_members", "price")
    lines = run.epochs()
    return {
        stage: {
            "median_epoch_s": round(statistics.median(seconds), 4),
            "epoch_s_unsteady": round(unsteady(seconds), 4),
            **{key: [round(line[key], 4) for line in lines[stage]] for key in wanted if key in lines[stage][0]},
        }
        for stage, seconds in run.epoch_seconds().items()
    }


def unsteady(seconds: Sequence[float]) -> float:
    """How far apart the first and the last decile are, over the median: large where neighbours came and went."""
    deciles = statistics.quantiles(seconds, n=10)
    return (deciles[-1] - deciles[0]) / statistics.median(seconds)


def in_use(runs: Sequence[Packed]) -> float:
    """Seconds in which at least one of the runs was training: many did so side by side."""
    seconds, until = 0.0, 0.0
    for run in sorted(runs, key=lambda run: run.begun):
        ended = run.begun + float(run.manifest["seconds"])
        seconds += max(0.0, ended - max(until, run.begun))
        until = max(until, ended)
    return seconds


def card_time(said: dict[str, Any], runs: Sequence[Packed]) -> dict[str, Any]:
    """Seconds in which at least one run was training, and the runs they are of; those of other days did not overlap."""
    counted = set(said["runs"])
    more = in_use(runs) - in_use([run for run in runs if run.name in counted])
    return {"card_s": round(said["card_s"] + more, 1), "runs": sorted(counted | {run.name for run in runs})}


def speed(run: Packed) -> dict[str, Any]:
    """Images a second and TFLOP/s of plain training, from the median epoch."""
    return {"run": run.name, **speed_of([run])}


def speed_of(runs: Sequence[Packed]) -> dict[str, Any]:
    """What the card does in all for networks of one kind that train at the same time, or for one; seconds for each."""
    flops, rate = runs[0].first_flops, sum(run.rate() for run in runs)
    seconds = [line["seconds"] for run in runs for line in next(iter(run.epochs().values()))]
    return {
        "backbone": runs[0].first_trained,
        "epoch_s": round(statistics.median(seconds) / len(runs), 4),
        "images_per_s": round(rate / (3 * flops)),
        "tflops": round(rate / 1e12, 1),
    }


def side_by_side(runs: Sequence[Packed]) -> list[list[Packed]]:
    """Runs that began together with networks of one kind, for as many epochs; the fastest of these are last."""
    groups: dict[tuple[str, int], list[list[Packed]]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.begun):
        alike = groups[run.first_trained, run.setting.epochs]
        if alike and run.begun - alike[-1][0].begun < BEGAN_TOGETHER_S:
            alike[-1].append(run)
        else:
            alike.append([run])
    found = [group for alike in groups.values() for group in alike if len(group) > 1]
    return sorted(found, key=lambda group: sum(run.rate() for run in group))


def pays(runs: Sequence[Packed], rates: dict[str, float]) -> bool:
    """Whether the card did more for these than for one alone; if not, it may have had others to train."""
    return sum(run.rate() for run in runs) > rates.get(runs[0].first_trained, math.inf)


def pictures(study: Study, pool: Executor, kept: Kept) -> dict[str, Any]:
    """What the figures show, by study of the package and setting; a study that lacks runs has no entry.

    Of the lengths of training of a backbone on a data set, the one with most members, seeds and epochs is shown.
    """
    best: dict[tuple[str, str, str], tuple[tuple[int, int, int], Setting, list[Packed]]] = {}
    for setting in study.settings():
        for name, runs in wanted(study, setting).items():
            place = (name, setting.dataset, setting.backbone)
            size, seeds = max(len(run.backbones) for run in runs), len({run.seed for run in runs})
            rank = (size, min(seeds, merged.ENOUGH), setting.epochs)
            if place not in best or rank > best[place][0]:
                best[place] = rank, setting, runs
    found: dict[str, dict[str, Any]] = {name: {} for name in ("members", "pareto", "size", "ablation", "curves")}
    names, chosen = [name for name, _, _ in best], list(best.values())
    measured = kept.each(pool, "figures", measure, names, [runs for _, _, runs in chosen])
    for name, (_, setting, _), figure in zip(names, chosen, measured, strict=True):
        found[name][setting.slug] = figure
    return found


def measure(name: str, runs: Sequence[Packed]) -> Any:
    """What a study of the package finds in these runs."""
    return shortened(as_json(studies.find_study(name).measure(runs)))


def wanted(study: Study, setting: Setting) -> dict[str, list[Packed]]:
    """The runs that each study of the package can be made of in a setting; those of label noise are not shown."""
    runs = [run for run in study.runs if run.setting == setting and run.has_heldout and "+" not in setting.dataset]
    irenes, averages = ([run for run in runs if run.label == label] for label in (IRENE, "average"))
    larger = [run for run in runs if run.label.startswith("average of ")] or averages
    of_other_sizes = [run for run in runs if run.label.startswith(f"{IRENE} of ") or run.method in ("snapshot", "fge")]
    found = {"members": larger, "curves": irenes}
    if averages and irenes:
        found["pareto"] = [*averages, *irenes]
        found["size"] = [*larger, *irenes, *of_other_sizes]
    return {name: chosen for name, chosen in found.items() if chosen}


def shortened(value: Any) -> Any:
    """With the names of runs in place of their folders, without figures of single seeds, in five digits."""
    if isinstance(value, dict):
        names = {"runs": [Path(path).name for path in value["runs"]]} if "runs" in value else {}
        return {key: shortened(part) for key, part in value.items() if key != "by_seed"} | names
    if isinstance(value, list):
        return [shortened(part) for part in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
