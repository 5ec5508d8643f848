"""A reference and a seed -> the visit that its policy plays, recorded.

The very stream of a run plays it, so that a recording cannot differ from what a live
policy would have done.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longplay.console.base import Console
from longplay.contract.records import PredictionRow, ScheduledVisit
from longplay.reference.driver import ReferenceDriver
from longplay.reference.guide import LiveGuide
from longplay.reference.library import load_reference
from longplay.reference.streams import RecordedVisit
from longplay.seeds import emulator_seed, policy_seed
from longplay.stream import Mechanics, Stream


def record_visit(
    visit: ScheduledVisit, seed: int, console: Console, data: Path | None = None
) -> RecordedVisit:
    """Plays a visit of a run's seed live.

    Args:
        visit: Game, place in the schedule, and length.
        seed: The run's.
        console: One of the track's, four emulator frames a step.
        data: Where the reference is, if not with the others.
    """
    place = visit.visit_idx
    guide = LiveGuide(load_reference(visit.game_id, data), policy_seed(seed, place))
    stream = Stream(
        (visit,),
        (emulator_seed(seed, place),),
        console,
        Mechanics(reward="sign"),
        ReferenceDriver({place: guide}),
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
