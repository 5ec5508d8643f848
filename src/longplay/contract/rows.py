"""The rows of a run directory: msgspec structs, one JSON object per line.

Types are strict and keys are written in declared order. The field tables of
docs/contract.md and the JSON Schemas are generated from the descriptions here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

# Far above any run, and low enough that sums never overflow.
LARGEST_INDEX = 2**62
# The largest valid reward or prediction: its square is still finite.
LARGEST_VALUE = 1e15


def _meaning(description: str) -> Any:
    return Meta(description=description)


def _count(description: str) -> Any:
    return Meta(ge=0, le=LARGEST_INDEX, description=description)


def _value(description: str) -> Any:
    return Meta(ge=-LARGEST_VALUE, le=LARGEST_VALUE, description=description)


class RequiredEventRow(msgspec.Struct, gc=False):
    """The thirteen keys that contract v1 requires for every frame."""

    global_frame_idx: Annotated[int, _count("Frame of the run, from 0.")]
    game_id: Annotated[str, _meaning("Game being played.")]
    visit_idx: Annotated[int, _count("Visit of the schedule, from 0.")]
    cycle_idx: Annotated[int, _count("Cycle the visit belongs to, from 0.")]
    visit_frame_idx: Annotated[int, _count("Frame of the visit, from 0.")]
    episode_id: Annotated[int, _count("Game episode of the run, from 0.")]
    segment_id: Annotated[int, _count("Segment of the run, from 0.")]
    is_decision_frame: Annotated[
        bool, _meaning("Whether the agent decided on this frame.")
    ]
    decided_action_idx: Annotated[int, _count("Global index of the decision in force.")]
    applied_action_idx: Annotated[
        int, _count("Global index of the action given to the console.")
    ]
    reward: Annotated[
        float,
        _value("Reward of this console step."),
    ]
    terminated: Annotated[bool, _meaning("The game episode ended with this step.")]
    truncated: Annotated[bool, _meaning("This is the last frame of the visit.")]


class EventRow(RequiredEventRow, gc=False):
    """One frame: a row of events.jsonl as longplay writes it."""

    lives: Annotated[int, _count("Lives after the console step, before any reset.")]


class TimestepRow(EventRow, gc=False):
    """One timestep of several emulator frames: a row of a control run."""

    game_reward: Annotated[
        float,
        _value("Sum of the game's own rewards; `reward` is derived from it."),
    ]
    emulator_frames: Annotated[int, _count("Emulator frames played in the timestep.")]


class PredictionRow(TimestepRow, gc=False):
    """One timestep of a prediction run; both values belong to its observation."""

    prediction: Annotated[float, _value("The agent's prediction before the timestep.")]
    target: Annotated[float, _value("The reference value, a float32.")]


EndedBy = Literal["terminated", "truncated"]


class EpisodeRow(msgspec.Struct, gc=False, rename={"return_": "return"}):
    """One game episode: a row of episodes.jsonl."""

    game_id: Annotated[str, _meaning("Game it was played in.")]
    episode_id: Annotated[int, _count("Game episode of the run, from 0.")]
    start_global_frame_idx: Annotated[int, _count("Its first frame.")]
    end_global_frame_idx: Annotated[int, _count("Its last frame.")]
    length: Annotated[int, _count("Its number of frames.")]
    return_: Annotated[float, _meaning("Sum of its rewards.")]
    ended_by: Annotated[
        EndedBy,
        _meaning("`terminated` if the game ended it, else `truncated`."),
    ]


class SegmentRow(msgspec.Struct, gc=False, rename={"return_": "return"}):
    """The frames between two console resets: a row of segments.jsonl."""

    game_id: Annotated[str, _meaning("Game it was played in.")]
    segment_id: Annotated[int, _count("Segment of the run, from 0.")]
    start_global_frame_idx: Annotated[int, _count("Its first frame.")]
    end_global_frame_idx: Annotated[int, _count("Its last frame.")]
    length: Annotated[int, _count("Its number of frames.")]
    return_: Annotated[float, _meaning("Sum of its rewards.")]
    ended_by: Annotated[
        EndedBy,
        _meaning("`truncated` if the visit ended it, else `terminated`."),
    ]


class DigestRow(msgspec.Struct, gc=False):
    """A digest of the frames since the previous row: a row of digests.jsonl."""

    global_frame_idx: Annotated[int, _count("Last frame it covers.")]
    visit_idx: Annotated[int, _count("Visit of that frame.")]
    visit_frame_idx: Annotated[int, _count("Frame of the visit.")]
    ram_crc32: Annotated[
        str,
        Meta(
            pattern="^[0-9a-f]{8}$",
            description="CRC-32 over the memory after every console step of the visit.",
        ),
    ]
    chain: Annotated[
        str,
        Meta(
            pattern="^[0-9a-f]{64}$",
            description="SHA-256 of the previous chain and of the events since.",
        ),
    ]


# Beyond any sum of squares of rewards and values, and finite.
_LARGEST_SUM = 1e300


_Sum = Annotated[float, Meta(ge=-_LARGEST_SUM, le=_LARGEST_SUM)]
_WindowSums = Annotated[list[_Sum], Meta(min_length=60, max_length=60)]


class CurveRow(msgspec.Struct, gc=False, omit_defaults=True):
    """Sums over the 60 windows of a visit that has ended: a row of curves.jsonl."""

    visit_idx: Annotated[int, _count("Visit of the schedule, from 0.")]
    game_id: Annotated[str, _meaning("Game of the visit.")]
    cycle_idx: Annotated[int, _count("Cycle the visit belongs to, from 0.")]
    frames: Annotated[int, _count("Frames of the visit.")]
    reward_sums: Annotated[_WindowSums, _meaning("Sums of rewards.")]
    squared_error_sums: Annotated[
        _WindowSums | None,
        _meaning("Sums of (prediction - target)²; prediction runs only."),
    ] = None
    target_sums: Annotated[
        _WindowSums | None, _meaning("Sums of targets; prediction runs only.")
    ] = None
    squared_target_sums: Annotated[
        _WindowSums | None, _meaning("Sums of target²; prediction runs only.")
    ] = None
