"""The array unpickler reads arrays and containers, and calls nothing else."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irene.data.unpickle import read_arrays
from irene.errors import DataError


def test_containers_and_arrays_are_read() -> None:
    content = {b"data": np.arange(12, dtype=np.uint8).reshape(3, 4), b"labels": [1, 2, 3], b"x": (None, 1.5)}
    for protocol in (3, 4):
        found = read_arrays(io.BytesIO(pickle.dumps(content, protocol=protocol)))
        assert np.array_equal(found[b"data"], content[b"data"])
        assert found[b"labels"] == [1, 2, 3]
        assert found[b"x"] == (None, 1.5)


def test_a_python_2_pickle_is_read() -> None:
    # Protocol 2 as Python 2 wrote it: byte strings as U opcodes, numpy at its old place.
    text = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x02K\x02\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN"
        b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x04\x01\x02\x03\x04tbU\x06labels](K\x05K\x06eu."
    )
    found = read_arrays(io.BytesIO(text))
    assert found[b"data"].tolist() == [[1, 2], [3, 4]]
    assert found[b"labels"] == [5, 6]


class Bomb:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, self.arguments


def test_a_pickle_that_runs_a_command_is_refused_and_nothing_runs(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for bomb in (
        Bomb(os.system, f"touch {mark}"),
        Bomb(subprocess.check_call, ["touch", str(mark)]),
        Bomb(eval, f"open({str(mark)!r}, 'w')"),
        Bomb(getattr, "x", "upper"),
        {b"data": Bomb(exec, "1")},
    ):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(DataError, match="it asks for"):
                read_arrays(io.BytesIO(pickle.dumps(bomb, protocol=protocol)))
    assert not mark.exists()


@pytest.mark.parametrize(
    "text",
    [
        b"cnumpy\nload\n.",
        b"cnumpy.f2py.diagnose\nrun\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__call__\x93.",
    ],
)
def test_numpy_itself_is_no_free_pass(text: bytes) -> None:
    with pytest.raises(DataError, match="it asks for numpy"):
        read_arrays(io.BytesIO(text))


@pytest.mark.parametrize("text", [b"", b"hello", pickle.dumps([1, 2, 3])[:-3], b"\x80\x02K\x01R.", b"P1\n."])
def test_damaged_pickles_are_refused(text: bytes) -> None:
    with pytest.raises(DataError, match="not a readable pickle"):
        read_arrays(io.BytesIO(text))
