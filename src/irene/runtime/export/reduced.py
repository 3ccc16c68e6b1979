"""A run in 8-bit integers for export: members quantised, every operating point set again, what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from irene.bank import Bank, collect
from irene.cascade import MemberLike
from irene.data import Data, Loader, Samples
from irene.data.evenly import evenly
from irene.errors import CalibrationError, DataError, RunError
from irene.point import OperatingPoint
from irene.run import Run
from irene.runtime.graph_backend import GraphBackend
from irene.runtime.int8 import MOST_INPUTS
from irene.runtime.quantise import change
from irene.runtime.recalibrate import recalibrate, replay


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """Members in int8, and the operating points that fit them."""

    backends: dict[int, GraphBackend]  # by the number of the member: those that the points use
    points: tuple[OperatingPoint, ...]
    left_out: dict[str, str]  # points that cannot be set again, and why
    report: dict[str, Any]


def reduce(
    run: Run,
    members: Sequence[MemberLike],
    points: Sequence[OperatingPoint],
    data: Data,
    backend: type[GraphBackend],
    *,
    max_loss: float,
    every: bool = True,
) -> Reduced:
    """Quantise the members that the points use on the run's held-out samples; refuse a loss above `max_loss` there.

    What is compared with are the outputs that the run kept of its members as they were trained. The test samples stay
    untouched: they are for judging the exported folder. A point that cannot be set again is refused if `every` one is
    asked for, else left out.
    """
    if "heldout" not in run.manifest["banks"]:
        raise RunError(f"{run.path}: kept no held-out samples, and int8 needs some: export it without int8")
    before = run.bank("heldout")
    samples = heldout_samples(run, before, data)
    left_out: dict[str, str] = {}
    for point in points:  # before members are quantised, which takes long
        try:
            recalibrate(point, before, before)
        except CalibrationError as error:
            if every or len(points) == len(left_out) + 1:
                raise
            left_out[point.name] = str(error)
    points = [point for point in points if point.name not in left_out]
    inputs = samples.read(evenly(len(samples), MOST_INPUTS).tolist()).to(torch.float32)
    used = sorted({member for point in points for member in point.members}) or range(len(members))
    backends = {member: backend.load(members[member], inputs, precision="int8") for member in used}
    loader = Loader(samples, batch_size=256, device="cpu", shuffle=False)
    outputs = before.outputs.clone()
    for member, one in backends.items():
        outputs[:, member] = collect(one.run, loader.epoch(0))
    after = replace(before, outputs=outputs)
    changes = {}
    if len(backends) == len(members):
        whole = change(before.replay(None, run.aggregation), after.replay(None, run.aggregation), before.targets)
        whole.check(max_loss, "the whole ensemble")
        changes["whole"] = asdict(whole)
    again = tuple(recalibrate(point, before, after) for point in points)
    for point, new in zip(points, again, strict=True):
        stopping = change(replay(point, before), replay(new, after), before.targets)
        stopping.check(max_loss, f"the operating point {point.name}")
        changes[point.name] = asdict(stopping)
    report = {"samples": len(samples), "calibrated_on": len(inputs), "max_loss": max_loss, "changes": changes}
    return Reduced(backends=backends, points=again, left_out=left_out, report=report)


def heldout_samples(run: Run, bank: Bank, data: Data) -> Samples:
    """The samples of a bank, found again in the data by their ids."""
    if data.fingerprint != run.manifest["data"]["fingerprint"]:
        raise DataError(
            f"{data.name} is not the data that {run.path} keeps held-out outputs of ({run.manifest['data']['data']}): "
            "name that with --data"
        )
    for part in (data.train, data.test):
        ids, place = part.ids.sort()
        found = torch.searchsorted(ids, bank.ids).clamp(max=max(len(ids) - 1, 0))
        if len(ids) and torch.equal(ids[found], bank.ids):
            return part.subset(place[found])
    raise DataError(f"{data.name} does not hold the samples that {run.path} was calibrated on: train the run again")
