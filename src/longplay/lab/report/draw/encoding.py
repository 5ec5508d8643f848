"""Pictures -> H.264, lossless RGB or GIF; the only module that imports av.

Pictures are RGB arrays of the same size, with an even width and height. They are
encoded one by one, so memory does not grow with the length of a video. The same
pictures give the same bytes: a single encoder thread, no dates.

    h264        yuv420p in MP4: plays everywhere; colours at half resolution
    lossless    H.264 in RGB, in MP4: the same pixels after decoding
    gif         up to 256 colours, exactly; Atari has 128
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from types import ModuleType, TracebackType
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from longplay.errors import ConfigError, MissingExtraError

Picture = NDArray[np.uint8]
Encoding = Literal["h264", "lossless", "gif"]


@dataclass(frozen=True)
class _Settings:
    """How libav encodes.

    Attributes:
        container: Format of the file.
        codec: Name of the encoder.
        pixel_format: What it encodes.
        codec_options: Options of the encoder.
        most_per_second: Pictures per second that players show correctly.
    """

    container: str
    codec: str
    pixel_format: str
    codec_options: dict[str, str] = field(default_factory=dict)
    most_per_second: int = 60


_SETTINGS: dict[Encoding, _Settings] = {
    # Without mb-tree, which reads memory that x264 never wrote: bytes would vary.
    "h264": _Settings(
        "mp4",
        "libx264",
        "yuv420p",
        {"preset": "veryfast", "crf": "18", "x264-params": "mbtree=0"},
    ),
    "lossless": _Settings(
        "mp4", "libx264rgb", "rgb24", {"preset": "veryfast", "qp": "0"}
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
        file: Written to; must be able to seek.
        encoding: What to encode.
        size: Width and height of a picture.
        per_second: Pictures per second.

    Raises:
        MissingExtraError: av is not installed.
    """

    def __init__(
        self,
        file: BinaryIO,
        encoding: Encoding,
        size: tuple[int, int],
        per_second: Fraction,
    ) -> None:
        self._av = _import_av()
        settings = _SETTINGS[encoding]
        self._is_gif = encoding == "gif"
        self._container = self._av.open(file, "w", format=settings.container)
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
        self._palette = _Palette()
        self._count = 0

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._container.mux(self._stream.encode())
                self._container.close()
        finally:
            # After an error this fails again; otherwise the file is closed already.
            with suppress(self._av.FFmpegError, OSError):
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
            return make(self._palette.index(picture), format="pal8")
        return make(picture, format="rgb24")


def _import_av() -> ModuleType:
    try:
        import av
    except ImportError as error:
        raise MissingExtraError.of("videos need PyAV", "view") from error
    return av


class _Palette:
    """Gives every colour of a GIF one index, for all of its pictures.

    libav writes only the part of a picture that changed, and compares indices.
    """

    def __init__(self) -> None:
        self._indices: dict[int, int] = {}
        # Alpha, red, green, blue.
        self._colours = np.zeros((_MOST_COLOURS, 4), np.uint8)
        self._colours[:, 0] = 255

    def index(self, picture: Picture) -> tuple[Picture, Picture]:
        """The picture as indices, and the palette."""
        red, green, blue = np.moveaxis(picture.astype(np.uint32), -1, 0)
        packed, inverse = np.unique(red << 16 | green << 8 | blue, return_inverse=True)
        for colour in packed.tolist():
            if colour not in self._indices:
                self._add(colour)
        indices = np.array([self._indices[c] for c in packed.tolist()], np.uint8)
        return indices[inverse].reshape(picture.shape[:2]), self._colours

    def _add(self, colour: int) -> None:
        at = len(self._indices)
        if at == _MOST_COLOURS:
            raise ConfigError(
                f"a GIF has at most {_MOST_COLOURS} colours, found more; write a video "
                "named *.mp4"
            )
        self._indices[colour] = at
        self._colours[at, 1:] = colour >> 16, colour >> 8 & 255, colour & 255
