"""Results of replays, kept beside the runs: an interrupted collection goes on, and new runs cost what is new."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, as_completed
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

import irene
from irene.files import as_json, sha256_of, write_json
from replay.packed import Packed, Study

BENCHMARKS = Path(__file__).resolve().parents[2]
NAME = "collected.json"  # no run has such a name


class Kept:
    """What functions gave for runs, in a file that is whole after every result.

    A result is that of these very runs, and may be one of other code than today's: `others` counts those that were
    taken, for the user to know. `anew` takes none.
    """

    def __init__(self, folder: Path, *, anew: bool = False) -> None:
        self._path = folder / NAME
        self._code = code()
        there = self._path.exists() and not anew
        self._results: dict[str, dict[str, Any]] = json.loads(self._path.read_text()) if there else {}
        self.others = 0

    def each(self, pool: Executor, what: str, work: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        """What a function gives for each of these, computed side by side where it is not known, with a bar."""
        calls = list(zip(*arguments, strict=True))
        keys = [key_of(work, call) for call in calls]
        missing = {key: call for key, call in zip(keys, calls, strict=True) if key not in self._results}
        self.others += sum(self._results[key]["code"] != self._code for key in set(keys) - missing.keys())
        futures = {pool.submit(work, *call): key for key, call in missing.items()}
        for done in track(as_completed(futures), what, total=len(futures), console=Console(stderr=True)):
            if done.exception() is None:
                self._results[futures[done]] = {"code": self._code, "result": as_json(done.result())}
                write_json(self._path, self._results)
        for done in futures:
            done.result()  # what failed says so once all others are kept
        return [self._results[key]["result"] for key in keys]


def code() -> str:
    """Stands for all code that a result may depend on: irene's, and that of the replays."""
    paper, library = BENCHMARKS / "paper", Path(irene.__file__).parent
    files = [*library.rglob("*.py"), *BENCHMARKS.glob("*.py"), paper / "collect.py", *(paper / "replay").glob("*.py")]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()


def key_of(work: Callable[..., Any], call: Sequence[Any]) -> str:
    """Stands for a function and what it is given."""
    told = json.dumps([work.__module__, work.__qualname__, identity(list(call))])
    return hashlib.sha256(told.encode()).hexdigest()


def identity(value: Any) -> Any:
    """What tells a value from others: a run by its manifest, which no two trainings have in common."""
    if isinstance(value, Packed):
        return [value.name, sha256_of(value.path / "run.json")]
    if isinstance(value, Study):
        return [identity(run) for run in value.runs]
    if isinstance(value, (list, tuple)):
        return [identity(part) for part in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"no identity for {type(value).__name__}")
