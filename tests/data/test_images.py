"""Image files become uint8 tensors of the asked shape, upright."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from irene.data.images import ImageHeader, find_images, read_header, read_image
from irene.errors import DataError


def picture(height: int, width: int) -> np.ndarray:
    return np.random.RandomState(0).randint(0, 256, (height, width, 3)).astype(np.uint8)


def test_pixels_come_back_as_they_are(tmp_path: Path) -> None:
    pixels = picture(5, 7)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert read_header(tmp_path / "a.png") == ImageHeader(5, 7, grey=False)
    tensor = read_image(tmp_path / "a.png", (3, 5, 7))
    assert tensor.dtype == torch.uint8
    assert np.array_equal(tensor.numpy(), pixels.transpose(2, 0, 1))


def test_grey_and_colour_are_converted_and_sizes_changed(tmp_path: Path) -> None:
    Image.fromarray(picture(6, 6)[:, :, 0]).save(tmp_path / "grey.png")
    assert read_header(tmp_path / "grey.png").grey
    assert read_image(tmp_path / "grey.png", (3, 4, 5)).shape == (3, 4, 5)
    Image.fromarray(picture(6, 6)).save(tmp_path / "colour.png")
    assert read_image(str(tmp_path / "colour.png"), (1, 6, 6)).shape == (1, 6, 6)


def test_a_photo_stored_on_its_side_is_put_upright(tmp_path: Path) -> None:
    pixels = picture(4, 6)
    image = Image.fromarray(pixels)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter clockwise
    image.save(tmp_path / "a.png", exif=exif)
    assert read_header(tmp_path / "a.png") == ImageHeader(6, 4, grey=False)
    upright = np.rot90(pixels, k=-1).transpose(2, 0, 1)
    assert np.array_equal(read_image(tmp_path / "a.png", (3, 6, 4)).numpy(), upright)


def test_an_open_file_can_be_read() -> None:
    buffer = io.BytesIO()
    Image.fromarray(picture(4, 4)).save(buffer, "PNG")
    buffer.seek(0)
    assert read_image(buffer, (3, 4, 4)).shape == (3, 4, 4)
    with pytest.raises(DataError, match="the image cannot be read"):
        read_image(io.BytesIO(b"not an image"), (3, 4, 4))


def test_damaged_files_are_named(tmp_path: Path) -> None:
    whole = io.BytesIO()
    Image.fromarray(picture(64, 64)).save(whole, "PNG")
    (tmp_path / "cut.png").write_bytes(whole.getvalue()[:2000])
    (tmp_path / "text.png").write_text("hello")
    with pytest.raises(DataError, match=r"cut\.png cannot be read as an image"):
        read_image(tmp_path / "cut.png", (3, 64, 64))
    with pytest.raises(DataError, match=r"text\.png cannot be read as an image"):
        read_header(tmp_path / "text.png")
    with pytest.raises(DataError, match=r"gone\.png cannot be read"):
        read_image(tmp_path / "gone.png", (3, 64, 64))


def test_more_than_eight_bits_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 40_000, np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(DataError, match=r"deep\.png is an image of mode \S+, expected 8 bits per channel: convert it$"):
        read_image(tmp_path / "deep.png", (1, 4, 4))


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """Images in a folder and two folders in it, and a file that is none."""
    for name in ("album/0.png", "album/a/1.png", "album/a/deep/2.jpg", "album/b/3.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "album" / "b" / "notes.txt").write_text("hello")
    return tmp_path / "album"


def names_of(found: list[Path], folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in found]


def test_images_are_found_in_all_folders(album: Path) -> None:
    assert names_of(find_images(album), album) == ["0.png", "a/1.png", "a/deep/2.jpg", "b/3.png"]


def test_links_to_folders_are_followed_and_do_not_go_round(album: Path) -> None:
    (album.parent / "elsewhere").mkdir()
    (album.parent / "elsewhere" / "4.png").write_bytes(b"")
    (album / "c").symlink_to(album.parent / "elsewhere")
    (album / "a" / "deep" / "back").symlink_to(album)
    (album.parent / "elsewhere" / "self").symlink_to(album.parent / "elsewhere")
    assert names_of(find_images(album), album) == ["0.png", "a/1.png", "a/deep/2.jpg", "b/3.png", "c/4.png"]


@pytest.mark.parametrize("name", ["folder", "5.png"])
def test_a_link_to_nothing_is_named(album: Path, name: str) -> None:
    (album / "b" / "else.txt").symlink_to(album / "gone.txt")
    find_images(album)
    (album / "b" / name).symlink_to(album / "gone")
    with pytest.raises(DataError, match=f"b/{name} is a broken link"):
        find_images(album)


def test_a_folder_that_may_not_be_read_is_named(album: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(path: Path) -> Any:
        if Path(path).name == "deep":  # as for a user without permission, which tests run by root cannot lose
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(DataError, match=r"a/deep cannot be read \(Permission denied\): change its permissions"):
        find_images(album)
