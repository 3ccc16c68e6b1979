"""The report of some runs: what they achieve, at what cost, and what exactly was run, in one HTML file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from irene import __version__
from irene.errors import RunError
from irene.evaluation import evaluate, report_pictures
from irene.evaluation.evaluate import Evaluation
from irene.evaluation.facts import facts, learning
from irene.evaluation.page import Page
from irene.evaluation.report_pictures import Series
from irene.evaluation.table import gain, refuse_twice
from irene.evaluation.table_files import written_gain, written_utility
from irene.evaluation.utility import utility
from irene.files import check_writable, write_atomically
from irene.halting.policies import Margin
from irene.numbers import milliseconds, si
from irene.pictures import COLOURS
from irene.run import Run


def write_report(runs: Sequence[Run], path: str | Path, *, split: str = "test") -> Path:
    """Write one self-contained HTML file about runs of the same task on the same data and return its path."""
    if not runs:
        raise RunError("a report needs at least one run, got none")
    refuse_twice(runs)
    tasks = {run.task for run in runs}
    if len(tasks) > 1:
        raise RunError("a report is about runs of one task, got classification and regression: make two reports")
    check_writable(Path(path))
    evaluations = [evaluate.evaluate(run, split) for run in runs]
    evaluate.check_same_samples(evaluations)
    write_atomically(Path(path), render_report(evaluations).encode())
    return Path(path)


def render_report(evaluations: Sequence[Evaluation]) -> str:
    """The report as HTML text."""
    names = evaluate.labels(evaluations)
    page = Page(f"irene report: {', '.join(names)}")
    page.text(headline(evaluations, names), "lead")
    _table(page, evaluations, names)
    _frontier(page, evaluations, names)
    _members_used(page, evaluations, names)
    _answers(page, evaluations, names)
    _learning(page, evaluations, names)
    _what_was_run(page, evaluations, names)
    return page.render(f"Written by irene {__version__}.")


def headline(evaluations: Sequence[Evaluation], names: Sequence[str]) -> str:
    """The one sentence to take home: what the run that stops early gives, and against what."""
    early = [one for one in evaluations if one.stops_early]
    among = early or evaluations
    split = _judged_on(evaluations)
    best = _best(among, split)
    name, cost, steps = names[evaluations.index(best)], best.figures["cost"], best.bank.steps
    if len(among) > 1:
        runs = f"{len(among)} runs that stop early" if early else f"{len(among)} runs"
        quality = "accuracy" if best.bank.task == "classification" else "error"
        name += f" (of {runs}, the best by {'held-out' if split == 'heldout' else split} {quality})"
    data = best.run.manifest["data"]["data"]
    if best.bank.task == "classification":
        says = f"{name} answers {best.figures['accuracy']:.1%} of the {data} {best.split} samples right"
    else:
        error = f"{best.figures['rmse']:.4g}"
        says = f"{name} predicts the {data} {best.split} samples with a root mean square error of {error}"
    if steps == 1:
        return f"{says} with one model."
    says += f" with {cost:.2f} of its {steps} members a sample"
    comparable = [one for one in evaluations if evaluate.same_samples(one, best)]
    rival = _rival(best, evaluations) or _best(comparable, split)
    if rival is best:
        return f"{says}."
    whose = "the whole average ensemble" if rival.run.method == "average" else names[evaluations.index(rival)]
    return f"{says}, {_against(best, rival)} {whose} at {_share(best, rival)}."


def _share(best: Evaluation, rival: Evaluation) -> str:
    """The cost of one as a share of the other's: in FLOPs where they were counted, as members may differ in size."""
    measured = all(one.figures["flops"] > 0 for one in (best, rival))  # NaN is above nothing
    unit, said = ("flops", "FLOPs") if measured else ("cost", "members")
    return f"{best.figures[unit] / rival.figures[unit]:.0%} of its {said}"


def _against(best: Evaluation, rival: Evaluation) -> str:
    if best.bank.task == "regression":
        mine, theirs = best.figures["rmse"], rival.figures["rmse"]
        if math.isclose(mine, theirs, rel_tol=5e-4):
            return "with the error of"
        share = f"{abs(mine / theirs - 1):.1%} " if theirs else ""  # of no error nothing is a share
        return f"{share}{'more' if mine > theirs else 'less'} error than"
    points = 100 * (best.figures["accuracy"] - rival.figures["accuracy"])
    if abs(points) < 0.05:
        return "as many as"
    return f"{abs(points):.1f} points {'more' if points > 0 else 'fewer'} than"


def _judged_on(evaluations: Sequence[Evaluation]) -> str:
    """The split that runs are chosen by: held-out samples if all have them, as chosen ones do too well on their own."""
    return "heldout" if all("heldout" in one.run.figures for one in evaluations) else evaluations[0].split


def _best(evaluations: Sequence[Evaluation], split: str) -> Evaluation:
    """The best by its quality on a split, then by its cost there."""

    def goodness(one: Evaluation) -> tuple[float, float]:
        figures = one.figures if split == one.split else one.run.figures[split]
        figure = float(figures[evaluate.quality_name(one.bank.task)])
        return figure if one.bank.task == "classification" else -figure, -figures["cost"]

    return max(evaluations, key=goodness)


def _table(page: Page, evaluations: Sequence[Evaluation], names: Sequence[str]) -> None:
    classes = evaluations[0].bank.task == "classification"
    quality = ("accuracy", "NLL", "ECE") if classes else ("RMSE", "MAE", "R²")
    compared = classes and any(_rival(one, evaluations) for one in evaluations)
    last = ("against average", "utility") if compared else ()
    kinds = [[one] for one in evaluations]
    rows = []
    for name, one in zip(names, evaluations, strict=True):
        values = one.figures
        shown = [name, f"{values['cost']:.2f} of {one.bank.steps}", si(values["flops"]), milliseconds(values["ms"])]
        if classes:
            shown[1:1] = [f"{values['accuracy']:.2%}", f"{values['nll']:.3f}", f"{values['ece']:.3f}"]
        else:
            shown[1:1] = [f"{values['rmse']:.4g}", f"{values['mae']:.4g}", f"{values['r2']:.3f}"]
        if compared:
            rival = _rival(one, evaluations)
            shown += [written_gain(gain([one], [rival]) if rival else None), written_utility(utility([one], kinds))]
        rows.append(shown)
    page.table(("run", *quality, "members", "FLOPs", "ms", *last), rows)
    sizes = " and ".join(sorted({f"{len(one.bank):,}" for one in evaluations}))
    note = f"Measured on the {evaluations[0].split} split ({sizes} samples). Members, FLOPs and ms are means a sample."
    if compared:
        note += (
            " Against average: accuracy in points, with the 95 % interval of a paired bootstrap."
            " Utility: accuracy against cost as in the paper, 1 for one model and for the average of three: the first"
            " members of the average ensemble of the same seed; not defined without three of them, or where they are no"
            " better together than the first."
        )
    page.text(note, "note")


def _rival(evaluation: Evaluation, evaluations: Sequence[Evaluation]) -> Evaluation | None:
    average = evaluate.reference(evaluations, evaluation)
    return None if average is evaluation else average


def _frontier(page: Page, evaluations: Sequence[Evaluation], names: Sequence[str]) -> None:
    quality = evaluate.quality_name(evaluations[0].bank.task)
    lines, dots = [], []
    for index, (name, one) in enumerate(zip(names, evaluations, strict=True)):
        colour = COLOURS[index % len(COLOURS)]
        dots.append(_series(name, ([one.figures["cost"]], [one.figures[quality]]), colour))
        if one.bank.gates is not None or one.bank.steps == 1:
            continue
        if one.run.manifest["policy"]["name"] != "never":
            lines.append(_series(f"{name}, any threshold", evaluate.frontier_points(one), colour))
        elif one.bank.task == "classification":
            swept = evaluate.frontier_points(one, Margin())
            lines.append(_series(f"{name}, stopped by margin", swept, colour, dashed=True))
    title = quality if quality == "accuracy" else quality.upper()
    page.heading(f"{title[0].upper()}{title[1:]} against cost")
    page.text(
        "A dot is a run as it was trained. A line shows what the same members would give at every other threshold, "
        "replayed from their saved outputs; a dashed one stops an ensemble that was trained to run whole.",
        "note",
    )
    page.picture(report_pictures.frontier([*lines, *dots], quality=title), f"{title} against mean cost in members")


def _series(name: str, points: tuple[list[float], list[float]], colour: str, *, dashed: bool = False) -> Series:
    return Series(name=name, cost=points[0], quality=points[1], colour=colour, dashed=dashed)


def _members_used(page: Page, evaluations: Sequence[Evaluation], names: Sequence[str]) -> None:
    page.heading("Members a sample used")
    shares = {name: one.figures["used"] for name, one in zip(names, evaluations, strict=True)}
    page.picture(report_pictures.members_used(shares), "share of samples per number of members, for each run")


def _answers(page: Page, evaluations: Sequence[Evaluation], names: Sequence[str]) -> None:
    colours = [COLOURS[index % len(COLOURS)] for index in range(len(names))]
    pairs = list(zip(names, evaluations, strict=True))
    if evaluations[0].bank.task == "classification":
        page.heading("Is its confidence honest?")
        page.text(
            "On the dashed line, of all answers given with 80 % confidence 80 % are right. A dot stands for at least "
            f"{report_pictures.FEWEST} samples, and is larger the more there are.",
            "note",
        )
        judged = {}
        for name, one in pairs:
            confidence, answer = one.prediction.probs.max(1)
            judged[name] = (confidence.numpy(), (answer == one.bank.targets).numpy())
        page.picture(report_pictures.reliability(judged, colours), "share of right answers against their confidence")
    else:
        page.heading("Predicted against true")
        values = {
            name: (one.prediction.values.flatten().numpy(), one.bank.targets.flatten().numpy()) for name, one in pairs
        }
        page.picture(report_pictures.predicted_against_true(values, colours), "predicted against true values")


def _learning(page: Page, evaluations: Sequence[Evaluation], names: Sequence[str]) -> None:
    curves = {name: learning(one.run) for name, one in zip(names, evaluations, strict=True)}
    curves = {name: stages for name, stages in curves.items() if stages}
    if curves:
        page.heading("Learning curves")
        page.text("The loss of each model on its training samples.", "note")
        page.picture(report_pictures.learning_curves(curves), "training loss by epoch, for each run and member")


def _what_was_run(page: Page, evaluations: Sequence[Evaluation], names: Sequence[str]) -> None:
    page.heading("What was run")
    for name, one in zip(names, evaluations, strict=True):
        page.details(name, facts(one.run), code=("command", "run", "options", "fingerprint"))
