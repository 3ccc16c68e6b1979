"""Arrays and tensors become raw inputs with ids, and bad ones a clear error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from irene.data import from_arrays
from irene.data.arrays import as_inputs
from irene.errors import DataError, IreneError, OptionError


def test_numpy_and_torch_give_the_same_data() -> None:
    x, y = np.arange(60, dtype=np.float64).reshape(20, 3), np.arange(20) % 2
    first, second = from_arrays(x, y), from_arrays(torch.from_numpy(x), torch.from_numpy(y))
    assert first.fingerprint == second.fingerprint
    assert first.train.inputs is not None
    assert first.train.inputs.dtype == torch.float32
    assert first.shape == (3,)
    assert first.outputs == 2


def test_test_arrays_are_used_and_numbered_after_train() -> None:
    data = from_arrays(np.zeros((6, 2)), [0, 1] * 3, x_test=np.ones((4, 2)), y_test=[1, 0, 1, 1])
    assert data.train.ids.tolist() == [0, 1, 2, 3, 4, 5]
    assert data.test.ids.tolist() == [6, 7, 8, 9]
    assert data.test.targets.tolist() == [1, 0, 1, 1]


def test_a_test_set_is_set_aside_by_seed() -> None:
    x, y = np.arange(100)[:, None], np.arange(100) % 4
    data, other = from_arrays(x, y, seed=0), from_arrays(x, y, seed=1)
    assert torch.bincount(data.test.targets).tolist() == [5, 5, 5, 5]
    assert not set(data.train.ids.tolist()) & set(data.test.ids.tolist())
    assert data.test.ids.tolist() != other.test.ids.tolist()
    assert len(from_arrays(x, y, test_fraction=0).test) == 0


def test_images_are_put_channels_first() -> None:
    grey, colour = np.zeros((5, 8, 9), np.uint8), np.zeros((5, 8, 9, 3), np.uint8)
    assert as_inputs(grey).shape == (5, 1, 8, 9)
    assert as_inputs(colour).shape == (5, 3, 8, 9)
    assert as_inputs(colour.transpose(0, 3, 1, 2)).shape == (5, 3, 8, 9)
    assert as_inputs(colour).dtype == torch.uint8
    assert as_inputs(colour.astype(np.float32) / 255).shape == (5, 3, 8, 9)
    assert as_inputs(np.zeros((5, 8), np.uint8)).dtype == torch.float32


def test_pixels_are_moved_not_mixed() -> None:
    image = np.random.RandomState(0).randint(0, 256, (2, 4, 5, 3)).astype(np.uint8)
    moved = as_inputs(image)
    assert moved[1, 2, 3, 4] == image[1, 3, 4, 2]


def test_read_only_arrays_are_taken() -> None:
    image = np.zeros((2, 1, 4, 4), np.uint8)
    image.flags.writeable = False
    assert as_inputs(image).shape == (2, 1, 4, 4)


def test_the_fingerprint_follows_every_byte() -> None:
    x, y = np.zeros((20, 3), np.float32), np.arange(20) % 2
    changed = x.copy()
    changed[13, 1] = 1e-6
    prints = {
        from_arrays(x, y).fingerprint,
        from_arrays(changed, y).fingerprint,
        from_arrays(x, 1 - y).fingerprint,
        from_arrays(x, y, classes=("a", "b")).fingerprint,
        from_arrays(x, y, task="regression").fingerprint,
    }
    assert len(prints) == 5
    assert from_arrays(x, y, name="another").fingerprint in prints


BAD: list[tuple[dict[str, Any], type[IreneError], str]] = [
    ({"x": np.zeros((4, 2)), "y": [0, 1, 0]}, DataError, "4 inputs and 3 targets"),
    ({"x": np.zeros((0, 2)), "y": []}, DataError, "no samples"),
    ({"x": np.zeros(4), "y": [0, 1, 0, 1]}, DataError, "must have shape"),
    ({"x": [["a"], ["b"]], "y": [0, 1]}, DataError, "inputs must be numbers"),
    ({"x": [[0.0], [float("nan")]] * 2, "y": [0, 1] * 2}, DataError, "sample 1 has an input"),
    ({"x": [[0.0], [1e300]] * 2, "y": [0, 1] * 2}, DataError, "sample 1 has an input"),
    ({"x": np.zeros((4, 2)), "y": [0, 1] * 2, "x_test": np.zeros((1, 2))}, DataError, "come together"),
    (
        {"x": np.zeros((4, 2)), "y": [0, 1] * 2, "x_test": np.zeros((1, 3)), "y_test": [0]},
        DataError,
        "must be the same",
    ),
    ({"x": np.zeros((4, 2)), "y": [0, 1] * 2, "test_fraction": 1.0}, OptionError, "test_fraction"),
]


@pytest.mark.parametrize(("options", "kind", "message"), BAD)
def test_bad_arrays_are_refused(options: dict[str, Any], kind: type[IreneError], message: str) -> None:
    with pytest.raises(kind, match=message):
        from_arrays(**options)
