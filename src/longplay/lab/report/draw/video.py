"""Frames of a run or a pack -> a video, a GIF or a picture.

Frames are replayed, drawn and encoded one by one. A video plays at the speed of the
console: 60 emulator frames per second.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from longplay.contract.config import RunConfig
from longplay.contract.files import replacing, write_file
from longplay.errors import ConfigError
from longplay.lab.report.draw.encoding import Encoding, VideoWriter, choose_pace
from longplay.lab.report.draw.frame_pictures import FramePainter, render_png
from longplay.verify.frames import ReplayedRun
from longplay.verify.replay import ReplayObserver, ignore_replay

_EMULATOR_FRAMES_PER_SECOND = 60


@dataclass(frozen=True)
class VideoStyle:
    """What a video looks like.

    Attributes:
        scale: How many times larger than the screen.
        speed: How many times faster than play.
        has_caption: Whether there is a caption below the screen.
        is_lossless: Whether every pixel is kept exactly, in RGB.
    """

    scale: int = 2
    speed: float = 1.0
    has_caption: bool = False
    is_lossless: bool = False


@dataclass(frozen=True)
class Video:
    """A video that was written.

    Attributes:
        path: The file.
        pictures: Number of pictures in it.
        size: Width and height of a picture.
        per_second: Pictures per second.
    """

    path: Path
    pictures: int
    size: tuple[int, int]
    per_second: Fraction

    @property
    def seconds(self) -> float:
        """How long it is."""
        return float(self.pictures / self.per_second)

    def to_json(self) -> dict[str, Any]:
        """The facts as plain JSON values."""
        return {
            "file": str(self.path),
            "pictures": self.pictures,
            "width": self.size[0],
            "height": self.size[1],
            "seconds": self.seconds,
        }


def frames_per_second(config: RunConfig) -> Fraction:
    """How many frames of a run the console plays per second."""
    return Fraction(_EMULATOR_FRAMES_PER_SECOND, config.frame_skip or 1)


def write_video(
    run: ReplayedRun,
    frames: range,
    path: Path,
    style: VideoStyle,
    observer: ReplayObserver = ignore_replay,
) -> Video:
    """Writes frames of a run as a video.

    Args:
        run: The run.
        frames: Which frames.
        path: Where to, *.mp4 or *.gif.
        style: What it looks like.
        observer: Receives the progress of the replay.

    Raises:
        ConfigError: The run does not have these frames, or the file has another name.
        MissingExtraError: The extra `view` is not installed.
        LongplayError: The run does not reproduce, or the file cannot be written.
    """
    encoding = _choose_encoding(path, style)
    pace = choose_pace(frames_per_second(run.config), style.speed, encoding)
    painter = FramePainter(run.config, style.scale, style.has_caption)
    shown = frames[:: pace.stride]
    replayed = run.iter_frames(shown, observer)
    with (
        replacing(path) as file,
        VideoWriter(file, encoding, painter.size, pace.per_second) as writer,
    ):
        for frame in replayed:
            writer.write(painter.paint(frame))
    return Video(path, len(shown), painter.size, pace.per_second)


def _choose_encoding(path: Path, style: VideoStyle) -> Encoding:
    suffix = path.suffix.lower()
    if suffix == ".mp4":
        return "lossless" if style.is_lossless else "h264"
    if suffix != ".gif":
        raise ConfigError(
            f"-o: expected *.mp4 or *.gif, or *.png with --frame, found {path.name}"
        )
    if style.is_lossless:
        raise ConfigError("--lossless: only for *.mp4; a GIF has exact colours anyway")
    return "gif"


def write_picture(
    run: ReplayedRun,
    frames: range,
    path: Path,
    style: VideoStyle,
    observer: ReplayObserver = ignore_replay,
) -> Video:
    """Writes one frame of a run as a PNG.

    Args:
        run: The run.
        frames: The frame, as a range of one.
        path: Where to, *.png.
        style: What it looks like; a picture is always lossless.
        observer: Receives the progress of the replay.

    Raises:
        ConfigError: The run does not have this frame, or the file has another name.
        MissingExtraError: The extra `view` is not installed.
        LongplayError: The run does not reproduce, or the file cannot be written.
    """
    if path.suffix.lower() != ".png":
        raise ConfigError(f"-o: expected *.png with --frame, found {path.name}")
    painter = FramePainter(run.config, style.scale, style.has_caption)
    (replayed,) = run.iter_frames(frames, observer)
    write_file(path, render_png(painter.paint(replayed)))
    return Video(path, 1, painter.size, frames_per_second(run.config))
