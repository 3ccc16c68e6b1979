"""Files that are either wholly there or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from pathlib import Path
from typing import IO, Any

from irene.errors import OptionError


def write_atomically(path: Path, content: bytes) -> str:
    """Write a file by way of a temporary one, fsync and rename; return the content's SHA-256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return hashlib.sha256(content).hexdigest()


def check_writable(path: Path) -> None:
    """Refuse a place where no file can be written, before work is put into what is to be written there."""
    if path.is_dir():
        raise OptionError(f"{path} is a folder: name a file")
    if path.exists() and not path.is_file():
        kind = "a pipe" if path.is_fifo() else "a socket" if path.is_socket() else "a device"
        raise OptionError(f"{path} is {kind}, and a file would take its place: name an ordinary file")
    check_room(path)


def check_room(path: Path) -> None:
    """Refuse a path at which neither a file nor a folder can be made; the folder around it is made here."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror}") from None


def locked(path: Path) -> IO[str] | None:
    """A file that no other process has locked, made if need be; None where one has.

    The lock ends when the file is closed, and with the process. Where there are no locks, everybody gets the file.
    """
    file = path.open("a")
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except (ImportError, OSError):  # a platform or a file system without locks
        pass
    return file


def as_json(value: Any) -> Any:
    """The value with only what every JSON reader takes: NaN and infinities are null, tuples are lists."""
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
