"""Runs of members that were trained elsewhere: from ONNX files, or from outputs that were computed with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from irene.bank import Bank
from irene.cascade import Cascade
from irene.data import Data, Samples
from irene.data.classes import align_classes
from irene.data.fingerprint import tensor_digest
from irene.data.splits import is_share
from irene.data.stratify import take_aside
from irene.errors import DataError, OptionError, RunError, first_line, some_of
from irene.evaluation.banks import bank_of
from irene.files import locked
from irene.halting.policies import Never
from irene.halting.rule import Aggregation
from irene.metrics import figures_of
from irene.models.cost import measure_cost
from irene.models.member import are_probabilities, as_heads
from irene.models.onnx_file import OnnxFile, self_contained
from irene.run import LOCK, Run, check_free
from irene.run_manifest import environment
from irene.types import Task, check_width

FILES, OUTPUTS = "imported", "outputs"
IMPORTED = (FILES, OUTPUTS)  # what stands for the method in runs that irene did not train
_EXAMPLES = 256  # samples that costs are measured with


def import_members(
    paths: Sequence[Path],
    out: str | Path,
    *,
    labels: Sequence[str] | None = None,
    data: Data | None = None,
    unseen: str = "all",
    task: Task | None = None,
    device: torch.device | str = "cpu",
) -> Run:
    """A run of ONNX models, copied into it, in the order they are to run; all of them run until it is calibrated.

    With labelled `data` it gets banks to calibrate and to test on: from the data's train and test samples if no member
    has seen any of them, or from halves of its test samples with `unseen="test"`.
    """
    if not paths:
        raise OptionError("a run needs at least one member, got none")
    check_free(Path(out))  # before the members run on all samples
    members = [OnnxFile(path) for path in paths]
    found_task: Task = data.task if data is not None else task or "classification"
    example = _example(members[0], data)
    classes = _class_names(members, example, labels, data, found_task)
    notes = _take_logarithms(members, example, found_task)
    if labels is None and found_task == "classification" and not all(name.isdecimal() for name in classes):
        shown = some_of(classes)
        notes.append(f"the outputs are taken for the classes of the data in this order: {shown}; --labels says another")
    contents = [self_contained(path) for path in paths]
    costs = tuple(measure_cost(member, example) for member in members)
    parts: dict[str, Samples] = {}
    if data is not None:
        parts = _parts(align_classes(data, classes), unseen)
    cascade = Cascade(members, costs=costs, task=found_task)
    fingerprint = None if data is None else data.fingerprint
    banks = {
        split: bank_of(cascade, samples, device, about={"split": split, "fingerprint": fingerprint})
        for split, samples in parts.items()
    }
    about: dict[str, Any] = {
        "data": "-" if data is None else data.name,
        "fingerprint": fingerprint,
        "sizes": {split: len(samples) for split, samples in parts.items()},
        "ids": {split: tensor_digest(samples.ids) for split, samples in parts.items()},
        "classes": list(classes),
        "shape": list(example.shape[1:]),
        "unseen": unseen,
        **({} if data is None else data.table),
    }
    run = _begin(out, FILES, found_task, [path.name for path in paths], about)
    for content, cost, member in zip(contents, costs, members, strict=True):
        run.save_onnx(content, cost, log=member.log)
    _finish(run, banks, notes)
    return run


def import_outputs(
    bank: Bank,
    out: str | Path,
    *,
    name: str,
    labels: Sequence[str] | None = None,
    split: str | None = None,
    heldout: float | int | None = None,
    seed: int = 0,
) -> Run:
    """A run of outputs alone: it can be calibrated and evaluated, and nothing in it can be run.

    The samples are cut in two, `heldout` or half of them to calibrate on and the others to test on; with `split` all
    are of that split, and a run of the same members that is there already gets it as a further one, of other samples.
    """
    digest = tensor_digest(bank.outputs, bank.targets)
    if split is not None and heldout is not None:
        raise OptionError(
            f"heldout cuts the samples in two and split {split} takes all of them: leave one of the two out"
        )
    if split is None:
        heldout = 0.5 if heldout is None else heldout
        count = round(heldout * len(bank)) if is_share(heldout) else int(heldout)
        if not 0 < count < len(bank):
            raise OptionError(f"heldout must leave samples on both sides of {len(bank)}, got {heldout}")
        rest, aside = take_aside(bank.targets, count, seed)
        cut: dict[str, Tensor] = {"heldout": aside, "test": rest}
    elif split in ("heldout", "test"):
        cut = {split: torch.arange(len(bank))}
    else:
        raise OptionError(f"split must be heldout or test, got {split!r}")
    banks = {key: replace(bank.rows(rows), about={"split": key, "fingerprint": digest}) for key, rows in cut.items()}
    classes = _output_names(labels, bank.outputs.shape[3], bank.task)
    if split is not None and (Path(out) / "run.json").exists():
        with locked(Path(out) / LOCK, wait=True):
            run = _further(Run.open(out), bank, classes, named=labels is not None)
            _refuse_known(run, digest, split)
            _finish(run, {key: replace(part, costs=run.costs) for key, part in banks.items()})
        return run
    about = {
        "data": name,
        "fingerprint": digest,
        "seed": seed,
        "sizes": {key: len(part) for key, part in banks.items()},
        "ids": {key: tensor_digest(part.ids) for key, part in banks.items()},
        "classes": list(classes),
        "shape": [],
    }
    run = _begin(out, OUTPUTS, bank.task, [f"member-{t + 1}" for t in range(bank.steps)], about)
    run.save_absent(bank.costs)
    _finish(run, banks)
    return run


def _begin(out: str | Path, method: str, task: Task, names: list[str], data: dict[str, Any]) -> Run:
    about = {"method": method, "task": task, "seed": 0, "backbones": names, "options": {}, "data": data}
    return Run.create(out, {**about, "environment": environment()})


def _finish(run: Run, banks: Mapping[str, Bank], notes: Sequence[str] = ()) -> None:
    """Write banks, the figures of the whole ensemble on them, and a policy that runs every member."""
    figures = dict(run.manifest.get("figures", {}))
    for split, bank in banks.items():
        run.save_bank(split, bank)
        figures[split] = figures_of(bank.replay(), bank.targets, bank.costs)
        run.manifest["data"]["sizes"][split] = len(bank)
        run.manifest["data"]["ids"][split] = tensor_digest(bank.ids)
    run.save_policy(Never())
    aggregation = Aggregation.equal(len(run.costs)).to_dict()
    run.write(status="finished", aggregation=aggregation, figures=figures, notes=list(notes), seconds=0.0)


def _example(member: OnnxFile, data: Data | None) -> Tensor:
    """Samples to try the members with: of the data, or noise in the shape that the first member takes."""
    if data is not None:
        return data.train.read(range(min(len(data.train), _EXAMPLES)))
    shape = [size for size in member.shape if isinstance(size, int)]
    if not shape or len(shape) < len(member.shape):
        raise OptionError(f"{member.path}: its sample shape is not fixed: give samples with --data")
    noise = torch.rand(_EXAMPLES, *shape, generator=torch.Generator().manual_seed(0))
    return noise if member.dtype.__name__.startswith("float") else (255 * noise).to(torch.uint8)


def _class_names(
    members: Sequence[OnnxFile], example: Tensor, labels: Sequence[str] | None, data: Data | None, task: Task
) -> tuple[str, ...]:
    """The name of each output, from the labels or the data, after a look at what every member answers with."""
    width = None
    for member in members:
        try:
            found = as_heads(member(example[:2])).shape[2]
        except OptionError as error:
            raise OptionError(f"{member.path}: {error}") from None
        except DataError:  # which names it
            raise
        except Exception as error:  # ONNX Runtime has a class for each reason and no common one that it publishes
            shape = tuple(example.shape[1:])
            tried = "samples" if data is not None else "noise"
            remedy = "" if data is not None else "; give samples that it takes with --data"
            why = first_line(error)
            raise DataError(f"{member.path}: does not take {tried} of shape {shape} ({why}){remedy}") from error
        if width is not None and found != width:
            raise OptionError(f"{member.path}: answers with {found} outputs and {members[0].path} with {width}")
        width = found
    assert width is not None  # there is at least one member
    named = None if data is None or all(name.isdecimal() for name in data.classes) else data.classes
    if labels is None and data is not None and named is not None and len(named) != width:
        kind, remedy = (
            ("classes", "name the outputs with --labels")
            if task == "classification"
            else ("values a sample to predict", "if its targets are classes, give --task classification")
        )
        raise DataError(f"the members answer with {width} outputs and {data.name} has {len(named)} {kind}: {remedy}")
    return _output_names(labels or named, width, task)


def _take_logarithms(members: Sequence[OnnxFile], example: Tensor, task: Task) -> list[str]:
    """Make members that answer with probabilities give their logarithms, which are logits; notes on which did."""
    notes = []
    for member in members:
        if task == "regression":
            member.log = False
        elif not member.log and are_probabilities(member(example)):
            member.log = True
            notes.append(f"{member.path.name} answers with probabilities: their logarithms are taken as logits")
    return notes


def _output_names(labels: Sequence[str] | None, width: int, task: Task) -> tuple[str, ...]:
    check_width(width, task)
    if labels is not None and len(labels) != width:
        raise OptionError(f"the members answer with {width} outputs and there are {len(labels)} labels")
    if labels is not None and len(set(labels)) != width:
        raise OptionError("every label must be different: one of them occurs twice")
    default = "target" if task == "regression" else ""
    return tuple(labels) if labels is not None else tuple(f"{default}{i}" for i in range(width))


def _parts(data: Data, unseen: str) -> dict[str, Samples]:
    if unseen == "all":
        parts = {"heldout": data.train, "test": data.test}
    elif unseen == "test":
        rest, aside = take_aside(data.test.targets, len(data.test) // 2, 0)
        parts = {"heldout": data.test.subset(rest), "test": data.test.subset(aside)}
    else:
        raise OptionError(f"unseen must be all or test, got {unseen!r}")
    return {split: samples for split, samples in parts.items() if len(samples)}


def _further(run: Run, bank: Bank, classes: tuple[str, ...], *, named: bool) -> Run:
    """The run, once it is known to hold outputs of the same members."""
    if run.method != OUTPUTS:
        raise RunError(f"{run.path}: holds a run with members of its own: give another folder (--out)")
    same = run.task == bank.task and len(run.costs) == bank.steps
    if not same or len(run.manifest["data"]["classes"]) != len(classes):
        raise RunError(f"{run.path}: holds outputs of other members or classes: give another folder (--out)")
    if named and run.manifest["data"]["classes"] != list(classes):
        known = some_of(run.manifest["data"]["classes"])
        raise RunError(f"{run.path}: its outputs are of {known}, got the labels {some_of(classes)}: leave them out")
    return run


def _refuse_known(run: Run, digest: str, split: str) -> None:
    """Refuse outputs that are of another split already: what is tested on the calibration samples looks too good."""
    for other in run.manifest["banks"]:
        if other != split and run.bank(other).about.get("fingerprint") == digest:
            raise RunError(
                f"{run.path}: its {other} outputs are from these very samples, and {split} needs others: give outputs "
                "on other samples, or leave --split out for a new run that cuts these in two"
            )
