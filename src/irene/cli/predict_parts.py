"""Answers on their way into a file, by parts that survive being interrupted."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from irene.cli.inputs import shown
from irene.cli.predict_files import Format, encode, join_files
from irene.cli.predictions import Record
from irene.errors import OptionError
from irene.files import draft_of, locked, replacing, write_atomically, write_json
from irene.run import Run

_DECIDES = ("task", "data", "members", "gate", "policy", "aggregation")  # of a run, what answers depend on


def identity(run: Run, files: Iterable[Path], point: str | None, *options: object) -> str:
    """What tells one call from another: the run, at its point, the names of the files, and what else was asked for."""
    about = [run.manifest.get(field) for field in _DECIDES]
    asked = [about, point, run.manifest.get("points", {}).get(point), [str(file) for file in files], options]
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
    While one process is inside `with Parts(...)`, which holds a lock in the folder, no other comes in.
    """

    def __init__(self, out: Path, kind: Format, asked: str, files: Iterable[Path], *, resume: bool) -> None:
        self.out = out
        self.kind = kind
        self.folder = out.with_name(f"{out.name}.parts")
        self.done = Done(asked)
        self._read = _FilesRead(files)
        self._resume = resume

    def __enter__(self) -> Self:
        with ExitStack() as lock:
            if self.folder.exists():
                self._go_on(lock)
            else:
                self._begin(lock)
            self._lock = lock.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock, suppress(OSError):  # which would take the place of the error that ended the call
            if not self.done.parts:
                self._remove()

    def _go_on(self, lock: ExitStack) -> None:
        """Go on with what an interrupted call left, or begin if it left no answers."""
        record = self.folder / "done.json"
        if record.exists() and not _locked(self.folder, lock):
            raise self._busy()
        try:
            done = Done(**json.loads(record.read_text()))
        except (OSError, ValueError, TypeError):
            raise OptionError(
                f"{self.folder} was not left by irene predict: remove it, or give another --out"
            ) from None
        if not done.parts:
            _record(self.folder, self.done)
            return
        if not self._resume:
            raise OptionError(
                f"{self.folder} holds answers of an interrupted call: continue with --resume, or remove it"
            )
        if done.asked != self.done.asked:
            raise OptionError(
                f"{self.folder} was started with another run, other files or other options: use the same, or remove it"
            )
        if self._read.first(done.files) != done.read:
            raise OptionError(
                f"{self.folder} holds answers for files that have changed since: remove it to start again"
            )
        self.done = done

    @property
    def kept(self) -> str | None:
        """What becomes of the answers if the call ends here; nothing where there are none."""
        if not self.done.parts or not self.folder.exists():
            return None
        answers = "1 answer is" if self.done.samples == 1 else f"{self.done.samples:,} answers are"
        return f"{answers} kept: go on from there with the same command and --resume"

    def add(self, records: Sequence[Record]) -> None:
        """Write the records of one chunk."""
        done = self.done
        write_atomically(self._part(done.parts), encode(records, self.kind, first=done.parts == 0))
        files = max(done.files, self._read.number_of(record["file"] for record in records))
        done = Done(
            done.asked,
            done.parts + 1,
            done.samples + len(records),
            done.members + sum(record["members_used"] for record in records),
            files,
            self._read.first(files),
        )
        _record(self.folder, done)
        self.done = done

    def join(self) -> None:
        """Make one file of the parts, and remove them."""
        with replacing(self.out) as file:
            join_files([self._part(number) for number in range(self.done.parts)], file, self.kind)
        self._remove()

    def _begin(self, lock: ExitStack) -> None:
        """Make the folder, which is never there without its record."""
        fresh = draft_of(self.folder)
        try:
            _record(fresh, self.done)
            _locked(fresh, lock)
            fresh.rename(self.folder)
        except BaseException as error:
            shutil.rmtree(fresh, ignore_errors=True)
            if isinstance(error, OSError) and self.folder.exists():  # another call was faster
                raise self._busy() from None
            raise

    def _remove(self) -> None:
        """Rename the folder, then remove it: what is left if the process is killed is in no later call's way."""
        hidden = self.folder.rename(draft_of(self.folder))
        shutil.rmtree(hidden, ignore_errors=True)

    def _busy(self) -> OptionError:
        return OptionError(f"another call is writing {self.out}: wait until it has ended, or give another --out")

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:06}.{self.kind}"


def _record(folder: Path, done: Done) -> None:
    write_json(folder / "done.json", asdict(done))


def _locked(folder: Path, lock: ExitStack) -> bool:
    """Whether this process now is the only one to work in a folder, until the stack is closed."""
    try:
        return lock.enter_context(locked(folder / "lock"))
    except FileNotFoundError:  # taken away by the call that had locked it
        return False


class _FilesRead:
    """A fingerprint of the first of some files, by size and time, that grows as more of them are read."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = list(dict.fromkeys(files))
        self._numbers = {shown(file): number for number, file in enumerate(self._files, 1)}
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
