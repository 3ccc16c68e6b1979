"""What a container leaves of the machine is read from the files in which Linux says it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from irene import limits, processes
from irene.limits import most_cores, most_memory

UNLIMITED = str(2**63 - 4096)  # how version 1 says that memory has no limit
Linux = Callable[[str, dict[str, str]], None]


@pytest.fixture
def linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Linux:
    """Have Linux say in which groups this process is and what stands in files of the trees."""

    def said(own: str, files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"{text}\n")
        (tmp_path / "own").write_text(own)
        monkeypatch.setattr(limits, "OWN", tmp_path / "own")
        monkeypatch.setattr(limits, "TREES", tmp_path)

    return said


def test_the_narrowest_of_all_groups_around_a_process_counts(linux: Linux) -> None:
    files = {"memory.max": "max", "a/memory.max": "3000", "a/b/memory.max": "5000", "a/c/memory.max": "1"}
    linux("0::/a/b\n", {**files, "a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"})
    assert (most_memory(), most_cores()) == (3000, 1.5)


def test_a_container_sees_its_own_group_at_the_root(linux: Linux) -> None:
    linux("0::/../../docker/f00\n", {"memory.max": "4096", "cpu.max": "50000 100000"})
    assert (most_memory(), most_cores()) == (4096, 0.5)


def test_version_1_has_a_tree_for_each_kind_of_limit(linux: Linux) -> None:
    own = "12:cpu,cpuacct:/pod\n7:memory:/pod\n3:cpuset:/other\n1:name=systemd:/a:b\n0::/\n"
    memory = {"memory/memory.limit_in_bytes": UNLIMITED, "memory/pod/memory.limit_in_bytes": "2048"}
    cpu = {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}
    pod = {"cpu/pod/cpu.cfs_quota_us": "400000", "cpu/pod/cpu.cfs_period_us": "100000"}
    elsewhere = {"cpu/other/cpu.cfs_quota_us": "1", "cpu/other/cpu.cfs_period_us": "100000"}
    linux(own, memory | cpu | pod | elsewhere)
    assert (most_memory(), most_cores()) == (2048, 4.0)


@pytest.mark.parametrize(
    "files", [{}, {"memory.max": "max", "cpu.max": "max 100000"}, {"memory.max": "", "cpu.max": ""}]
)
def test_where_nothing_is_said_there_is_no_limit(linux: Linux, files: dict[str, str]) -> None:
    linux("0::/\n", files)
    assert most_memory() is most_cores() is None


def test_not_every_system_has_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OWN", tmp_path / "missing")
    assert most_memory() is most_cores() is None


def test_a_part_of_a_core_counts_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    there = len(os.sched_getaffinity(0))
    for most, cores in ((None, there), (0.2, 1), (0.5 + there - 1, there), (there + 7.0, there)):
        monkeypatch.setattr(processes, "most_cores", lambda most=most: most)
        assert processes.cores() == cores


SHOW = "from irene.limits import most_cores, most_memory; print(most_memory(), most_cores())"


@pytest.fixture
def group() -> Iterator[list[Path]]:
    """Groups of this test alone, of 300 MB and one and a half cores."""
    name = f"irene-test-{os.getpid()}"
    wanted = {"memory": {"memory.limit_in_bytes": "314572800"}, "cpu": {"cpu.cfs_quota_us": "150000"}}
    if (limits.TREES / "cgroup.controllers").exists():
        wanted = {"": {"memory.max": "314572800", "cpu.max": "150000 100000"}}
    folders = [limits.TREES / tree / name for tree in wanted]
    try:
        for folder, files in zip(folders, wanted.values(), strict=True):
            folder.mkdir()
            for file, text in files.items():
                (folder / file).write_text(text)
        yield folders
    except OSError as error:
        pytest.skip(f"this process may not make groups: {error}")
    finally:
        for folder in folders:
            with suppress(OSError):
                folder.rmdir()


def test_linux_says_it_so(group: list[Path]) -> None:
    join = "".join(f"echo $$ > {folder}/cgroup.procs && " for folder in group)
    command = ["sh", "-c", f'{join}exec "$0" -c "$1"', sys.executable, SHOW]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert said[0] == "314572800"
    assert math.isclose(float(said[1]), 1.5)
