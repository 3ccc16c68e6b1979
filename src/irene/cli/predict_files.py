"""Records as CSV, JSON lines or parquet: into a stream, or into a file by parts that survive being interrupted."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TextIO, get_args

from irene.cli.predictions import Record
from irene.errors import MissingExtraError, OptionError
from irene.files import sha256_of, write_atomically, write_json
from irene.run import Run

Format = Literal["csv", "jsonl", "parquet"]
_ENDINGS: dict[str, Format] = {".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet"}


def pick_format(asked: str | None, out: Path | None) -> Format:
    """The format asked for, or the one a file's name ends in."""
    known: tuple[Format, ...] = get_args(Format)
    by_name = _ENDINGS.get(out.suffix.lower(), "csv") if out is not None else "csv"
    kind = next((one for one in known if one == (asked or by_name)), None)
    if kind is None:
        raise OptionError(f"--format must be csv, jsonl or parquet, got {asked!r}")
    if kind == "parquet" and out is None:
        raise OptionError("parquet is no text for a terminal or a pipe: name a file with --out")
    return kind


def encode(records: Sequence[Record], kind: Format, *, first: bool) -> bytes:
    """Records as bytes of a file; only the first of several parts of a CSV names the columns."""
    rows = [flatten(record) for record in records]
    if kind == "parquet":
        return _parquet_bytes(rows)
    text = io.StringIO()
    if kind == "jsonl":
        text.writelines(json.dumps(record) + "\n" for record in records)
    else:
        table = csv.writer(text, lineterminator="\n")
        if first:
            table.writerow(rows[0])
        table.writerows(row.values() for row in rows)
    return text.getvalue().encode()


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


@dataclass(frozen=True)
class Done:
    """How far predictions have come."""

    fingerprint: str  # of what they are of
    parts: int = 0
    samples: int = 0
    members: int = 0


class Parts:
    """Answers on their way into a file: each chunk is a file of its own in a folder beside it, until all are there.

    A part counts once `done.json` says so, which is written after it. So whenever the process is killed, what is
    counted is whole, and the next process goes on behind it.
    """

    def __init__(self, out: Path, kind: Format, fingerprint: str, *, resume: bool) -> None:
        self.out = out
        self.kind = kind
        self.folder = out.with_name(f"{out.name}.parts")
        self.done = Done(fingerprint)
        if not self.folder.exists():
            return
        if not resume:
            raise OptionError(f"{self.folder} holds answers of an interrupted call: go on with --resume, or remove it")
        try:
            self.done = Done(**json.loads((self.folder / "done.json").read_text()))
        except (OSError, ValueError, TypeError):
            raise OptionError(
                f"{self.folder} was not left by irene predict: remove it, or give another --out"
            ) from None
        if self.done.fingerprint != fingerprint:
            raise OptionError(f"{self.folder} was begun with other files or options: use the same, or remove it")

    def add(self, records: Sequence[Record]) -> None:
        """Write the records of one chunk."""
        done = self.done
        write_atomically(self._part(done.parts), encode(records, self.kind, first=done.parts == 0))
        self.done = Done(
            done.fingerprint,
            done.parts + 1,
            done.samples + len(records),
            done.members + sum(record["members_used"] for record in records),
        )
        write_json(self.folder / "done.json", asdict(self.done))

    def join(self) -> None:
        """Make one file of the parts, and remove them."""
        handle, temporary = tempfile.mkstemp(dir=self.out.parent, prefix=f".{self.out.name}.")
        os.close(handle)
        parts = [self._part(number) for number in range(self.done.parts)]
        try:
            if self.kind == "parquet":
                _join_parquet(parts, Path(temporary))
            else:
                _join_text(parts, Path(temporary))
            os.chmod(temporary, 0o644)
            os.replace(temporary, self.out)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        shutil.rmtree(self.folder)

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:06}.{self.kind}"


def identity(run: Run, files: Iterable[Path], *options: object) -> str:
    """What tells one call from another: the run, the files by name, size and time, and what else was asked for."""
    found: list[tuple[str, int, int]] = []
    for path in files:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.exists():  # else whoever reads it will say so
                state = file.stat()
                found.append((str(file), state.st_size, state.st_mtime_ns))
    asked = [sha256_of(run.path / "run.json"), found, options]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def print_all(batches: Iterable[Sequence[Record]], kind: Format, target: TextIO) -> None:
    """Write records as they come."""
    for number, records in enumerate(batches):
        target.write(encode(records, kind, first=number == 0).decode())
        target.flush()


def _join_text(parts: Sequence[Path], target: Path) -> None:
    with target.open("wb") as file:
        for part in parts:
            with part.open("rb") as content:
                shutil.copyfileobj(content, file)
        file.flush()
        os.fsync(file.fileno())


def _join_parquet(parts: Sequence[Path], target: Path) -> None:
    _, parquet = _pyarrow()
    with parquet.ParquetWriter(target, parquet.read_schema(parts[0])) as writer:
        for part in parts:
            writer.write_table(parquet.read_table(part))


def _parquet_bytes(rows: Sequence[Record]) -> bytes:
    pyarrow, parquet = _pyarrow()
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), buffer)
    return buffer.getvalue()


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet") from None
    return pyarrow, parquet
