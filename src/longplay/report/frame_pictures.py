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
from longplay.contract.records import PredictionRow
from longplay.errors import MissingExtraError
from longplay.report.encoding import Picture
from longplay.verify.replay import ReplayedFrame

_HEIGHT, _WIDTH, _ = OBSERVATION_SHAPE
_LINE_HEIGHT = 12
_MARGIN = 3
_LABEL = (150, 150, 150)
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
        scale: How many times larger than the screen.
        caption_lines: Number of lines below the screen; 0 for no caption.
        frame_noun: What a frame is called on the run's track.

    Raises:
        MissingExtraError: There is a caption, and PIL is not installed.
    """

    def __init__(
        self, scale: int = 1, caption_lines: int = 0, frame_noun: str = "frame"
    ) -> None:
        self._scale = scale
        self._frame_noun = frame_noun
        self._caption_height = 0
        if caption_lines:
            self._pil = _import_pil()
            self._font = self._pil.ImageFont.load_default_imagefont()
            self._caption_height = caption_lines * _LINE_HEIGHT + 2 * _MARGIN

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
        strip = self._pil.Image.new("RGB", (_WIDTH, self._caption_height))
        draw = self._pil.ImageDraw.Draw(strip)
        for number, (label, value) in enumerate(lines):
            y = _MARGIN + number * _LINE_HEIGHT
            x = _WIDTH - _MARGIN - draw.textlength(value, self._font)
            draw.text((_MARGIN, y), label, _LABEL, self._font)
            draw.text((x, y), value, _VALUE, self._font)
        return np.asarray(strip)


def enlarge(picture: Picture, scale: int) -> Picture:
    """Every pixel as a square of `scale` x `scale` pixels."""
    if scale == 1:
        return picture
    return picture.repeat(scale, axis=1).repeat(scale, axis=0)


def render_png(picture: Picture) -> bytes:
    """A picture as PNG.

    Raises:
        MissingExtraError: PIL is not installed.
    """
    buffer = io.BytesIO()
    image: Any = _import_pil().Image.fromarray(picture)
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _import_pil() -> ModuleType:
    try:
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
    except ImportError as error:
        raise MissingExtraError("pictures need PIL: pip install '.[view]'") from error
    return PIL
