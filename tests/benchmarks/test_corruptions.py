"""Corrupted images are what plain formulas say, worse at each level, and the same each time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor
from training.corruptions import AMOUNTS, LEVELS, NAMES, blur, corrupt

from irene.errors import OptionError


@pytest.fixture
def images() -> Tensor:
    return torch.randint(256, (12, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))


@pytest.fixture
def grey() -> Tensor:
    return torch.full((40, 3, 32, 32), 128, dtype=torch.uint8)


@pytest.mark.parametrize("level", LEVELS)
def test_blur_is_a_gaussian_filter(images: Tensor, level: int) -> None:
    sigma = AMOUNTS["blur"][level - 1]
    expected = gaussian_filter(images.double().numpy(), (0, 0, sigma, sigma), mode="nearest", truncate=4.0)
    np.testing.assert_allclose(blur(images.double(), sigma).numpy(), expected, atol=1e-9)
    assert np.array_equal(corrupt(images, "blur", level).numpy(), np.rint(expected).astype(np.uint8))


def test_blur_knows_height_from_width() -> None:
    image = torch.arange(5 * 9, dtype=torch.float64).square().reshape(1, 1, 5, 9)
    expected = gaussian_filter(image.numpy(), (0, 0, 0.8, 0.8), mode="nearest", truncate=4.0)
    np.testing.assert_allclose(blur(image, 0.8).numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_contrast_keeps_the_mean_of_a_channel_and_that_share_of_its_spread(images: Tensor, level: int) -> None:
    share = (0.75, 0.5, 0.4, 0.3, 0.15)[level - 1]
    array = images.numpy().astype(np.float64)
    expected = np.empty_like(array)
    for n, image in enumerate(array):
        for c, channel in enumerate(image):
            expected[n, c] = channel.mean() + (channel - channel.mean()) * share
    assert np.array_equal(corrupt(images, "contrast", level).numpy(), np.rint(expected).astype(np.uint8))


@pytest.mark.parametrize("level", LEVELS)
def test_noise_has_the_deviation_of_its_level_and_no_mean(grey: Tensor, level: int) -> None:
    deviation = (0.04, 0.06, 0.08, 0.09, 0.10)[level - 1]
    noise = (corrupt(grey, "noise", level).double() - 128) / 255
    assert float(noise.mean()) == pytest.approx(0, abs=4 * deviation / noise.numel() ** 0.5)
    # Rounding to whole numbers adds the variance of a uniform draw.
    assert float(noise.std()) == pytest.approx((deviation**2 + 1 / 12 / 255**2) ** 0.5, rel=0.02)


def test_noise_is_drawn_for_every_pixel_channel_and_image(grey: Tensor) -> None:
    noise = corrupt(grey, "noise", 5).double().flatten(1) - 128
    between_images = torch.corrcoef(noise) - torch.eye(len(noise))
    assert float(between_images.abs().max()) < 0.1
    channels = torch.corrcoef(noise.reshape(40, 3, -1).transpose(0, 1).flatten(1)) - torch.eye(3)
    assert float(channels.abs().max()) < 0.05


def test_noise_is_not_repeated_from_batch_to_batch() -> None:
    many = corrupt(torch.full((2001, 1, 4, 4), 128, dtype=torch.uint8), "noise", 5)
    assert len(many) == 2001
    assert not torch.equal(many[0], many[1000])
    assert not torch.equal(many[0], many[2000])


def test_noise_is_cut_at_black_and_white() -> None:
    white = corrupt(torch.full((4, 3, 8, 8), 255, dtype=torch.uint8), "noise", 5)
    assert float((white == 255).double().mean()) == pytest.approx(0.5, abs=0.1)
    assert int(white.min()) > 128  # and nothing wraps around


@pytest.mark.parametrize("kind", AMOUNTS)
def test_each_level_is_further_from_the_image(images: Tensor, kind: str) -> None:
    apart = [float((corrupt(images, kind, level).double() - images.double()).abs().mean()) for level in LEVELS]
    assert apart == sorted(apart)
    assert len(set(apart)) == 5
    assert apart[0] > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_images(images: Tensor, name: str) -> None:
    kind, level = NAMES[name]
    before, state = images.clone(), torch.random.get_rng_state()
    once, again, other = (corrupt(images, kind, level, seed=seed) for seed in (0, 0, 1))
    assert once.dtype == torch.uint8
    assert once.shape == images.shape
    assert torch.equal(once, again)
    assert torch.equal(once, other) == (kind != "noise")
    assert torch.equal(images, before)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_there_are_fifteen() -> None:
    assert len(NAMES) == 15
    assert NAMES["contrast-5"] == ("contrast", 5)


def test_other_images_and_unknown_corruptions_are_refused(images: Tensor) -> None:
    with pytest.raises(OptionError, match=r"must be uint8 \(N, C, H, W\), got torch.float32"):
        corrupt(images.float(), "noise", 1)
    with pytest.raises(OptionError, match="must be uint8"):
        corrupt(images[0], "noise", 1)
    for kind, level in (("fog", 1), ("noise", 0), ("noise", 6)):
        with pytest.raises(OptionError, match="one of noise, blur, contrast at a level from 1 to 5"):
            corrupt(images, kind, level)
