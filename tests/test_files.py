"""A file is wholly there or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from irene import files
from irene.errors import OptionError


def test_content_and_digest(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file.bin"
    digest = files.write_atomically(path, b"content")
    assert path.read_bytes() == b"content"
    assert digest == hashlib.sha256(b"content").hexdigest() == files.sha256_of(path)
    assert [item.name for item in path.parent.iterdir()] == ["file.bin"]


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_failure_leaves_the_old_content_and_no_other_file(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    files.write_json(path, {"old": 1})

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    monkeypatch.setattr(os, where, fail)
    with pytest.raises(OSError, match="disk is full") as caught:
        files.write_json(path, {"new": 2})
    assert caught.value.filename == str(path)
    monkeypatch.undo()
    assert json.loads(path.read_text()) == {"old": 1}
    assert [item.name for item in tmp_path.iterdir()] == ["file.json"]


@pytest.mark.parametrize("name", ["n" * 255, "ü" * 127])
def test_a_name_may_be_as_long_as_names_can_be(tmp_path: Path, name: str) -> None:
    files.write_atomically(tmp_path / name, b"content")
    assert [item.name for item in tmp_path.iterdir()] == [name]


def test_an_interrupt_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    files.write_atomically(path, b"old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_the_new_file_is_on_the_disk_before_it_takes_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (order.append("fsync"), fsync(handle))[1])
    monkeypatch.setattr(os, "replace", lambda *paths: (order.append("replace"), replace(*paths))[1])
    files.write_atomically(tmp_path / "file", b"content")
    assert order == ["fsync", "replace", "fsync"]  # the file, its name, the folder that holds the name


def test_a_value_that_json_cannot_hold_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    files.write_json(path, 1)
    with pytest.raises(TypeError):
        files.write_json(path, {"set": {1}})
    assert path.read_text() == "1\n"


def test_a_place_where_nothing_can_be_written_is_refused_beforehand(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, words in ((tmp_path, "is a folder: name a file"), (tmp_path / "file/below", "cannot be written: ")):
        with pytest.raises(OptionError, match=words):
            files.check_writable(path)
    files.check_writable(tmp_path / "new" / "file")
    assert list((tmp_path / "new").iterdir()) == []


def test_what_is_no_ordinary_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a pipe"), (tmp_path / "link", "a pipe"), (Path(os.devnull), "a device")):
        with pytest.raises(OptionError, match=f"{path} is {kind}, .*: name a regular file"):
            files.check_writable(path)


def test_numbers_that_json_lacks_become_null(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    files.write_json(path, {"a": math.nan, "b": [math.inf, 1.5], "c": (1, -math.inf), 3: {"d": None}})
    assert json.loads(path.read_text()) == {"a": None, "b": [None, 1.5], "c": [1, None], "3": {"d": None}}


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_a_file_is_for_those_whom_the_umask_allows(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        files.write_atomically(tmp_path / "new" / "file", b"content")
    finally:
        os.umask(before)
    assert (tmp_path / "new" / "file").stat().st_mode & 0o777 == mode


def test_a_lock_is_for_one_until_the_block_ends_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for _ in range(2):
        with files.locked(path) as first, files.locked(path) as second:
            assert (first, second) == (True, False)
            assert path.exists()
        assert not path.exists()
    with pytest.raises(KeyError), files.locked(path):
        raise KeyError
    assert not path.exists()


COUNT = """
import sys
from pathlib import Path
from irene.files import locked
folder = Path(sys.argv[1])
for _ in range(200):
    with locked(folder / "lock", wait=True) as ours:
        assert ours
        number = int((folder / "number").read_text())
        (folder / "number").write_text(str(number + 1))
"""


def test_those_who_wait_for_a_lock_come_one_after_the_other(tmp_path: Path) -> None:
    """Also when the one before takes the file away that the next one has opened already."""
    (tmp_path / "number").write_text("0")
    command = [sys.executable, "-c", COUNT, str(tmp_path)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], errors
    assert (tmp_path / "number").read_text() == "600"
    assert [path.name for path in tmp_path.iterdir()] == ["number"]


def test_a_lock_that_was_moved_away_takes_no_other_with_it(tmp_path: Path) -> None:
    """As when `irene predict` removes its folder, and the next call makes it anew before the lock ends."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with files.locked(folder / "lock") as ours:
        assert ours
        folder.rename(tmp_path / "elsewhere")
        folder.mkdir()
        with files.locked(folder / "lock") as theirs:
            assert theirs
    (folder / "lock").write_text("of another process")
    with files.locked(folder / "lock"):
        folder.rename(tmp_path / "gone")
        folder.mkdir()
        (folder / "lock").write_text("of another process")
    assert (folder / "lock").read_text() == "of another process"


def test_everybody_gets_the_lock_where_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with files.locked(tmp_path / "lock") as first, files.locked(tmp_path / "lock") as second:
        assert (first, second) == (True, True)
