"""Data that a run was not trained on: read as the run takes it, and every member's outputs on it."""

from __future__ import annotations

from typing import Any

import torch

from irene.bank import Bank, check_logits, outputs_of
from irene.cascade import Cascade
from irene.data import Column, Data, Loader, Samples
from irene.data.classes import align_classes
from irene.data.like import Like, Unseen
from irene.errors import DataError, some_of
from irene.run import Run


def bank_of(
    cascade: Cascade, samples: Samples, device: torch.device | str, *, about: dict[str, Any], readers: int = 0
) -> Bank:
    """Run every member of a cascade on samples; they are read batch by batch where they are not in memory."""
    loader = Loader(samples, batch_size=1024, device=device, shuffle=False, readers=readers)
    outputs = outputs_of(cascade, (batch.inputs for batch in loader.epoch(0)))
    check_logits(outputs, cascade.task)
    return Bank(
        task=cascade.task,
        outputs=outputs,
        targets=samples.targets,
        ids=samples.ids,
        costs=cascade.costs,
        about=about,
    )


def like_training(run: Run, unseen: Unseen | None = None) -> Like:
    """How data is read for a run: as what it was trained on; `unseen` is told of categories that were not there."""
    about = run.manifest["data"]
    columns = tuple(Column.from_dict(column) for column in about.get("columns", []))
    return Like(task=run.task, shape=tuple(about["shape"]), columns=columns, target=about.get("target"), unseen=unseen)


def as_run_expects(run: Run, data: Data) -> Data:
    """The data with its classes numbered as the run's; an error if it does not fit the run."""
    about = run.manifest["data"]
    if data.task != run.task:
        raise DataError(f"{data.name} is for {data.task} and {run.path} was trained for {run.task}")
    if list(data.shape) != about["shape"]:
        raise DataError(f"{data.name} has samples of shape {list(data.shape)}, {run.path} takes {about['shape']}")
    if data.task == "regression" and list(data.classes) != about["classes"]:
        raise DataError(
            f"{data.name} has other values to predict, {some_of(data.classes)}, than the data {run.path} was trained "
            f"on, {some_of(about['classes'])}: give data that names the same ones"
        )
    if [column.to_dict() for column in data.columns] != about.get("columns", []):
        raise DataError(f"{data.name} has other columns or categories than the table {run.path} was trained on")
    return align_classes(data, about["classes"])


def unseen_samples(run: Run, data: Data, point: str | None = None) -> tuple[str, tuple[Samples, ...]]:
    """The samples that a run may be judged by: "all", or "test" if it was trained or calibrated on the others.

    Data is known by its fingerprint. Of test samples of which an imported run holds out some, the rest may.
    """
    known = {run.manifest["data"]["fingerprint"]}
    if point is not None:
        known.add(run.point(point).data["fingerprint"])
    if data.fingerprint not in known:
        return "all", (data.train, data.test)
    if run.manifest["data"].get("unseen") == "test":
        return "test", (data.test.subset(torch.isin(data.test.ids, run.bank("test").ids).nonzero()[:, 0]),)
    return "test", (data.test,)
