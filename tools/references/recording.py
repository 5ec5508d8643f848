"""A reference and a seed -> a recorded visit of its policy.

It is played with the same stream as a run, so a recording cannot differ from a live
policy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longplay.console.base import Console
from longplay.contract.config import ScheduledVisit
from longplay.contract.rows import PredictionRow
from longplay.reference.driver import ReferenceDriver
from longplay.reference.guide import LiveGuide
from longplay.reference.library import load_reference
from longplay.reference.streams import RecordedVisit
from longplay.seeds import emulator_seed, policy_seed
from longplay.stream import Mechanics, Stream


def record_visit(
    visit: ScheduledVisit, seed: int, console: Console, data: Path | None = None
) -> RecordedVisit:
    """Plays one visit of a run live and records it.

    Args:
        visit: Game, position in the schedule, and length.
        seed: The run seed.
        console: A console with the track's four emulator frames per step.
        data: Folder of the reference; the installed ones if None.
    """
    index = visit.visit_idx
    guide = LiveGuide(load_reference(visit.game_id, data), policy_seed(seed, index))
    stream = Stream(
        (visit,),
        (emulator_seed(seed, index),),
        console,
        Mechanics(reward="sign"),
        ReferenceDriver({index: guide}),
    )
    rows = []
    while not stream.done:
        row = stream.advance(0.0)
        assert isinstance(row, PredictionRow)
        rows.append((row.applied_action_idx, row.reward, row.target))
    actions, rewards, values = zip(*rows, strict=True)
    return RecordedVisit(
        np.array(actions, np.uint8),
        np.array(rewards, np.int8),
        np.array(values, np.float32),
    )
