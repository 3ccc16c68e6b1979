"""Records as CSV, JSON lines or parquet."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Literal, TextIO, get_args

from irene.cli.predictions import Record
from irene.errors import OptionError, import_extra
from irene.files import as_json

Format = Literal["csv", "jsonl", "parquet"]
_ENDINGS: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet"}


def pick_format(asked: str | None, out: Path | None) -> Format:
    """The format asked for, or the one a file's name ends in."""
    if asked is None and out is not None:
        if out.suffix.lower() not in _ENDINGS:
            raise OptionError(
                f"{out} ends in none of {', '.join(_ENDINGS)}: rename it, or set the format with --format"
            )
        return _ENDINGS[out.suffix.lower()]
    known: tuple[Format, ...] = get_args(Format)
    kind = next((one for one in known if one == (asked or "csv")), None)
    if kind is None:
        raise OptionError(f"--format must be csv, jsonl or parquet, got {asked!r}")
    if kind == "parquet" and out is None:
        raise OptionError("parquet is not text for a terminal or a pipe: name a file with --out")
    return kind


def check_apart(out: Path, files: Iterable[Path]) -> None:
    """Refuse to write answers over what they are answers for."""
    if out.exists() and any(out.samefile(file) for file in files):
        raise OptionError(f"{out} is one of the files to read, and answers would replace it: give another --out")


def encode(records: Sequence[Record], kind: Format, *, first: bool) -> bytes:
    """Records as bytes of a file; only the first of several parts of a CSV names the columns."""
    rows = [flatten(record) for record in records]
    if kind == "parquet":
        return _parquet_bytes(rows)
    text = io.StringIO()
    if kind == "jsonl":
        text.writelines(json.dumps(as_json(record), allow_nan=False) + "\n" for record in records)
    else:
        table = csv.writer(text, lineterminator="\n")
        if first:
            table.writerow(rows[0])
        table.writerows(row.values() for row in rows)
    return text.getvalue().encode()


def flatten(record: Record) -> Record:
    """A record as one row: values by their names, or as value_NAME if one is that of another column, and p_CLASS."""
    flat: Record = {}
    for key, value in record.items():
        if key == "values":
            prefix = "" if record.keys().isdisjoint(value) else "value_"
            flat |= {f"{prefix}{name}": number for name, number in value.items()}
        elif key == "probs":
            flat |= {f"p_{name}": probability for name, probability in value.items()}
        else:
            flat[key] = value
    return flat


def print_all(batches: Iterable[Sequence[Record]], kind: Format, target: TextIO) -> None:
    """Write records as they come."""
    for number, records in enumerate(batches):
        target.write(encode(records, kind, first=number == 0).decode())
        target.flush()


def join_files(parts: Sequence[Path], target: IO[bytes], kind: Format) -> None:
    """Write one file of several that were encoded one after the other."""
    if kind == "parquet":
        _join_parquet(parts, target)
    else:
        _join_text(parts, target)


def _join_text(parts: Sequence[Path], target: IO[bytes]) -> None:
    for part in parts:
        with part.open("rb") as content:
            shutil.copyfileobj(content, target)


def _join_parquet(parts: Sequence[Path], target: IO[bytes]) -> None:
    import_extra("pyarrow", "parquet")
    from pyarrow import parquet

    # Files are opened here, as pyarrow takes no names that are not UTF-8.
    with parts[0].open("rb") as content:
        schema = parquet.read_schema(content)
    with parquet.ParquetWriter(target, schema) as writer:
        for part in parts:
            with part.open("rb") as content:
                writer.write_table(parquet.read_table(content))


def _parquet_bytes(rows: Sequence[Record]) -> bytes:
    pyarrow = import_extra("pyarrow", "parquet")
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), buffer)
    return buffer.getvalue()
