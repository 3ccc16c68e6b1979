"""Crop and flip equal the obvious loop over pad, cut and mirror."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import pad as torch_pad

from irene.data.augmentation import augment_images, gather_augmented


def naive(images: Tensor, offsets_y: Tensor, offsets_x: Tensor, flips: Tensor, pad: int) -> Tensor:
    _, _, height, width = images.shape
    out = []
    for image, y, x, flip in zip(images, offsets_y.tolist(), offsets_x.tolist(), flips.tolist(), strict=True):
        padded = torch_pad(image, (pad, pad, pad, pad))
        window = padded[:, y : y + height, x : x + width]
        out.append(window.flip(-1) if flip else window)
    return torch.stack(out)


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 5),
    channels=st.sampled_from([1, 3]),
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    pad=st.integers(0, 4),
    dtype=st.sampled_from([torch.uint8, torch.float32]),
    seed=st.integers(0, 2**31),
)
def test_equals_the_naive_reference(
    batch: int, channels: int, height: int, width: int, pad: int, dtype: torch.dtype, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(1, 256, (batch, channels, height, width), generator=generator).to(dtype)
    y, x = torch.randint(2 * pad + 1, (2, batch), generator=generator)
    flips = torch.randint(2, (batch,), generator=generator)
    result = augment_images(images, y, x, flips, pad)
    assert result.dtype == dtype
    assert result.is_contiguous()
    assert torch.equal(result, naive(images, y, x, flips, pad))


def test_the_middle_offset_without_flip_changes_nothing() -> None:
    images = torch.arange(2 * 3 * 4 * 4, dtype=torch.uint8).reshape(2, 3, 4, 4)
    middle = torch.full((2,), 3)
    assert torch.equal(augment_images(images, middle, middle, torch.zeros(2, dtype=torch.int64), 3), images)


def test_gathering_equals_taking_rows_first() -> None:
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(256, (10, 3, 6, 5), generator=generator).to(torch.uint8)
    rows = torch.randint(10, (7,), generator=generator)
    y, x = torch.randint(5, (2, 7), generator=generator)
    flips = torch.randint(2, (7,), generator=generator)
    assert torch.equal(gather_augmented(images, rows, y, x, flips, 2), augment_images(images[rows], y, x, flips, 2))
