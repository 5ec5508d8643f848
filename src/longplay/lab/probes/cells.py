"""A schedule -> which games are asked for after which visit.

due    after visit i the game just played and the game that comes next; after the
last visit all games; before the first visit (`fresh`) all games
all    every game after every visit, and before the first
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from longplay.contract.config import ScheduledVisit

FRESH = "fresh"
Choice = Literal["due", "all"]


def choose_cells(
    schedule: Sequence[ScheduledVisit], games: Sequence[str], choice: Choice = "due"
) -> dict[str, tuple[str, ...]]:
    """State -> the games that it is asked for, in the order of the suite's games."""
    cells = {FRESH: tuple(games)}
    for position, visit in enumerate(schedule):
        asked = set(games)
        if choice == "due" and position + 1 < len(schedule):
            asked = {visit.game_id, schedule[position + 1].game_id}
        cells[f"visit-{position}"] = tuple(game for game in games if game in asked)
    return cells
