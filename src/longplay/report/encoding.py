"""Pictures -> H.264, lossless RGB or GIF; the only module that imports av.

Pictures are RGB arrays of the same size, with an even width and height. They are
encoded one by one, so memory does not grow with the length of a video. The same
pictures give the same bytes: a single encoder thread, no dates.

    h264        yuv420p in MP4: plays everywhere; colours at half resolution
    lossless    H.264 in RGB, in MP4: the same pixels after decoding
    fragments   h264 in fragments of a second, to be sent while it is encoded
    gif         exact where a picture has at most 256 colours, as Atari's do
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from types import ModuleType, TracebackType
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from longplay.errors import ConfigError, MissingExtraError

Picture = NDArray[np.uint8]
Encoding = Literal["h264", "lossless", "fragments", "gif"]


class Writable(Protocol):
    """A file; where `seek` is needed, a real one."""

    def write(self, chunk: bytes, /) -> int:
        """Writes some bytes."""


@dataclass(frozen=True)
class _Settings:
    """How libav encodes.

    Attributes:
        container: Format of the file.
        codec: Name of the encoder.
        pixel_format: What it encodes.
        codec_options: Options of the encoder.
        container_options: Options of the file.
        most_per_second: Pictures per second that players show correctly.
    """

    container: str
    codec: str
    pixel_format: str
    codec_options: dict[str, str] = field(default_factory=dict)
    container_options: dict[str, str] = field(default_factory=dict)
    most_per_second: int = 60


_H264 = {"preset": "veryfast", "crf": "18"}
_SETTINGS: dict[Encoding, _Settings] = {
    "h264": _Settings("mp4", "libx264", "yuv420p", _H264),
    "lossless": _Settings(
        "mp4", "libx264rgb", "rgb24", {"preset": "veryfast", "qp": "0"}
    ),
    "fragments": _Settings(
        "mp4",
        "libx264",
        "yuv420p",
        _H264,
        {"movflags": "frag_keyframe+empty_moov+default_base_moof"},
    ),
    # Delays are whole hundredths of a second, and browsers slow down below two.
    "gif": _Settings("gif", "gif", "pal8", most_per_second=50),
}
_MOST_COLOURS = 256


@dataclass(frozen=True)
class Pace:
    """How fast frames are shown.

    Attributes:
        stride: Every how many frames one is shown.
        per_second: Pictures per second.
    """

    stride: int
    per_second: Fraction


def choose_pace(
    frames_per_second: Fraction, speed: float, encoding: Encoding = "h264"
) -> Pace:
    """Leaves out frames where there would be more than a player can show.

    Args:
        frames_per_second: Frames per second of play.
        speed: How many times faster than play.
        encoding: What the video is encoded as.
    """
    wanted = frames_per_second * Fraction(speed).limit_denominator(1000)
    stride = ceil(wanted / _SETTINGS[encoding].most_per_second)
    return Pace(stride, wanted / stride)


class VideoWriter:
    """Encodes pictures into a file; use as a context manager.

    Args:
        file: Written to; only fragments can do without seeking.
        encoding: What to encode.
        size: Width and height of a picture.
        per_second: Pictures per second.

    Raises:
        MissingExtraError: av is not installed.
    """

    def __init__(
        self,
        file: Writable,
        encoding: Encoding,
        size: tuple[int, int],
        per_second: Fraction,
    ) -> None:
        self._av = _import_av()
        settings = _SETTINGS[encoding]
        self._is_gif = encoding == "gif"
        self._container = self._av.open(
            file, "w", format=settings.container, options=settings.container_options
        )
        stream = self._container.add_stream(
            settings.codec, rate=per_second, options=settings.codec_options
        )
        stream.width, stream.height = size
        stream.pix_fmt = settings.pixel_format
        if not self._is_gif:
            stream.codec_context.thread_count = 1
            stream.codec_context.gop_size = max(1, round(per_second))
        self._stream = stream
        self._per_second = per_second
        self._count = 0

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._container.mux(self._stream.encode())
        self._container.close()

    def write(self, picture: Picture) -> None:
        """Encodes the next picture."""
        frame = self._to_frame(picture)
        frame.pts, frame.time_base = self._count, 1 / self._per_second
        self._count += 1
        self._container.mux(self._stream.encode(frame))

    def _to_frame(self, picture: Picture) -> Any:
        make = self._av.VideoFrame.from_ndarray
        if self._is_gif:
            return make(_index_colours(picture), format="pal8")
        return make(picture, format="rgb24")


def iter_fragments(
    pictures: Iterable[Picture], size: tuple[int, int], per_second: Fraction
) -> Iterator[bytes]:
    """Encodes pictures as `fragments`; yields bytes as soon as there are some.

    Raises:
        MissingExtraError: av is not installed.
    """
    chunks = _Chunks()
    with VideoWriter(chunks, "fragments", size, per_second) as writer:
        for picture in pictures:
            writer.write(picture)
            yield from chunks.take()
    yield from chunks.take()


class _Chunks:
    """Collects written bytes; has no `seek`, so libav does not seek."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def write(self, chunk: bytes) -> int:
        self._chunks.append(bytes(chunk))
        return len(chunk)

    def take(self) -> list[bytes]:
        taken, self._chunks = self._chunks, []
        return taken


def _import_av() -> ModuleType:
    try:
        import av
    except ImportError as error:
        raise MissingExtraError("videos need PyAV: pip install '.[view]'") from error
    return av


def _index_colours(picture: Picture) -> tuple[Picture, Picture]:
    """A picture as indices into a palette of (alpha, red, green, blue)."""
    red, green, blue = np.moveaxis(picture.astype(np.uint32), -1, 0)
    colours, indices = np.unique(red << 16 | green << 8 | blue, return_inverse=True)
    if len(colours) > _MOST_COLOURS:
        raise ConfigError(
            f"a GIF has at most {_MOST_COLOURS} colours, found {len(colours)} in one "
            "picture; write a video named *.mp4"
        )
    palette = np.zeros((_MOST_COLOURS, 4), np.uint8)
    palette[: len(colours), 0] = 255
    for at, shift in enumerate((16, 8, 0), start=1):
        palette[: len(colours), at] = colours >> shift & 255
    return indices.reshape(picture.shape[:2]).astype(np.uint8), palette
