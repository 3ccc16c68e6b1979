"""The answers of a run for files, as records of plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from irene.cascade import Cascade
from irene.cli.inputs import Rows, read_rows
from irene.data.images import is_image
from irene.errors import OptionError
from irene.halting.policy import Policy
from irene.mixture import Mixture
from irene.models import Member
from irene.run import Run
from irene.runtime.backend import parse_backend
from irene.runtime.buckets import usual_bucket
from irene.runtime.stream import MOST_BYTES, Stream, StreamOptions
from irene.types import Prediction

DECIMALS = 6  # of probabilities
DIGITS = 7  # of values, which may be of any size; float32 has no more
CHUNK = 64  # batches
LARGEST = 2**14  # samples at once: no device is faster with more
FEW = 8  # samples of each batch tell its scale; all of them would take longer than a GPU does for the answers
FAR = 10  # times another spread than that of training is no longer a matter of content
Record = dict[str, Any]


class Answers:
    """Answers inputs by a run: on the streaming engine, or batch by batch where a gate or router picks members.

    Batches are grouped into chunks, and the engine is emptied after each: so a chunk is answered in exactly the same
    way whether or not those before it were answered by the same process.
    """

    def __init__(
        self,
        run: Run,
        predictor: Cascade | Mixture,
        device: torch.device,
        *,
        point: str | None,
        backend: str,
        bucket: int,
        warn: Callable[[str], None],
    ) -> None:
        self.run = run
        self.device = device
        self.bucket = bucket
        self._predictor = predictor
        self._cascade: Cascade | None = None  # what the engine can run: members that have an order
        if isinstance(predictor, Cascade) and isinstance(predictor.policy, Policy):
            self._cascade = predictor
        self._backend, self._precision = parse_backend(backend)
        if self._precision == "int8":
            raise OptionError("in int8 thresholds shift and have to be calibrated again: use irene export --int8")
        if self._cascade is None and backend != "eager":
            whose = f"{predictor.policy.name} policy" if isinstance(predictor, Cascade) else "gate"
            raise OptionError(
                f"the {whose} of {point or run.path} picks the members of each sample, so they have no order: they run "
                f"on the eager backend alone, got {backend}"
            )
        self._streams: dict[torch.dtype, Stream] = {}
        self.getting_ready_s = 0.0  # what building engines took so far
        self._warn = warn
        self._warned = self._told = False  # of the scale of inputs, of samples without an answer

    def chunks(self, files: Sequence[Path], *, probs: bool, skip: int = 0) -> Iterator[Iterator[list[Record]]]:
        """For each chunk after the first `skip`, the records of its batches one after the other.

        A chunk must be used up before the next is asked for.
        """
        about = self.run.manifest["data"]
        batches = read_rows(files, about, batch_size=self.bucket, skip=skip * CHUNK, warn=self._warn)
        for first in batches:
            yield self._records(chain([first], islice(batches, CHUNK - 1)), probs=probs)

    def _records(self, batches: Iterable[Rows], *, probs: bool) -> Iterator[list[Record]]:
        places: list[list[tuple[str, int]]] = []

        def inputs() -> Iterator[Tensor]:
            for rows in batches:
                places.append(rows.places)
                self._check_scale(rows.inputs)
                yield rows.inputs

        for answer in self._answers(inputs()):
            yield self._as_records(places.pop(0), answer, probs=probs)

    def _check_scale(self, inputs: Tensor) -> None:
        """Warn, once, of images in another scale than those of training: every answer would be wrong."""
        member = self._predictor.members[0]
        if self._warned or inputs.ndim != 4 or not isinstance(member, Member):
            return
        spread, usual = float(inputs[:FEW].float().std()), float(member.normalise.get_buffer("std").mean())
        if 0 < spread < usual / FAR or spread > usual * FAR:
            self._warned = True
            example = "0 to 1 in place of 0 to 255" if spread < usual else "0 to 255 in place of 0 to 1"
            self._warn(
                f"these images have a standard deviation of {spread:.3g} and those of training had {usual:.3g}: "
                f"are they in another scale, such as {example}?"
            )

    def _check_answers(self, places: list[tuple[str, int]], answer: Prediction) -> None:
        """Warn, once, of samples without an answer."""
        failed = answer.failed.tolist()
        if not self._told and any(failed):
            self._told = True
            file, row = places[failed.index(True)]
            hint = "look at its input and at the members" if self._precision == "fp32" else "try a backend in fp32"
            self._warn(f"{file}, row {row}: a member gave NaN or infinity, so this sample has no answer: {hint}")

    def _answers(self, batches: Iterator[Tensor]) -> Iterator[Prediction]:
        if self._cascade is None:
            for batch in batches:
                yield self._predictor.predict(batch.to(self.device))
            return
        # An image run takes uint8 images and arrays of floats, an engine one of them.
        for dtype, alike in groupby(batches, key=lambda batch: batch.dtype):
            if dtype not in self._streams:
                begun = perf_counter()
                example = torch.zeros(1, *self.run.manifest["data"]["shape"], dtype=dtype, device=self.device)
                self._streams[dtype] = self._stream(self._cascade, example)
                self.getting_ready_s += perf_counter() - begun
            yield from self._streams[dtype].predict(alike)

    def _stream(self, cascade: Cascade, example: Tensor) -> Stream:
        # Compiling the small steps between members takes longer than it saves here, where buckets are large.
        options = StreamOptions(bucket=self.bucket, fuse=False)
        return Stream(cascade, example, backends=self._backend, precision=self._precision, options=options)

    def _as_records(self, places: list[tuple[str, int]], answer: Prediction, *, probs: bool) -> list[Record]:
        names = self.run.manifest["data"]["classes"]
        self._check_answers(places, answer)
        classes = self.run.task == "classification"
        labels = answer.labels.tolist() if classes else [-1] * len(answer)
        outputs, used = answer.outputs.double().tolist(), answer.members_used.tolist()
        records = []
        for (file, row), output, label, members in zip(places, outputs, labels, used, strict=True):
            values = [round(value, DECIMALS) if classes else float(f"{value:.{DIGITS}g}") for value in output]
            record: Record = {"file": file, "row": row}
            if not classes:
                record["values"] = dict(zip(names, values, strict=True))
            elif label < 0:
                record |= {"label": label, "class": "", "probability": math.nan}
            else:
                record |= {"label": label, "class": names[label], "probability": values[label]}
            record["members_used"] = members
            if probs:
                record["probs"] = dict(zip(names, values, strict=True))
            records.append(record)
        return records


def bucket_for(run: Run, files: Sequence[Path], device: torch.device, asked: int | None) -> int:
    """Samples run at once: as asked, else by what the device and the inputs are.

    Memory is taken for so many before the first is read: no more than can be of use, or than there are images.
    """
    shape: list[int] = run.manifest["data"]["shape"]
    fitting = max(MOST_BYTES // (4 * math.prod(shape)), 1)  # inputs are float32 at most
    most = min(asked or usual_bucket(shape, device), LARGEST, fitting)
    return min(most, len(files)) if all(map(is_image, files)) else most
