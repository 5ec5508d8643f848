"""The control rules, frame by frame, without any agent or file."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import ScheduledVisit
from longplay.contract.rows import EpisodeRow, EventRow, SegmentRow, TimestepRow
from longplay.driver import ActionDriver
from longplay.errors import AgentError, ConsoleError
from longplay.stream import Mechanics, Percept, Stream, map_actions
from tape_console import (
    GAME_OVER,
    LIFE_LOST,
    QUIET,
    TapeConsole,
    make_stream,
    make_visits,
)


class Frame(NamedTuple):
    """Everything that one frame of a stream shows."""

    percept: Percept
    event: EventRow
    episode: EpisodeRow | None
    segment: SegmentRow | None


def frames_of(stream: Stream, answers: Iterable[Any]) -> Iterator[Frame]:
    """Plays to the end, or to the end of the answers."""
    for answer in answers:
        if stream.done:
            return
        percept = stream.percept()
        event = stream.advance(answer)
        is_end = event.terminated or event.truncated
        ends = (stream.ended_episode, stream.ended_segment) if is_end else (None, None)
        yield Frame(percept, event, *ends)


def play(stream: Stream, answers: Iterable[Any]) -> list[Frame]:
    return list(frames_of(stream, answers))


def column(frames: Sequence[Frame], name: str) -> list[Any]:
    return [getattr(frame.event, name) for frame in frames]


def infos(frames: Sequence[Frame], name: str) -> list[Any]:
    return [frame.percept.info[name] for frame in frames]


# --- decisions and delay --------------------------------------------------------


def test_decision_cadence_and_held_decisions():
    stream = make_stream(TapeConsole(), ("a", 8), decision_interval=3)
    frames = play(stream, [1, 2, 3, 4, 5, 6, 7, 8])
    assert column(frames, "is_decision_frame") == [1, 0, 0, 1, 0, 0, 1, 0]
    assert column(frames, "decided_action_idx") == [1, 1, 1, 4, 4, 4, 7, 7]
    assert column(frames, "applied_action_idx") == [1, 1, 1, 4, 4, 4, 7, 7]


def test_agent_is_told_of_decision_frames():
    stream = make_stream(TapeConsole(), ("a", 5), decision_interval=2)
    frames = play(stream, [0] * 5)
    assert infos(frames, "is_decision_frame") == [True, False, True, False, True]


def test_delay_law_with_default_before():
    console = TapeConsole()
    stream = make_stream(console, ("a", 7), delay=3, default_action_idx=9)
    frames = play(stream, [1, 2, 3, 4, 5, 6, 7])
    assert column(frames, "decided_action_idx") == [1, 2, 3, 4, 5, 6, 7]
    assert column(frames, "applied_action_idx") == [9, 9, 9, 1, 2, 3, 4]
    assert console.calls == [("start", "a", 100), 9, 9, 9, 1, 2, 3, 4]


def test_delay_and_interval_together():
    stream = make_stream(TapeConsole(), ("a", 7), delay=2, decision_interval=3)
    frames = play(stream, [1, 2, 3, 4, 5, 6, 7])
    assert column(frames, "decided_action_idx") == [1, 1, 1, 4, 4, 4, 7]
    assert column(frames, "applied_action_idx") == [0, 0, 1, 1, 1, 4, 4]


def test_delay_longer_than_the_visit_applies_only_the_default():
    stream = make_stream(TapeConsole(), ("a", 3), ("b", 3), delay=7)
    frames = play(stream, [5] * 6)
    assert column(frames, "applied_action_idx") == [0] * 6


@pytest.mark.seed("000", "schedule-5")
def test_game_over_restarts_the_control_rules():
    console = TapeConsole([QUIET, GAME_OVER])
    stream = make_stream(console, ("a", 6), delay=1, decision_interval=4)
    frames = play(stream, [1, 2, 3, 4, 5, 6])
    assert column(frames, "is_decision_frame") == [1, 0, 1, 0, 0, 0]
    assert column(frames, "decided_action_idx") == [1, 1, 3, 3, 3, 3]
    assert column(frames, "applied_action_idx") == [0, 1, 0, 3, 3, 3]
    assert console.calls == [("start", "a", 100), 0, 1, "reset", 0, 3, 3, 3]


@pytest.mark.seed("000", "schedule-3")
def test_visit_start_restarts_the_control_rules():
    console = TapeConsole()
    stream = make_stream(console, ("a", 2), ("b", 3), delay=1, decision_interval=4)
    frames = play(stream, [1, 2, 3, 4, 5])
    assert column(frames, "is_decision_frame") == [1, 0, 1, 0, 0]
    assert column(frames, "applied_action_idx") == [0, 1, 0, 3, 3]
    # The end of a visit does not reset the old machine: the new one starts at once.
    assert console.calls == [("start", "a", 100), 0, 1, ("start", "b", 101), 0, 3, 3]


@pytest.mark.seed("000", "info-3")
def test_previous_applied_action_is_forgotten_at_resets():
    console = TapeConsole([QUIET, QUIET, GAME_OVER])
    stream = make_stream(console, ("a", 5), ("b", 2), default_action_idx=2)
    frames = play(stream, [7, 8, 9, 10, 11, 12, 13])
    known = infos(frames, "has_prev_applied_action")
    assert known == [False, True, True, False, True, False, True]
    assert infos(frames, "prev_applied_action_idx") == [2, 7, 8, 2, 10, 2, 12]


def test_answers_between_decisions_are_not_read():
    stream = make_stream(TapeConsole(), ("a", 4), decision_interval=2)
    frames = play(stream, [1, "nonsense", 2, None])
    assert column(frames, "applied_action_idx") == [1, 1, 2, 2]


@pytest.mark.parametrize("answer", [np.int64(17), np.uint8(17), np.array(17)])
def test_numpy_integers_are_actions(answer):
    (frame,) = play(make_stream(TapeConsole(), ("a", 1)), [answer])
    assert frame.event.decided_action_idx == 17
    assert type(frame.event.decided_action_idx) is int


@pytest.mark.parametrize(
    "answer", [-1, 18, 1.0, math.nan, "1", None, True, np.True_, [1], np.array([1, 2])]
)
def test_other_answers_to_a_decision_frame_are_refused(answer):
    console = TapeConsole()
    stream = make_stream(console, ("pong", 4), decision_interval=2)
    play(stream, [0, 0])
    with pytest.raises(AgentError, match=r"at frame 2 of pong") as caught:
        stream.advance(answer)
    assert f"found {answer!r}" in str(caught.value)
    assert console.calls == [("start", "pong", 100), 0, 0]


# --- boundaries -----------------------------------------------------------------


@pytest.mark.seed("000", "schedule-4", "schedule-5")
def test_only_the_last_frame_of_a_visit_is_truncated():
    console = TapeConsole([QUIET, GAME_OVER])
    frames = play(make_stream(console, ("a", 4), ("b", 1), ("c", 2)), [0] * 7)
    assert column(frames, "truncated") == [0, 0, 0, 1, 1, 0, 1]
    assert column(frames, "terminated") == [0, 1, 0, 0, 0, 0, 0]
    assert column(frames, "visit_frame_idx") == [0, 1, 2, 3, 0, 0, 1]
    assert column(frames, "game_id") == list("aaaabcc")


def test_rows_have_the_ids_from_before_the_boundary():
    console = TapeConsole([QUIET, GAME_OVER])
    frames = play(make_stream(console, ("a", 4), ("b", 2)), [0] * 6)
    assert column(frames, "episode_id") == [0, 0, 1, 1, 2, 2]
    assert column(frames, "segment_id") == [0, 0, 1, 1, 2, 2]


@pytest.mark.seed("000", "episodes-1", "segments-1")
def test_episode_and_segment_rows():
    console = TapeConsole([(1.0, False, 3), (2.0, True, 0), (-4.5, False, 3)])
    frames = play(make_stream(console, ("a", 4)), [0] * 4)
    assert [frame.episode for frame in frames] == [
        None,
        EpisodeRow("a", 0, 0, 1, 2, 3.0, "terminated"),
        None,
        EpisodeRow("a", 1, 2, 3, 2, -4.5, "truncated"),
    ]
    assert [frame.segment for frame in frames] == [
        None,
        SegmentRow("a", 0, 0, 1, 2, 3.0, "terminated"),
        None,
        SegmentRow("a", 1, 2, 3, 2, -4.5, "truncated"),
    ]


def test_both_flags_on_a_last_frame():
    console = TapeConsole([QUIET, GAME_OVER])
    frames = play(make_stream(console, ("a", 2), ("b", 1)), [0] * 3)
    last = frames[1]
    assert (last.event.terminated, last.event.truncated) == (True, True)
    assert last.episode.ended_by == "terminated"
    assert last.segment.ended_by == "truncated"
    # One boundary, not two: the next visit has the next ids.
    assert frames[2].event.episode_id == frames[2].event.segment_id == 1
    assert console.calls == [("start", "a", 100), 0, 0, ("start", "b", 101), 0]


def test_lives_of_a_row_are_those_before_the_reset():
    console = TapeConsole([QUIET, GAME_OVER])
    frames = play(make_stream(console, ("a", 3)), [0] * 3)
    assert column(frames, "lives") == [3, 0, 3]
    assert infos(frames, "lives") == [3, 3, 3]


# --- life loss ------------------------------------------------------------------

LIFE_LOSS_TAPE = [QUIET, LIFE_LOST, LIFE_LOST, LIFE_LOST, GAME_OVER]


def test_lost_life_is_ignored_by_default():
    frames = play(make_stream(TapeConsole(LIFE_LOSS_TAPE), ("a", 6)), [0] * 6)
    assert column(frames, "terminated") == [0, 0, 0, 0, 1, 0]


def test_lost_life_ends_the_episode_but_not_the_segment():
    console = TapeConsole(LIFE_LOSS_TAPE)
    stream = make_stream(console, ("a", 6), life_loss_termination=True)
    frames = play(stream, [0] * 6)
    assert column(frames, "terminated") == [0, 1, 0, 0, 1, 0]
    assert column(frames, "episode_id") == [0, 0, 1, 1, 1, 2]
    assert column(frames, "segment_id") == [0, 0, 0, 0, 0, 1]
    assert frames[1].episode == EpisodeRow("a", 0, 0, 1, 2, 0.0, "terminated")
    assert frames[1].segment is None
    assert frames[4].episode == EpisodeRow("a", 1, 2, 4, 3, 0.0, "terminated")
    assert frames[4].segment == SegmentRow("a", 0, 0, 4, 5, 0.0, "terminated")
    assert console.calls.count("reset") == 1


def test_lost_life_does_not_reset_control():
    stream = make_stream(
        TapeConsole(LIFE_LOSS_TAPE[:4]),
        ("a", 8),
        life_loss_termination=True,
        decision_interval=3,
        delay=2,
    )
    frames = play(stream, [1, 2, 3, 4, 5, 6, 7, 8])
    assert column(frames, "is_decision_frame") == [1, 0, 0, 1, 0, 0, 1, 0]
    assert column(frames, "applied_action_idx") == [0, 0, 1, 1, 1, 4, 4, 4]
    assert infos(frames, "has_prev_applied_action") == [False] + [True] * 7


def test_percept_after_a_lost_life_is_terminated():
    stream = make_stream(
        TapeConsole([(5.0, False, 2)]), ("a", 3), life_loss_termination=True
    )
    frames = play(stream, [0] * 3)
    after = frames[1].percept
    assert (after.reward, after.terminated, after.truncated) == (5.0, True, False)
    assert infos(frames, "lives") == [3, 2, 3]


def test_won_life_ends_nothing():
    console = TapeConsole([(0.0, False, 4), (0.0, False, 4), (0.0, False, 3)])
    stream = make_stream(console, ("a", 4), life_loss_termination=True)
    assert column(play(stream, [0] * 4), "terminated") == [0, 0, 1, 0]


def test_life_lost_on_a_last_frame_has_both_flags():
    stream = make_stream(
        TapeConsole([QUIET, LIFE_LOST]), ("a", 2), life_loss_termination=True
    )
    last = play(stream, [0] * 2)[1]
    assert last.episode.ended_by == "terminated"
    assert last.segment.ended_by == "truncated"


def test_fewer_lives_in_the_next_game_are_not_a_lost_life():
    console = TapeConsole([(0.0, False, 9), (0.0, False, 9)])
    stream = make_stream(console, ("a", 2), ("b", 2), life_loss_termination=True)
    assert column(play(stream, [0] * 4), "terminated") == [0, 0, 0, 0]


# --- percepts -------------------------------------------------------------------


def test_first_percept():
    stream = make_stream(TapeConsole(), ("a", 2), default_action_idx=4)
    percept = stream.percept()
    assert percept.observation.tolist() == [100]
    assert (percept.reward, percept.terminated, percept.truncated) == (
        0.0,
        False,
        False,
    )
    assert type(percept.reward) is float
    assert percept.info == {
        "lives": 3,
        "action_space_n": 18,
        "is_decision_frame": True,
        "global_frame_idx": 0,
        "default_action_idx": 4,
        "prev_applied_action_idx": 4,
        "has_prev_applied_action": False,
    }


@pytest.mark.seed("000", "info-1", "info-2")
def test_info_is_plain_and_fresh():
    stream = make_stream(ScriptedConsole(), ("a", 30))
    seen = [stream.percept().info, stream.percept().info]
    assert seen[0] == seen[1]
    assert seen[0] is not seen[1]
    for frame in play(stream, np.arange(30) % 18):
        assert {type(value) for value in frame.percept.info.values()} == {int, bool}


def test_percepts_around_a_game_over():
    console = TapeConsole([(1.0, False, 3), (2.0, True, 0), (4.0, False, 3)])
    frames = play(make_stream(console, ("a", 4)), [0] * 4)
    assert [
        (p.observation.item(), p.reward, p.terminated, p.truncated)
        for p in (frame.percept for frame in frames)
    ] == [
        (100, 0.0, False, False),
        (101, 1.0, False, False),
        # The new game's first screen, with what came with the old one's end.
        (202, 2.0, True, False),
        (203, 4.0, False, False),
    ]


@pytest.mark.seed("000", "schedule-3")
def test_percepts_around_visit_switches():
    console = TapeConsole([(1.0, False, 3), (2.0, False, 3), (4.0, True, 0)])
    frames = play(make_stream(console, ("a", 2), ("b", 1), ("c", 2)), [0] * 5)
    assert [
        (p.observation.item(), p.reward, p.terminated, p.truncated)
        for p in (frame.percept for frame in frames)
    ] == [
        (100, 0.0, False, False),
        (101, 1.0, False, False),
        (202, 2.0, False, True),
        (303, 4.0, True, True),
        (304, 0.0, False, False),
    ]
    assert infos(frames, "global_frame_idx") == [0, 1, 2, 3, 4]


def test_last_reward_is_recorded_but_not_delivered():
    console = TapeConsole([(1.0, False, 3), (2.0, False, 3), (64.0, False, 3)])
    stream = make_stream(console, ("a", 3))
    frames = play(stream, [0] * 9)
    assert stream.done
    assert column(frames, "reward") == [1.0, 2.0, 64.0]
    assert [frame.percept.reward for frame in frames] == [0.0, 1.0, 2.0]
    # Nothing is started after the last frame either.
    assert console.calls == [("start", "a", 100), 0, 0, 0]


# --- action mapping -------------------------------------------------------------


@pytest.mark.parametrize(
    ("game_actions", "default", "expected"),
    [
        (range(18), 5, list(range(18))),
        ((0, 1, 3, 4), 0, [0, 1, 0, 3, 4] + [0] * 13),
        ((0, 1, 3, 4), 3, [0, 1, 3, 3, 4] + [3] * 13),
        # Without the default: the game's first action, in the game's order.
        ((4, 3), 0, [4, 4, 4, 3, 4] + [4] * 13),
    ],
)
def test_map_actions(game_actions, default, expected):
    assert map_actions(game_actions, default) == expected


def test_events_log_global_indices_and_the_console_gets_its_own():
    console = TapeConsole(actions=(1, 3))
    stream = make_stream(console, ("a", 4), default_action_idx=3)
    frames = play(stream, [1, 2, 17, 3])
    assert column(frames, "decided_action_idx") == [1, 2, 17, 3]
    assert column(frames, "applied_action_idx") == [1, 2, 17, 3]
    assert console.calls[1:] == [1, 3, 3, 3]
    assert infos(frames, "prev_applied_action_idx") == [3, 1, 2, 17]
    assert infos(frames, "action_space_n") == [18] * 4


def test_each_game_is_mapped_by_its_own_actions():
    class TwoGames(TapeConsole):
        def start_visit(self, game_id: str, emulator_seed: int) -> None:
            super().start_visit(game_id, emulator_seed)
            self.actions = (0, 2) if game_id == "a" else (0, 5)

    console = TwoGames()
    play(make_stream(console, ("a", 2), ("b", 2)), [2, 5, 2, 5])
    assert [call for call in console.calls if isinstance(call, int)] == [2, 0, 0, 5]


# --- refusals -------------------------------------------------------------------


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_reward_that_is_not_finite_raises(reward):
    console = TapeConsole([QUIET, QUIET, (reward, False, 3)])
    stream = make_stream(console, ("pong", 5))
    play(stream, [0, 0])
    with pytest.raises(ConsoleError, match=f"{reward} at frame 2 of pong"):
        stream.advance(0)


# --- the whole stream against the rules, written down plainly ----------------------


def sent_action(applied: int, default: int, game_actions: Sequence[int]) -> int:
    if applied in game_actions:
        return applied
    return default if default in game_actions else game_actions[0]


def span_row(start: int, events: list[dict[str, Any]], ended_by: str) -> dict[str, Any]:
    """An episode or segment row, its id aside, from its first to the last event."""
    mine = events[start:]
    return {
        "game_id": mine[-1]["game_id"],
        "start_global_frame_idx": start,
        "end_global_frame_idx": start + len(mine) - 1,
        "length": len(mine),
        "return": sum(event["reward"] for event in mine),
        "ended_by": ended_by,
    }


def play_slowly(
    visits: Sequence[ScheduledVisit],
    console: ScriptedConsole,
    rules: Mechanics,
    answers: Sequence[int],
) -> dict[str, list[dict[str, Any]]]:
    """The rules of a frame, one after the other, with lists instead of state."""
    events: list[dict[str, Any]] = []
    episodes: list[dict[str, Any]] = []
    segments: list[dict[str, Any]] = []
    percepts: list[dict[str, Any]] = []
    for visit in visits:
        console.start_visit(visit.game_id, 100 + visit.visit_idx)
        decisions: list[int] = []  # since the last reset, as is the next
        applied: list[int] = []
        for visit_frame_idx in range(visit.visit_frames):
            frame, t, lives = len(events), len(decisions), console.lives()
            is_decision = t % rules.decision_interval == 0
            before = events[-1] if events else {}
            percepts.append(
                {
                    "screen": console.observation()[0, :8, 0].tolist(),
                    "reward": before.get("reward", 0.0),
                    "terminated": before.get("terminated", False),
                    "truncated": before.get("truncated", False),
                    "lives": lives,
                    "action_space_n": 18,
                    "is_decision_frame": is_decision,
                    "global_frame_idx": frame,
                    "default_action_idx": rules.default_action_idx,
                    "prev_applied_action_idx": [rules.default_action_idx, *applied][-1],
                    "has_prev_applied_action": bool(applied),
                }
            )
            decisions.append(answers[frame] if is_decision else decisions[-1])
            late = t - rules.delay
            applied.append(decisions[late] if late >= 0 else rules.default_action_idx)
            reward, game_over, lives_after = console.step(
                sent_action(applied[-1], rules.default_action_idx, console.actions)
            )
            life_lost = rules.life_loss_termination and lives_after < lives
            terminated = game_over or life_lost
            truncated = visit_frame_idx == visit.visit_frames - 1
            events.append(
                {
                    "global_frame_idx": frame,
                    "game_id": visit.game_id,
                    "visit_idx": visit.visit_idx,
                    "cycle_idx": visit.cycle_idx,
                    "visit_frame_idx": visit_frame_idx,
                    "episode_id": len(episodes),
                    "segment_id": len(segments),
                    "is_decision_frame": is_decision,
                    "decided_action_idx": decisions[-1],
                    "applied_action_idx": applied[-1],
                    "reward": reward,
                    "terminated": terminated,
                    "truncated": truncated,
                    "lives": lives_after,
                }
            )
            if terminated or truncated:
                start = episodes[-1]["end_global_frame_idx"] + 1 if episodes else 0
                ended_by = "terminated" if terminated else "truncated"
                row = span_row(start, events, ended_by)
                episodes.append({**row, "episode_id": len(episodes)})
            if game_over or truncated:
                start = segments[-1]["end_global_frame_idx"] + 1 if segments else 0
                ended_by = "truncated" if truncated else "terminated"
                row = span_row(start, events, ended_by)
                segments.append({**row, "segment_id": len(segments)})
                decisions, applied = [], []
            if game_over and not truncated:
                console.reset()
    return {
        "events": events,
        "episodes": episodes,
        "segments": segments,
        "percepts": percepts,
    }


def describe_percept(percept: Percept) -> dict[str, Any]:
    return {
        "screen": percept.observation[0, :8, 0].tolist(),
        "reward": percept.reward,
        "terminated": percept.terminated,
        "truncated": percept.truncated,
        **percept.info,
    }


def describe_frames(frames: Sequence[Frame]) -> dict[str, list[dict[str, Any]]]:
    plain = msgspec.to_builtins
    return {
        "events": [plain(frame.event) for frame in frames],
        "episodes": [plain(frame.episode) for frame in frames if frame.episode],
        "segments": [plain(frame.segment) for frame in frames if frame.segment],
        "percepts": [describe_percept(frame.percept) for frame in frames],
    }


MECHANICS = st.builds(
    Mechanics,
    decision_interval=st.integers(1, 5),
    delay=st.integers(0, 7),
    life_loss_termination=st.booleans(),
    default_action_idx=st.integers(0, 17),
)
BLOCKS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 60)), min_size=1, max_size=5
)
ACTION_SETS = st.one_of(
    st.just(tuple(range(18))),
    st.lists(st.integers(0, 17), min_size=1, max_size=9, unique=True).map(tuple),
)


@pytest.mark.seed("000", "schedule-2")
@settings(deadline=None, max_examples=150)
@given(
    rules=MECHANICS,
    blocks=BLOCKS,
    actions=ACTION_SETS,
    life_frames=st.integers(1, 20),
    seed=st.integers(0, 2**32),
)
def test_stream_follows_the_rules(rules, blocks, actions, life_frames, seed):
    visits = make_visits(*blocks)
    seeds = [100 + visit.visit_idx for visit in visits]
    draw = random.Random(seed)
    answers = [draw.randrange(18) for _ in range(sum(n for _, n in blocks))]

    def console() -> ScriptedConsole:
        return ScriptedConsole(life_frames=life_frames, actions=actions)

    frames = play(Stream(visits, seeds, console(), rules), answers)
    assert describe_frames(frames) == play_slowly(visits, console(), rules, answers)


def test_the_comparison_covers_every_kind_of_boundary():
    """Guards the test above: comparing streams without boundaries proves little."""
    visits = make_visits(("a", 60), ("b", 60), ("a", 60))
    rules = Mechanics(3, 2, True, 0)
    rows = play_slowly(visits, ScriptedConsole(life_frames=5), rules, [1] * 180)
    lost = [e for e in rows["events"] if e["terminated"] and e["lives"] > 0]
    over = [e for e in rows["events"] if e["lives"] == 0]
    assert len(lost) > 5
    assert len(over) > 5
    assert len(rows["episodes"]) > len(rows["segments"]) > 3
    assert len({e["reward"] for e in rows["events"]}) == 4


# --- snapshots ------------------------------------------------------------------

SNAPSHOT_BLOCKS = (("a", 25), ("b", 1), ("a", 24))
SNAPSHOT_ANSWERS = [frame * 7 % 18 for frame in range(50)]


def scripted_stream() -> Stream:
    return make_stream(
        ScriptedConsole(life_frames=3),
        *SNAPSHOT_BLOCKS,
        decision_interval=2,
        delay=3,
        life_loss_termination=True,
    )


@pytest.mark.parametrize("cut", range(50))
def test_restored_stream_is_identical_to_an_uninterrupted_one(cut):
    whole = play(scripted_stream(), SNAPSHOT_ANSWERS)
    stopped = scripted_stream()
    played = play(stopped, SNAPSHOT_ANSWERS[:cut])
    state = stopped.snapshot()
    visit_idx = whole[cut].event.visit_idx
    applied = [
        frame.event.applied_action_idx
        for frame in played
        if frame.event.visit_idx == visit_idx
    ]
    restored = scripted_stream()
    restored.restore(state, applied)
    rest = play(restored, SNAPSHOT_ANSWERS[cut:])
    assert describe_frames(rest) == describe_frames(whole[cut:])


def test_snapshot_is_a_copy():
    stream = make_stream(TapeConsole(), ("a", 9), delay=2)
    play(stream, [1, 2, 3])
    state = stream.snapshot()
    queue = list(state.queue)
    play(stream, [4, 5])
    assert (state.global_frame_idx, state.queue) == (3, queue)
    assert queue == [2, 3]


def test_restoring_takes_a_copy():
    first = make_stream(TapeConsole(), ("a", 9), delay=2)
    play(first, [1, 2, 3])
    state = first.snapshot()
    second = make_stream(TapeConsole(), ("a", 9), delay=2)
    second.restore(state, [0, 0, 1])
    play(second, [4, 5])
    assert (state.global_frame_idx, state.queue) == (3, [2, 3])


# --- timesteps of several emulator frames -----------------------------------------

MIXED_REWARDS = [(25.0, False, 3), (-0.5, True, 0), (0.0, False, 3), (3.0, False, 3)]


def make_timestep_stream(rule: str, console: TapeConsole) -> Stream:
    visits = make_visits(("a", 4))
    mechanics = Mechanics(reward=rule)
    return Stream(visits, [100], console, mechanics, ActionDriver(TimestepRow))


@pytest.mark.parametrize(
    ("rule", "delivered"),
    [("sign", [1.0, -1.0, 0.0, 1.0]), ("raw", [25.0, -0.5, 0.0, 3.0])],
)
def test_delivered_reward_is_the_rule_applied_to_the_games(rule, delivered):
    console = TapeConsole(MIXED_REWARDS)
    frames = play(make_timestep_stream(rule, console), [0] * 4)
    assert column(frames, "reward") == delivered
    assert column(frames, "game_reward") == [25.0, -0.5, 0.0, 3.0]
    assert [f.percept.reward for f in frames] == [0.0, *delivered[:-1]]


def test_returns_add_up_delivered_rewards():
    stream = make_timestep_stream("sign", TapeConsole(MIXED_REWARDS))
    frames = play(stream, [0] * 4)
    assert [f.episode.return_ for f in frames if f.episode] == [0.0, 1.0]
    assert [f.segment.return_ for f in frames if f.segment] == [0.0, 1.0]


def test_timestep_rows_count_emulator_frames():
    console = ScriptedConsole(life_frames=5, frame_skip=4)
    visits = make_visits(("a", 60))
    driver = ActionDriver(TimestepRow)
    frames = play(Stream(visits, [9], console, Mechanics(), driver), [0] * 60)
    counts = [(f.event.emulator_frames, f.event.terminated) for f in frames]
    assert {count for count, terminated in counts if not terminated} == {4}
    assert min(count for count, _ in counts) < 4


def test_streaming_rows_have_only_the_keys_of_v1():
    (frame,) = play(make_stream(TapeConsole(), ("a", 1)), [0])
    assert type(frame.event) is EventRow


# --- pixels and drivers ---------------------------------------------------------


def test_pixels_are_fetched_where_the_agent_looks():
    shown = []
    for looks in (True, False):
        console = TapeConsole([QUIET, GAME_OVER])
        stream = make_stream(console, ("a", 6), decision_interval=3)
        shown.append([])
        while not stream.done:
            observation = stream.percept(looks).observation
            shown[-1].append(None if observation is None else int(observation[0]))
            stream.advance(0)
    # The console is reset after the second frame, so that the third decides again.
    assert shown[0] == [100, 101, 202, 203, 204, 205]
    assert shown[1] == [100, None, 202, None, None, 205]


class CountingDriver:
    """Plays its own actions, and records its calls."""

    row_type = TimestepRow

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def start_visit(self, visit: ScheduledVisit, console: Any) -> None:
        self.calls.append((visit.game_id, console.steps))

    def decide(self, answer: object, is_first: bool) -> int:
        self.calls.append((answer, is_first))
        return 7

    def finish_frame(self, reward: float) -> tuple[Any, ...]:
        self.calls.append(reward)
        return ()

    def skip(self, is_first: bool) -> None:
        self.calls.append(f"skip {is_first}")


def test_a_driver_decides_and_gets_the_reward():
    driver, console = CountingDriver(), TapeConsole([(2.0, False, 3), (-5.0, True, 0)])
    visits, rules = make_visits(("a", 3), ("b", 1)), Mechanics(reward="sign")
    stream = Stream(visits, [1, 2], console, rules, driver)
    frames = play(stream, ["w", "x", "y", "z"])
    assert column(frames, "decided_action_idx") == [7] * 4
    assert driver.calls == [
        *(("a", 0), ("w", True), 1.0, ("x", False), -1.0, ("y", True), 0.0),
        *(("b", 3), ("z", True), 0.0),
    ]


def test_a_driver_decides_on_decision_frames_only():
    driver = CountingDriver()
    rules = Mechanics(decision_interval=2)
    stream = Stream(make_visits(("a", 5)), [1], TapeConsole(), rules, driver)
    play(stream, range(5))
    answers = [call[0] for call in driver.calls[1:] if isinstance(call, tuple)]
    assert answers == [0, 2, 4]


def test_restoring_skips_replayed_frames_in_the_driver():
    tape = [QUIET, GAME_OVER]
    rules = Mechanics()
    first = Stream(
        make_visits(("a", 9)), [1], TapeConsole(tape), rules, CountingDriver()
    )
    play(first, range(4))
    driver = CountingDriver()
    second = Stream(make_visits(("a", 9)), [1], TapeConsole(tape), rules, driver)
    second.restore(first.snapshot(), [7] * 4)
    skips = ["skip True", "skip False", "skip True", "skip False"]
    assert driver.calls == [("a", 0), *skips]
    assert second.snapshot() == first.snapshot()
