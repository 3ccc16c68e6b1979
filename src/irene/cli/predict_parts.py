"""Answers on their way into a file, by parts that survive being interrupted."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from irene.cli.predict_files import Format, encode, join_files
from irene.cli.predictions import Record
from irene.errors import OptionError
from irene.files import sha256_of, write_atomically, write_json
from irene.run import Run


def identity(run: Run, files: Iterable[Path], *options: object) -> str:
    """What tells one call from another: the run, the names of the files, and what else was asked for."""
    asked = [sha256_of(run.path / "run.json"), [str(file) for file in files], options]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


@dataclass(frozen=True)
class Done:
    """How far predictions have come."""

    asked: str  # the identity of the call
    parts: int = 0
    samples: int = 0
    members: int = 0
    files: int = 0  # how many files these samples are from
    read: str = ""  # fingerprint of those files


class Parts:
    """Answers on their way into a file: each chunk is a file of its own in a folder beside it, until all are there.

    A part counts once `done.json` says so, which is written after it. So whenever the process is killed, what is
    counted is whole, and the next process goes on behind it, if the files answered so far are still the same.
    """

    def __init__(self, out: Path, kind: Format, asked: str, files: Iterable[Path], *, resume: bool) -> None:
        self.out = out
        self.kind = kind
        self.folder = out.with_name(f"{out.name}.parts")
        self.done = Done(asked)
        self._read = _FilesRead(files)
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
        if self.done.asked != asked:
            raise OptionError(f"{self.folder} was begun with other files or options: use the same, or remove it")
        if self.done.parts and self._read.first(self.done.files) != self.done.read:
            raise OptionError(f"{self.folder} holds answers for files that have changed since: remove it to begin anew")

    @property
    def kept(self) -> str | None:
        """What becomes of the answers if the call ends here; nothing where there are none."""
        if not self.folder.exists():
            return None
        return f"{self.done.samples:,} answers are kept: go on behind them with the same command and --resume"

    def add(self, records: Sequence[Record]) -> None:
        """Write the records of one chunk."""
        done = self.done
        if not self.folder.exists():
            self._begin()
        write_atomically(self._part(done.parts), encode(records, self.kind, first=done.parts == 0))
        files = max(done.files, self._read.number_of(record["file"] for record in records))
        self.done = Done(
            done.asked,
            done.parts + 1,
            done.samples + len(records),
            done.members + sum(record["members_used"] for record in records),
            files,
            self._read.first(files),
        )
        self._record(self.folder)

    def join(self) -> None:
        """Make one file of the parts, and remove them."""
        handle, temporary = tempfile.mkstemp(dir=self.out.parent, prefix=f".{self.out.name}.")
        os.close(handle)
        try:
            join_files([self._part(number) for number in range(self.done.parts)], Path(temporary), self.kind)
            os.chmod(temporary, 0o644)
            os.replace(temporary, self.out)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        shutil.rmtree(self.folder)

    def _begin(self) -> None:
        """Make the folder, which is never there without its record."""
        fresh = Path(tempfile.mkdtemp(dir=self.out.parent, prefix=f".{self.folder.name}."))
        self._record(fresh)
        fresh.chmod(0o755)
        fresh.rename(self.folder)

    def _record(self, folder: Path) -> None:
        write_json(folder / "done.json", asdict(self.done))

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:06}.{self.kind}"


class _FilesRead:
    """A fingerprint of the first of some files, by size and time, that grows as more of them are read."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = list(dict.fromkeys(files))
        self._numbers = {str(file): number for number, file in enumerate(self._files, 1)}
        self._count = 0
        self._hash = hashlib.sha256()

    def number_of(self, names: Iterable[str]) -> int:
        """How many files come up to the last of these."""
        return max(self._numbers[name] for name in names)

    def first(self, count: int) -> str:
        """The fingerprint of so many files, not fewer than before."""
        for file in self._files[self._count : count]:
            state = file.stat()
            self._hash.update(f"{state.st_size} {state.st_mtime_ns}\n".encode())
        self._count = count
        return self._hash.hexdigest()
