"""Pictures survive encoding: exactly where that is promised, closely elsewhere."""

from __future__ import annotations

import errno
import io
import os
from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image, ImageSequence

from longplay.errors import ConfigError, MissingExtraError
from longplay.lab.report.draw.encoding import (
    Encoding,
    Picture,
    VideoWriter,
    choose_pace,
)

_SIZE = (160, 210)
_RATE = Fraction(60)


@pytest.fixture(scope="module")
def pictures() -> list[Picture]:
    """Coloured blocks, one of which moves, in 20 colours."""
    rng = np.random.default_rng(0)
    colours = rng.integers(256, size=(20, 3), dtype=np.uint8)
    blocks = colours[rng.integers(19, size=(21, 16))].repeat(10, 0).repeat(10, 1)
    made = []
    for at in range(130):
        picture = blocks.copy()
        picture[50:58, at : at + 8] = colours[19]
        made.append(picture)
    return made


def encode(pictures: list[Picture], encoding: Encoding, rate: Fraction) -> bytes:
    file = io.BytesIO()
    with VideoWriter(file, encoding, _SIZE, rate) as writer:
        for picture in pictures:
            writer.write(picture)
    return file.getvalue()


def decode(content: bytes) -> list[Picture]:
    with av.open(io.BytesIO(content)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_lossless_video_has_the_same_pixels(pictures: list[Picture]) -> None:
    decoded = decode(encode(pictures, "lossless", _RATE))
    assert np.array_equal(decoded, pictures)


def test_gif_has_the_same_pixels_and_delays(pictures: list[Picture]) -> None:
    with Image.open(io.BytesIO(encode(pictures, "gif", Fraction(25)))) as image:
        shown = ImageSequence.Iterator(image)
        decoded = [np.array(frame.convert("RGB")) for frame in shown]
        assert image.info["loop"] == 0  # for ever
        assert image.info["duration"] == 40
    assert np.array_equal(decoded, pictures)


def test_colours_that_appear_later_are_exact() -> None:
    """Also if they sort before the others: libav compares indices, not colours."""
    pictures = []
    for level in (200, 150, 100, 50):
        picture = np.full((210, 160, 3), level, np.uint8)
        picture[:20, :30] = level - 10
        pictures.append(picture)
    with Image.open(io.BytesIO(encode(pictures, "gif", Fraction(25)))) as image:
        found = [np.array(f.convert("RGB")) for f in ImageSequence.Iterator(image)]
    assert np.array_equal(found, pictures)


def test_h264_has_every_frame_and_its_colours(pictures: list[Picture]) -> None:
    content = encode(pictures, "h264", _RATE)
    decoded = decode(content)
    assert len(decoded) == len(pictures)
    # Away from the edges of the blocks, where colours have half the resolution.
    inner = np.s_[:, 3::10, 3::10]
    error = np.abs(np.array(decoded)[inner] - np.array(pictures)[inner].astype(int))
    assert np.median(error) <= 4
    with av.open(io.BytesIO(content)) as container:
        (stream,) = container.streams.video
        assert stream.codec_context.pix_fmt == "yuv420p"
        assert stream.average_rate == 60
        assert (stream.width, stream.height) == _SIZE


def test_frames_can_be_found_every_second(pictures: list[Picture]) -> None:
    content = encode(pictures, "h264", _RATE)
    with av.open(io.BytesIO(content)) as container:
        keys = [n for n, f in enumerate(container.decode(video=0)) if f.key_frame]
    assert {0, 60, 120} <= set(keys)


@pytest.mark.parametrize("encoding", ("h264", "lossless", "gif"))
def test_same_pictures_give_the_same_bytes(
    pictures: list[Picture], encoding: Encoding
) -> None:
    first, second = (encode(pictures[:40], encoding, _RATE) for _ in range(2))
    assert first == second


def test_gif_of_too_many_colours_is_refused() -> None:
    picture = np.random.default_rng(0).integers(256, size=(210, 160, 3), dtype=np.uint8)
    with pytest.raises(ConfigError, match="at most 256 colours, found more"):
        encode([picture], "gif", _RATE)


class _SmallDisk(io.BytesIO):
    """A file on a disk with room for some bytes."""

    room_bytes = 0

    def write(self, chunk: Any) -> int:
        if self.tell() + len(chunk) > self.room_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(chunk)


@pytest.mark.parametrize("room_bytes", (0, 2_000, 40_000))
def test_full_disk_is_reported_as_such(
    pictures: list[Picture], room_bytes: int
) -> None:
    """At the start, in the middle, and where the index at the end is written."""
    file = _SmallDisk()
    file.room_bytes = room_bytes
    with (
        pytest.raises(OSError, match="No space left"),
        VideoWriter(file, "lossless", _SIZE, _RATE) as writer,
    ):
        for picture in pictures:
            writer.write(picture)


@pytest.mark.parametrize(
    ("base", "speed", "encoding", "stride", "per_second"),
    [
        (60, 1, "h264", 1, 60),
        (60, 2, "h264", 2, 60),
        (60, 1.5, "lossless", 2, 45),
        (60, 0.25, "h264", 1, 15),
        (15, 1, "h264", 1, 15),
        (15, 4, "h264", 1, 60),
        (15, 10, "h264", 3, 50),
        (60, 1, "gif", 2, 30),
        (15, 1, "gif", 1, 15),
        (60, 1000, "h264", 1000, 60),
    ],
)
def test_pace(
    base: int, speed: float, encoding: Encoding, stride: int, per_second: int
) -> None:
    pace = choose_pace(Fraction(base), speed, encoding)
    assert (pace.stride, pace.per_second) == (stride, per_second)


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'longplay\[view\]'"):
        VideoWriter(io.BytesIO(), "h264", _SIZE, _RATE)
