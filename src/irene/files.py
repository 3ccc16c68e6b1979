"""Files that are either wholly there or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

import numpy as np

from irene.errors import OptionError

_LONGEST = 240  # bytes of a name that leave room for more: file systems take 255


def write_atomically(path: Path, content: bytes) -> str:
    """Write a file by way of a temporary one, fsync and rename; return the content's SHA-256."""
    with replacing(path) as file:
        file.write(content)
    return hashlib.sha256(content).hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to that replaces `path` when the block ends without an error; by then it is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = draft_of(path)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = str(path)  # a write that fails does not know of what file
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def draft_of(path: Path) -> Path:
    """A hidden name beside a path, for what replaces it once it is written completely."""
    name = os.fsdecode(os.fsencode(path.name)[:_LONGEST])
    return path.with_name(f".{name}.{token_hex(4)}")


def check_writable(path: Path) -> None:
    """Refuse a path that no file can be written to, before the work on its content begins."""
    if path.is_dir():
        raise OptionError(f"{path} is a folder: name a file")
    if path.exists() and not path.is_file():
        kind = "a pipe" if path.is_fifo() else "a socket" if path.is_socket() else "a device"
        raise OptionError(f"{path} is {kind}, and a file would replace it: name a regular file")
    check_room(path)


def check_room(path: Path) -> None:
    """Refuse a path where neither a file nor a folder can be made; makes its parent folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror}") from None


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold a lock file for the block; gives whether this process got it, as another one may hold it.

    `wait` waits for the other process instead. The file is removed at the end. Where the file system has no locks,
    everybody gets it.
    """
    while True:
        with path.open("a") as file:
            if not _lock(file, wait):
                yield False
                return
            if _is_at(file, path):  # else the one before us took it away with its lock
                try:
                    yield True
                finally:
                    if _is_at(file, path):
                        path.unlink(missing_ok=True)
                return


def _lock(file: IO[str], wait: bool) -> bool:
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # a platform or a file system without locks
        pass
    return True


def _is_at(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False


def as_json(value: Any) -> Any:
    """The value with only what every JSON reader takes: no NaN or infinity, no tuple, no number of numpy's."""
    if isinstance(value, np.generic):
        return as_json(value.item())
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: Path, value: Any) -> str:
    """Write a JSON file atomically; return its SHA-256."""
    return write_atomically(path, (json.dumps(as_json(value), indent=2, allow_nan=False) + "\n").encode())


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
