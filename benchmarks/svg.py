"""Drawing without a plotting package: numbers -> panels, lines and axes as SVG text.

The text is a function of the numbers: positions are rounded to a tenth of a pixel, and
nothing names a clock, a path or a machine. A picture brings its own light background,
so that it can be read on a dark page too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

Position = tuple[float, float]

# Narrower than this, a line's ups and downs cannot be told apart.
COLUMN_PX = 2.0

_STYLE = """
text { font: 12px system-ui, "Segoe UI", Helvetica, Arial, "DejaVu Sans", sans-serif;
  fill: #5b5f66 }
.name { font-size: 13px; font-weight: 600; fill: #23262b }
.note { fill: #23262b }
.page { fill: #fdfdfb; stroke: #e2e0d8 }
.panel { fill: #ffffff; stroke: #cfccc2 }
.grid { stroke: #ecebe5 }
"""


def number(value: float) -> str:
    """A position to a tenth of a pixel: `12`, `12.3`, never `-0`."""
    tenths = round(10 * value)
    return f"{tenths // 10}" if tenths % 10 == 0 else f"{tenths / 10:.1f}"


def element(name: str, content: str = "", **attributes: float | str) -> str:
    """One element; `_` in a name stands for `-`, and `class_` for `class`."""
    words = [name]
    for key, value in attributes.items():
        shown = value if isinstance(value, str) else number(value)
        words.append(f"{key.rstrip('_').replace('_', '-')}={quoteattr(shown)}")
    head = " ".join(words)
    return f"<{head}>{content}</{name}>" if content else f"<{head}/>"


def draw_text(at: Position, words: str, **attributes: float | str) -> str:
    """Words, from a position on unless `text_anchor` says otherwise."""
    return element("text", escape(words), x=at[0], y=at[1], **attributes)


def draw_label(middle: Position, words: str) -> str:
    """Words around a position."""
    return draw_text(middle, words, text_anchor="middle")


def draw_upright_label(middle: Position, words: str) -> str:
    """Words around a position, read from below."""
    turn = f"rotate(-90 {number(middle[0])} {number(middle[1])})"
    return draw_text(middle, words, text_anchor="middle", transform=turn)


def draw_segment(start: Position, end: Position, class_: str) -> str:
    """A straight line."""
    (x1, y1), (x2, y2) = start, end
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def draw_line(positions: Sequence[Position], class_: str) -> str:
    """A line through positions that go from left to right."""
    points = " ".join(f"{number(x)},{number(y)}" for x, y in thin_out(positions))
    return element("polyline", points=points, class_=class_)


def thin_out(positions: Sequence[Position]) -> list[Position]:
    """The highest and the lowest position of every column of pixels, in order."""
    kept: list[Position] = []
    for _, group in groupby(positions, key=lambda at: at[0] // COLUMN_PX):
        column = list(group)
        extremes = {
            min(column, key=lambda at: at[1]),
            max(column, key=lambda at: at[1]),
        }
        kept.extend(sorted(extremes))
    return kept


@dataclass(frozen=True)
class Scale:
    """Numbers from `low` to `high`, laid out from one pixel to another."""

    low: float
    high: float
    low_px: float
    high_px: float

    def place(self, value: float) -> float:
        """The pixel of a number."""
        share = (value - self.low) / (self.high - self.low)
        return self.low_px + share * (self.high_px - self.low_px)

    def choose_ticks(self, intervals: int) -> list[float]:
        """Round numbers within, at most so many intervals between them.

        They are multiples of 1, 2 or 5 times a power of ten.
        """
        # A little less, so that rounding cannot make 0.04 / 2 more than 0.02.
        finest = 0.999 * (self.high - self.low) / intervals
        power = 10.0 ** math.floor(math.log10(finest))
        step = next(k * power for k in (1, 2, 5, 10) if k * power >= finest)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        # By way of decimal text, so that 3 x 0.1 is 0.3.
        return [float(f"{k * step:.6g}") for k in range(first, last + 1)]


def find_range(values: Iterable[float], margin: float = 0.06) -> tuple[float, float]:
    """The range of some numbers and a margin; never empty."""
    known = list(values)
    low, high = min(known), max(known)
    spare = margin * (high - low) or 0.5
    return low - spare, high + spare


def write_tick(value: float) -> str:
    """`1,500`, `−0.5`."""
    return f"{value:,.6g}".replace("-", "−")


@dataclass(frozen=True)
class Panel:
    """A rectangle with a horizontal and a vertical scale."""

    x: Scale
    y: Scale

    def place(self, x: float, y: float) -> Position:
        """The position of a point."""
        return self.x.place(x), self.y.place(y)

    def draw_frame(self, x_ticks: int, y_ticks: int) -> str:
        """The rectangle, with grid lines at round numbers."""
        left, right = self.x.low_px, self.x.high_px
        bottom, top = self.y.low_px, self.y.high_px
        width, height = right - left, bottom - top
        parts = [
            element("rect", x=left, y=top, width=width, height=height, class_="panel")
        ]
        for tick in self.x.choose_ticks(x_ticks):
            at = self.x.place(tick)
            parts.append(draw_segment((at, top), (at, bottom), "grid"))
            parts.append(draw_label((at, bottom + 15), write_tick(tick)))
        for tick in self.y.choose_ticks(y_ticks):
            at = self.y.place(tick)
            parts.append(draw_segment((left, at), (right, at), "grid"))
            label = (left - 6, at + 4)
            parts.append(draw_text(label, write_tick(tick), text_anchor="end"))
        return "\n".join(parts)


def render_picture(
    size: Position, title: str, style: str, parts: Iterable[str]
) -> bytes:
    """A whole file.

    Args:
        size: Width and height in pixels.
        title: Description of the picture for screen readers.
        style: CSS for the classes that the parts use.
        parts: Elements, drawn one over the other.
    """
    width, height = map(number, size)
    page = element(
        "rect", x=0.5, y=0.5, width=size[0] - 1, height=size[1] - 1, rx=6, class_="page"
    )
    body = [element("title", escape(title)), f"<style>{_STYLE}{style}</style>", page]
    content = "\n".join([*body, *parts])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">\n{content}\n</svg>\n'
    ).encode()
