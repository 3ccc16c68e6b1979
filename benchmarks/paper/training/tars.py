"""Tars of a limited size, for runs that go from one machine to another."""

from __future__ import annotations

import gzip
import math
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

LIMIT = 16 * 2**20  # bytes of one tar
_PART = re.compile(r"(?P<file>.+)\.(?P<number>\d+)of(?P<count>\d+)")


def write_tars(stem: Path, entries: Iterable[tuple[str, bytes]], limit: int = LIMIT) -> list[Path]:
    """Write files as STEM.tar.gz and, where that would exceed the limit, STEM.2.tar.gz and so on.

    Each file is a gzip member of its own, so that its size is known before it is put into a tar.
    """
    end = gzip.compress(bytes(2 * tarfile.BLOCKSIZE), mtime=0)
    tars: list[bytes] = []
    for name, content in entries:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        padding = bytes(-len(content) % tarfile.BLOCKSIZE)
        packed = gzip.compress(entry.tobuf() + content + padding, compresslevel=1, mtime=0)
        if len(packed) + len(end) > limit:
            raise SystemExit(
                f"{name} alone takes {len(packed)} bytes, more than the {limit} of a tar: keep fewer samples"
            )
        if tars and len(tars[-1]) + len(packed) + len(end) <= limit:
            tars[-1] += packed
        else:
            tars.append(packed)
    paths = [Path(f"{stem}.tar.gz" if number == 1 else f"{stem}.{number}.tar.gz") for number in range(1, len(tars) + 1)]
    for path, content in zip(paths, tars, strict=True):
        path.write_bytes(content + end)
    return paths


def extract(path: Path, into: Path) -> list[str]:
    """Put the files of a tar into a folder, and nowhere else; their names."""
    with tarfile.open(path) as tar:
        # Python 3.11.4 brought filters: before it, tars are trusted.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(into)
        return tar.getnames()


def parts(name: str, content: bytes, size: int) -> Iterator[tuple[str, bytes]]:
    """A file as it is, or as NAME.1of3, NAME.2of3 and so on where it is larger than `size`."""
    count = math.ceil(len(content) / size)
    if count <= 1:
        yield name, content
        return
    for number in range(count):
        yield f"{name}.{number + 1}of{count}", content[number * size : (number + 1) * size]


def join(files: Iterable[Path]) -> None:
    """Make FILE of FILE.1of3, FILE.2of3 and FILE.3of3."""
    found: dict[Path, dict[int, Path]] = {}
    counts: dict[Path, int] = {}
    for path in files:
        part = _PART.fullmatch(path.name)
        if part is not None:
            target = path.with_name(part["file"])
            found.setdefault(target, {})[int(part["number"])] = path
            counts[target] = int(part["count"])
    for target, by_number in found.items():
        if len(by_number) != counts[target]:
            raise SystemExit(f"{target}: {len(by_number)} of {counts[target]} parts are here; unpack all tars together")
        target.write_bytes(b"".join(by_number[number].read_bytes() for number in sorted(by_number)))
        for path in by_number.values():
            path.unlink()
