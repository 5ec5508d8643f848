"""Frames -> bytes on the disk, and their sums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import ScheduledVisit
from longplay.contract.rows import EpisodeRow, EventRow, SegmentRow
from longplay.errors import RecordingError
from longplay.runs.recorder import Recorder
from longplay.stream import Mechanics, Stream
from rows import read_rows

FILES = ("events.jsonl", "episodes.jsonl", "segments.jsonl")

EVENT = EventRow(
    global_frame_idx=0,
    game_id="pong",
    visit_idx=0,
    cycle_idx=0,
    visit_frame_idx=0,
    episode_id=0,
    segment_id=0,
    is_decision_frame=True,
    decided_action_idx=3,
    applied_action_idx=0,
    reward=0.0,
    terminated=False,
    truncated=True,
    lives=5,
)
EPISODE = EpisodeRow("pong", 0, 0, 0, 1, 0.0, "truncated")
SEGMENT = SegmentRow("pong", 0, 0, 0, 1, 0.0, "truncated")


def make_visit(visit_idx: int = 0, visit_frames: int = 1) -> ScheduledVisit:
    return ScheduledVisit(
        visit_idx=visit_idx, cycle_idx=0, game_id="pong", visit_frames=visit_frames
    )


def record_one(run_dir: Path, **changes: Any) -> None:
    """One frame that is a whole visit."""
    recorder = Recorder.create(run_dir)
    recorder.begin_visit(make_visit(), [0, 1])
    recorder.write(msgspec.structs.replace(EVENT, **changes))
    recorder.write_ends(EPISODE, SEGMENT)
    recorder.end_visit({})
    recorder.close()


def record_stream(
    run_dir: Path, lengths: list[int], flush_after: frozenset[int] = frozenset()
) -> Recorder:
    """Plays the scripted console into a recorder, with flushes at given frames."""
    visits = [make_visit(i, frames) for i, frames in enumerate(lengths)]
    rules = Mechanics(decision_interval=4, delay=2, life_loss_termination=True)
    stream = Stream(visits, [9] * len(visits), ScriptedConsole(life_frames=9), rules)
    recorder = Recorder.create(run_dir)
    while not stream.done:
        recorder.begin_visit(stream.visit, stream.console.actions)
        event = None
        while event is None or not event.truncated:
            event = stream.advance(stream.global_frame_idx % 18)
            recorder.write(event)
            if event.terminated or event.truncated:
                recorder.write_ends(stream.ended_episode, stream.ended_segment)
            if event.global_frame_idx in flush_after:
                recorder.flush()
        recorder.end_visit({})
    recorder.close()
    return recorder


def read_bytes(run_dir: Path) -> list[bytes]:
    return [(run_dir / name).read_bytes() for name in FILES]


# --- bytes ----------------------------------------------------------------------


def test_bytes_of_an_event(tmp_path):
    record_one(tmp_path)
    assert (tmp_path / "events.jsonl").read_bytes() == (
        b'{"global_frame_idx":0,"game_id":"pong","visit_idx":0,"cycle_idx":0,'
        b'"visit_frame_idx":0,"episode_id":0,"segment_id":0,"is_decision_frame":true,'
        b'"decided_action_idx":3,"applied_action_idx":0,"reward":0.0,'
        b'"terminated":false,"truncated":true,"lives":5}\n'
    )


def test_bytes_of_an_episode(tmp_path):
    record_one(tmp_path)
    assert (tmp_path / "episodes.jsonl").read_bytes() == (
        b'{"game_id":"pong","episode_id":0,"start_global_frame_idx":0,'
        b'"end_global_frame_idx":0,"length":1,"return":0.0,"ended_by":"truncated"}\n'
    )


def test_bytes_of_a_segment(tmp_path):
    record_one(tmp_path)
    assert (tmp_path / "segments.jsonl").read_bytes() == (
        b'{"game_id":"pong","segment_id":0,"start_global_frame_idx":0,'
        b'"end_global_frame_idx":0,"length":1,"return":0.0,"ended_by":"truncated"}\n'
    )


@pytest.mark.parametrize(
    ("reward", "spelled"), [(1.0, b"1.0"), (-0.5, b"-0.5"), (10000.0, b"10000.0")]
)
def test_rewards_are_written_as_floats(tmp_path, reward, spelled):
    record_one(tmp_path, reward=reward)
    assert b'"reward":%s,' % spelled in (tmp_path / "events.jsonl").read_bytes()


@pytest.mark.seed("000", "files-4")
def test_real_run_has_the_same_format(finished_run):
    for name in FILES:
        content = (finished_run / name).read_bytes()
        again = [
            json.dumps(json.loads(line), separators=(",", ":"))
            for line in content.splitlines()
        ]
        assert content == "".join(f"{line}\n" for line in again).encode()


# --- chunks ---------------------------------------------------------------------


@pytest.mark.seed("000", "versions-7")
@settings(deadline=None, max_examples=25)
@given(flush_after=st.frozensets(st.integers(0, 699), max_size=40))
def test_flushing_does_not_change_the_bytes(tmp_path_factory, flush_after):
    folder = tmp_path_factory.mktemp("flushed")
    (folder / "plain").mkdir()
    (folder / "flushed").mkdir()
    record_stream(folder / "plain", [500, 200])
    record_stream(folder / "flushed", [500, 200], flush_after)
    assert read_bytes(folder / "flushed") == read_bytes(folder / "plain")


@pytest.mark.parametrize("frames", [1, 255, 256, 257, 512, 1024])
def test_ends_of_a_visit_belong_to_it_for_any_length(tmp_path, frames):
    """A visit may end exactly where a chunk does."""
    recorder = record_stream(tmp_path, [frames, frames])
    summary = recorder.summarise()
    episodes = read_rows(tmp_path / "episodes.jsonl")
    segments = read_rows(tmp_path / "segments.jsonl")
    assert episodes[-1]["end_global_frame_idx"] == 2 * frames - 1
    assert segments[-1]["end_global_frame_idx"] == 2 * frames - 1
    in_first = [e for e in episodes if e["end_global_frame_idx"] < frames]
    assert summary.visits[0].episodes == len(in_first)
    assert summary.visits[1].episodes == len(episodes) - len(in_first)
    assert (summary.episodes, summary.segments) == (len(episodes), len(segments))


def test_rows_reach_the_disk_with_the_flush(tmp_path):
    recorder = Recorder.create(tmp_path)
    recorder.begin_visit(make_visit(visit_frames=9), [0])
    recorder.write(msgspec.structs.replace(EVENT, truncated=False))
    recorder.flush()
    assert len(read_rows(tmp_path / "events.jsonl")) == 1
    recorder.close()


def test_existing_rows_are_never_overwritten(tmp_path):
    record_one(tmp_path)
    before = read_bytes(tmp_path)
    with pytest.raises(RecordingError, match=r"cannot create .*events\.jsonl"):
        Recorder.create(tmp_path)
    assert read_bytes(tmp_path) == before


# --- no clock in rows -------------------------------------------------------------


def test_rows_do_not_depend_on_the_clock(tmp_path, monkeypatch):
    for name in ("now", "later"):
        (tmp_path / name).mkdir()
    now = record_stream(tmp_path / "now", [300])
    monkeypatch.setattr(
        "longplay.runs.recorder.utc_now", lambda: "2099-01-01T00:00:00.000Z"
    )
    later = record_stream(tmp_path / "later", [300])
    assert later.summarise().started_utc != now.summarise().started_utc
    assert read_bytes(tmp_path / "later") == read_bytes(tmp_path / "now")


# --- the summary ------------------------------------------------------------------


def test_summary_of_a_stream_worked_out_from_its_rows(tmp_path):
    recorder = record_stream(tmp_path, [300, 41])
    events = read_rows(tmp_path / "events.jsonl")
    summary = recorder.summarise()
    assert (summary.frames, summary.emulator_frames) == (341, 341)
    decided = [event["is_decision_frame"] for event in events]
    assert summary.decision_frames == sum(decided)
    for visit, start, frames in zip(summary.visits, (0, 300), (300, 41), strict=True):
        mine = events[start : start + frames]
        assert visit.frames == visit.emulator_frames == frames
        assert visit.decision_frames == sum(decided[start : start + frames])
        assert visit.reward_sum == sum(event["reward"] for event in mine)
        assert visit.game_reward_sum == visit.reward_sum
    assert len(summary.visits[0].action_names) == 18


def test_summary_names_the_actions_of_the_game(tmp_path):
    recorder = Recorder.create(tmp_path)
    recorder.begin_visit(make_visit(), [0, 3, 4])
    recorder.write(EVENT)
    recorder.write_ends(EPISODE, SEGMENT)
    recorder.end_visit({"loss": 0.5})
    recorder.close()
    (visit,) = recorder.summarise().visits
    assert visit.action_names == ("NOOP", "RIGHT", "LEFT")
    assert visit.metrics == {"loss": 0.5}


def test_unfinished_visit_is_summarised(tmp_path):
    recorder = Recorder.create(tmp_path)
    recorder.begin_visit(make_visit(visit_frames=9), [0])
    for frame in range(3):
        row = msgspec.structs.replace(
            EVENT, global_frame_idx=frame, reward=2.0, truncated=False
        )
        recorder.write(row)
    recorder.flush()
    recorder.close()
    summary = recorder.summarise()
    assert (summary.frames, summary.episodes, summary.segments) == (3, 0, 0)
    assert summary.visits[0].reward_sum == 6.0


def test_summary_of_a_real_run(finished_run):
    summary = json.loads((finished_run / "run_summary.json").read_bytes())
    assert (
        list(summary)
        == (
            "schema_version frames decision_frames emulator_frames wall_time_s fps "
            "episodes segments tries started_utc ended_utc chain_head visits "
            "rows score_sha256 agent_states"
        ).split()
    )
    assert (
        list(summary["visits"][0])
        == (
            "visit_idx game_id cycle_idx frames decision_frames emulator_frames "
            "reward_sum game_reward_sum episodes wall_time_s started_utc action_names "
            "metrics"
        ).split()
    )
    events = read_rows(finished_run / "events.jsonl")
    assert summary["frames"] == len(events)
    assert summary["episodes"] == len(read_rows(finished_run / "episodes.jsonl"))
    assert summary["segments"] == len(read_rows(finished_run / "segments.jsonl"))
    rewards = [visit["reward_sum"] for visit in summary["visits"]]
    assert sum(rewards) == sum(event["reward"] for event in events)
    assert summary["tries"] == 1
    seconds = sum(visit["wall_time_s"] for visit in summary["visits"])
    assert summary["wall_time_s"] == pytest.approx(seconds, rel=1e-12)
    assert summary["fps"] == pytest.approx(len(events) / seconds, rel=1e-12)
