from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from irene.errors import DataError, OptionError
from irene.models import normalise, statistics
from irene.models.normalise import Normalise


@given(st.integers(0, 1000), st.integers(1, 40), st.integers(1, 5), st.floats(-1e4, 1e4))
@settings(max_examples=40)
def test_columns_agree_with_scikit_learn(seed: int, n: int, columns: int, centre: float) -> None:
    inputs = torch.from_numpy(np.random.default_rng(seed).normal(centre, 3, (n, columns))).float()
    mean, std = statistics(inputs)
    expected = StandardScaler().fit(inputs.double().numpy())
    assert mean.tolist() == pytest.approx(expected.mean_, rel=1e-5, abs=1e-5)
    assert std.tolist() == pytest.approx(expected.scale_, rel=1e-5)


def test_images_have_one_value_per_channel() -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (20, 3, 6, 5), dtype=torch.uint8, generator=generator)
    mean, std = statistics(images)
    pixels = images.double().numpy()
    assert mean.tolist() == pytest.approx(pixels.mean((0, 2, 3)))
    assert std.tolist() == pytest.approx(pixels.std((0, 2, 3)))


def test_slices_give_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.randn(101, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    whole = statistics(inputs)
    monkeypatch.setattr(normalise, "_CHUNK_ELEMENTS", 10 * 48)
    for sliced, value in zip(statistics(inputs), whole, strict=True):
        torch.testing.assert_close(sliced, value)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e6, 1e-40])
def test_a_constant_column_gets_std_one(value: float) -> None:
    inputs = torch.stack([torch.full((1000,), value), torch.arange(1000.0)], 1)
    _, std = statistics(inputs)
    assert std[0] == 1
    assert std[1] == pytest.approx(288.675, abs=0.01)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_not_finite_are_named(bad: float) -> None:
    inputs = torch.zeros(5, 3)
    inputs[2, 1] = bad
    with pytest.raises(DataError, match="column 1 has values that are not finite"):
        statistics(inputs)


@pytest.mark.parametrize("shape", [(5,), (0, 3), (4, 0)])
def test_needs_samples(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="non-empty"):
        statistics(torch.zeros(shape))


def test_normalises_raw_inputs() -> None:
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (50, 3, 4, 4), dtype=torch.uint8, generator=generator)
    mean, std = statistics(images)
    found = Normalise((3, 4, 4), mean, std)(images)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.std((0, 2, 3), correction=0), torch.ones(3))


def test_a_large_mean_keeps_the_digits() -> None:
    inputs = 1e6 + torch.arange(4.0)[:, None]
    found = Normalise((1,), *statistics(inputs))(inputs).flatten()
    torch.testing.assert_close(found, (torch.arange(4.0) - 1.5) / math.sqrt(1.25))


def test_follows_the_module_dtype_and_memory_layout() -> None:
    images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8).to(memory_format=torch.channels_last)
    found = Normalise((3, 4, 4)).to(torch.bfloat16)(images)
    assert found.dtype == torch.bfloat16
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_does_not_share_memory_with_what_it_was_given() -> None:
    mean = torch.zeros(2)
    layer = Normalise((2,), mean)
    mean.fill_(5)
    assert layer.mean.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        (torch.zeros(2), None, "mean must have one value for each of the 3"),
        (None, torch.ones(3, 1), "std must have one value for each of the 3"),
        (None, torch.zeros(3), "std must be positive"),
        (torch.full((3,), math.nan), None, "mean finite"),
    ],
)
def test_refuses_wrong_statistics(mean: torch.Tensor | None, std: torch.Tensor | None, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Normalise((3, 8, 8), mean, std)
