"""Replayed frames -> pictures, enlarged and with a caption; the only importer of PIL.

The caption is a strip below the screen, so that it covers no pixel of the game. It
shows game and visit, the frame, the return of the game episode before this frame, the
decided and the applied action, and on the prediction track prediction and target.
"""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

import numpy as np

from longplay.console.base import ACTION_NAMES, OBSERVATION_SHAPE
from longplay.contract.config import RunConfig
from longplay.contract.rows import PredictionRow
from longplay.errors import MissingExtraError
from longplay.lab.report.draw.encoding import Picture
from longplay.tracks.catalogue import track_of
from longplay.verify.replay import ReplayedFrame

_HEIGHT, _WIDTH, _ = OBSERVATION_SHAPE
_LINE_HEIGHT = 12
_MARGIN = 3
# Lines of a caption, and those that a prediction run adds.
_LINES, _PREDICTION_LINES = 5, 2
_BACKGROUND = (32, 32, 32)
_LABEL = (160, 160, 160)
_VALUE = (255, 255, 255)

# Label at the left, value at the right.
CaptionLine = tuple[str, str]


def caption_frame(frame: ReplayedFrame, frame_noun: str) -> list[CaptionLine]:
    """The lines below a frame.

    Args:
        frame: The frame.
        frame_noun: What a frame is called on its track.
    """
    row = frame.row
    lines = [
        (f"visit {row.visit_idx}", row.game_id),
        (frame_noun, f"{row.global_frame_idx:,}"),
        ("return", f"{frame.episode_return:,g}"),
        ("decided", ACTION_NAMES[row.decided_action_idx]),
        ("applied", ACTION_NAMES[row.applied_action_idx]),
    ]
    if isinstance(row, PredictionRow):
        lines += [
            ("predicted", f"{row.prediction:.3f}"),
            ("target", f"{row.target:.3f}"),
        ]
    return lines


class FramePainter:
    """Draws frames of one run.

    Args:
        config: Config of the run.
        scale: How many times larger than the screen.
        has_caption: Whether there is a caption below the screen.

    Raises:
        MissingExtraError: There is a caption, and PIL is not installed.
    """

    def __init__(
        self, config: RunConfig, scale: int = 1, has_caption: bool = False
    ) -> None:
        self._scale = scale
        self._caption_height = 0
        track = track_of(config)
        self._frame_noun = track.frame_noun
        if has_caption:
            self._pil = _import_pil()
            self._font = self._pil.ImageFont.load_default_imagefont()
            lines = _LINES + (_PREDICTION_LINES if track.predicts else 0)
            self._caption_height = lines * _LINE_HEIGHT + 2 * _MARGIN

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of every picture; both are even."""
        height = _HEIGHT + self._caption_height
        return _WIDTH * self._scale, height * self._scale

    def paint(self, frame: ReplayedFrame) -> Picture:
        """The picture of a frame."""
        picture = frame.observation
        if self._caption_height:
            lines = caption_frame(frame, self._frame_noun)
            picture = np.concatenate([picture, self._draw_caption(lines)])
        return enlarge(picture, self._scale)

    def _draw_caption(self, lines: list[CaptionLine]) -> Picture:
        size = (_WIDTH, self._caption_height)
        strip = self._pil.Image.new("RGB", size, _BACKGROUND)
        draw = self._pil.ImageDraw.Draw(strip)
        for number, (label, value) in enumerate(lines):
            top = _MARGIN + number * _LINE_HEIGHT
            left = _WIDTH - _MARGIN - draw.textlength(value, self._font)
            draw.text((_MARGIN, top), label, _LABEL, self._font)
            draw.text((left, top), value, _VALUE, self._font)
        return np.asarray(strip)


def enlarge(picture: Picture, scale: int) -> Picture:
    """Every pixel as a square of `scale` x `scale` pixels."""
    if scale == 1:
        return picture
    return picture.repeat(scale, axis=1).repeat(scale, axis=0)


def render_png(picture: Picture, *, is_small: bool = True) -> bytes:
    """A picture as PNG, small or made fast.

    Raises:
        MissingExtraError: PIL is not installed.
    """
    buffer = io.BytesIO()
    image: Any = _import_pil().Image.fromarray(picture)
    image.save(buffer, "PNG", optimize=is_small, compress_level=9 if is_small else 1)
    return buffer.getvalue()


def _import_pil() -> ModuleType:
    try:
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
    except ImportError as error:
        raise MissingExtraError.of("pictures need PIL", "view") from error
    return PIL
