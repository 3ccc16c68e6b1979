"""Answers as records, and records as CSV or JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

import torch

from irene.cli.inputs import read_rows
from irene.errors import OptionError
from irene.files import write_atomically
from irene.run import Run

Format = Literal["csv", "jsonl"]
DIGITS = 6
Record = dict[str, Any]


@dataclass
class Total:
    """How much was predicted."""

    samples: int = 0
    members: int = 0


def pick_format(asked: str | None, out: Path | None) -> Format:
    """The format asked for, or the one a file's name ends in."""
    if asked not in (None, "csv", "jsonl"):
        raise OptionError(f"--format must be csv or jsonl, got {asked!r}")
    if asked == "jsonl" or (asked is None and out is not None and out.suffix in (".jsonl", ".json")):
        return "jsonl"
    return "csv"


def predictions(
    run: Run, files: Sequence[Path], device: torch.device, *, point: str | None, batch_size: int, probs: bool
) -> Iterator[Record]:
    """The answer for each sample in files, as plain values."""
    about = run.manifest["data"]
    names = about["classes"]
    predictor = run.predictor(device, point=point)
    for rows in read_rows(files, about, batch_size=batch_size):
        answer = predictor.predict(rows.inputs.to(device))
        outputs, used = answer.outputs.double().cpu(), answer.members_used.tolist()
        for (file, row), output_K, members in zip(rows.places, outputs, used, strict=True):
            values = [round(value, DIGITS) for value in output_K.tolist()]
            record: Record = {"file": file, "row": row}
            if run.task == "classification":
                label = int(output_K.argmax())
                record |= {"label": label, "class": names[label], "probability": values[label]}
            else:
                record["values"] = dict(zip(names, values, strict=True))
            record["members_used"] = members
            if probs and run.task == "classification":
                record["probs"] = dict(zip(names, values, strict=True))
            yield record


def write(records: Iterable[Record], kind: Format, out: Path | None, stdout: TextIO) -> Total:
    """Write records as they come to stdout, or all at once to a file."""
    total = Total()
    target = stdout if out is None else io.StringIO()
    table = csv.writer(target, lineterminator="\n")
    for record in records:
        if kind == "jsonl":
            target.write(json.dumps(record) + "\n")
        else:
            flat = flatten(record)
            if total.samples == 0:
                table.writerow(flat)
            table.writerow(flat.values())
        total.samples += 1
        total.members += record["members_used"]
    if out is not None and isinstance(target, io.StringIO):
        write_atomically(out, target.getvalue().encode())
    return total


def flatten(record: Record) -> Record:
    """A record as one row: values by their names, probabilities as p_CLASS."""
    flat: Record = {}
    for key, value in record.items():
        if key == "values":
            flat |= value
        elif key == "probs":
            flat |= {f"p_{name}": probability for name, probability in value.items()}
        else:
            flat[key] = value
    return flat
