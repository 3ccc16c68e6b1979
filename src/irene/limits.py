"""What the control groups that this process runs in, such as those of a container, leave it of the machine.

Linux says so in files: version 2 in one tree, version 1 in a tree for each kind of limit. What limits a group limits
those within it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

OWN = Path("/proc/self/cgroup")
TREES = Path("/sys/fs/cgroup")


def most_memory() -> int | None:
    """Bytes of memory that this process, with all others of a group, may take; None where nothing is said."""
    files = (group / name for group in _groups("memory") for name in ("memory.max", "memory.limit_in_bytes"))
    return min((int(word) for file in files for word in _words(file) if word.isdecimal()), default=None)


def most_cores() -> float | None:
    """Processor cores that this process, with all others of a group, may keep busy; None where nothing is said."""
    said = (
        quota
        for group in _groups("cpu")
        for quota in (
            _words(group / "cpu.max"),
            _words(group / "cpu.cfs_quota_us") + _words(group / "cpu.cfs_period_us"),
        )
    )
    limited = (quota for quota in said if len(quota) == 2 and quota[0].isdecimal())
    return min((int(busy) / int(of) for busy, of in limited), default=None)


def _groups(kind: str) -> Iterator[Path]:
    """The folders of the process's own group and of those around it, in every tree that limits this kind."""
    for line in _text(OWN).splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds and kind not in kinds.split(","):
            continue
        tree = TREES / kind if kinds else TREES
        # In a container the tree may begin at its own group, where a path as the host sees it leads nowhere.
        own = tree.joinpath(*(part for part in path.split("/") if part not in ("", "..")))
        yield from (group for group in (own, *own.parents) if group.is_relative_to(tree))


def _words(file: Path) -> list[str]:
    return _text(file).split()


def _text(file: Path) -> str:
    """What stands in a file; nothing where it is not there or cannot be read."""
    try:
        return file.read_text()
    except OSError:
        return ""
