"""Numpy files: both sets of names, and every way they can be wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from irene.data import load
from irene.data.npz import from_npz, read_npz
from irene.errors import DataError

X, Y = np.arange(40, dtype=np.float32).reshape(20, 2), np.arange(20) % 2


def test_x_and_y_are_split(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=Y)
    data = load(f"npz:{tmp_path / 'a.npz'}")
    assert (len(data.train), len(data.test)) == (16, 4)
    assert data.name == "npz:a.npz"
    assert load(f"npz:{tmp_path / 'a.npz'}", seed=1).fingerprint != data.fingerprint
    assert load(f"npz:{tmp_path / 'a.npz'}", task="regression").task == "regression"


def test_train_and_test_arrays_and_class_names(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x_train=X, y_train=Y, x_test=X[:4], y_test=Y[:4], classes=["no", "yes"])
    data = from_npz(path)
    assert (len(data.train), len(data.test)) == (20, 4)
    assert data.classes == ("no", "yes")


def test_train_arrays_alone_are_split(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=X, y_train=Y)
    assert len(from_npz(tmp_path / "a.npz").test) == 4


def test_missing_arrays_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, labels=Y)
    with pytest.raises(DataError, match=r"a\.npz has no array y: .* found labels, x"):
        from_npz(tmp_path / "a.npz")


def test_a_missing_or_other_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.npz is not a file"):
        from_npz(tmp_path / "gone.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(DataError, match=r"text\.npz is not a \.npz file"):
        from_npz(tmp_path / "text.npz")


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=X, y=Y)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"a\.npz is not a \.npz file, or it is cut short"):
        from_npz(path)


def test_damaged_content_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros((200, 50)), y=np.arange(200) % 2)
    content = bytearray(path.read_bytes())
    content[5000] ^= 0xFF  # breaks the checksum inside the archive
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.npz cannot be read"):
        from_npz(path)


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=np.array([{"a": 1}] * 20, dtype=object))
    with pytest.raises(DataError, match=r"a\.npz cannot be read as a .npz file: Object arrays .* names as text"):
        from_npz(tmp_path / "a.npz")


def test_an_array_that_is_not_asked_for_is_not_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=np.array([{"a": 1}] * 20, dtype=object))
    found = read_npz(tmp_path / "a.npz", only="x")
    assert list(found) == ["x"]
    np.testing.assert_array_equal(found["x"], X)
    assert read_npz(tmp_path / "a.npz", only="z") == {}
