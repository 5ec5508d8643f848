"""Numbers, times and states as the pages show them."""

from __future__ import annotations

from longplay.lab.viewer.cards import UNREADABLE, RunCard
from longplay.tables import NOTHING, Cell

# A state is told by a sign and a word; its colour only repeats them.
_SIGNS = {
    "QUEUED": "○",
    "RUNNING": "▶",
    "COMPLETED": "✓",
    "FAILED": "✗",
    "CANCELLED": "■",
    "STALE": "?",
    UNREADABLE: "✗",
}


def describe_state(state: str) -> str:
    """`✓ COMPLETED`."""
    return f"{_SIGNS.get(state, '?')} {state}"


def format_value(value: float | None) -> str:
    """Five significant digits, as `longplay show` prints them."""
    return NOTHING if value is None else f"{value:.5g}"


def value_cell(value: float | None) -> Cell:
    """A number that sorts by all its digits."""
    return Cell(format_value(value), value)


def text_cell(text: str | None) -> Cell:
    """Text, or a dash."""
    return Cell(text or NOTHING, text or None)


def describe_progress(card: RunCard) -> str:
    """`1,200 of 12,039 frames (10 %)`; `12,039 frames` at the end."""
    if not card.frames_total:
        return NOTHING
    if card.frame == card.frames_total:
        return f"{card.frame:,} {card.frame_noun}s"
    of = f"{card.frame:,} of {card.frames_total:,} {card.frame_noun}s"
    return f"{of} ({100 * card.share:.0f} %)"


def describe_learning(card: RunCard) -> str:
    """`reward 0.012 per frame, loss 1.5`: what a run in progress last reported."""
    parts = [
        f"{name} {NOTHING if value is None else format(value, '.3g')}"
        for name, value in card.metrics.items()
    ]
    if card.reward_rate is not None:
        parts.insert(0, f"reward {card.reward_rate:.3g} per {card.frame_noun}")
    return ", ".join(parts) or NOTHING
