"""A file is wholly there or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import os
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


@pytest.mark.parametrize("where", ["fsync", "replace", "chmod"])
def test_a_failure_leaves_the_old_content_and_no_other_file(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    files.write_json(path, {"old": 1})

    def fail(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, where, fail)
    with pytest.raises(OSError, match="disk is full"):
        files.write_json(path, {"new": 2})
    monkeypatch.undo()
    assert json.loads(path.read_text()) == {"old": 1}
    assert [item.name for item in tmp_path.iterdir()] == ["file.json"]


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
        with pytest.raises(OptionError, match=f"{path} is {kind}, .*: name an ordinary file"):
            files.check_writable(path)


def test_numbers_that_json_lacks_become_null(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    files.write_json(path, {"a": math.nan, "b": [math.inf, 1.5], "c": (1, -math.inf), 3: {"d": None}})
    assert json.loads(path.read_text()) == {"a": None, "b": [None, 1.5], "c": [1, None], "3": {"d": None}}


def test_a_locked_file_is_for_one_until_it_is_closed(tmp_path: Path) -> None:
    first = files.locked(tmp_path / "lock")
    assert first is not None
    assert files.locked(tmp_path / "lock") is None
    first.close()
    again = files.locked(tmp_path / "lock")
    assert again is not None
    again.close()


def test_everybody_gets_the_file_where_there_are_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    for file in [files.locked(tmp_path / "lock") for _ in range(2)]:
        assert file is not None
        file.close()
