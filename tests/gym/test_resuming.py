"""A recorded loop that goes back to one of its frames: the run continues there."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import longplay
import longplay.gym  # registers the environments
from longplay.contract.rundir import ROW_FILES
from longplay.errors import ConfigError, ResumeError
from rows import read_rows

CONTROL, STREAM = "longplay/ControlSmoke-v1", "longplay/StreamSmoke-v1"
SETTINGS = {
    CONTROL: {"base_visit_frames": 700, "games": ["asterix", "breakout"]},
    STREAM: {"base_visit_frames": 1600, "games": ["asterix"]},
}
SEED = 1000


def choose(frame: int) -> int:
    return frame // 2 * 7 % 18


def make(env_id: str, record: Path | None, agent: str = "loop") -> Any:
    return gymnasium.make(
        env_id, overrides=SETTINGS[env_id], record=record, agent=agent
    )


def play(env: Any, first: int, last: int | None = None) -> Any:
    """Plays frames with actions that depend on the frame alone."""
    frame, is_over = first, False
    while frame != last and not is_over:
        observation, _, _, is_over, _ = env.step(choose(frame))
        env.unwrapped.log({"frame": float(frame)})
        frame += 1
    return observation


@pytest.fixture(scope="module", params=[CONTROL, STREAM])
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """A stream that was recorded without a stop."""
    folder = tmp_path_factory.mktemp("whole")
    with make(request.param, folder) as env:
        env.reset(seed=SEED)
        play(env, 0)
    return request.param, longplay.read_run(folder).path


@pytest.mark.parametrize(("kept", "played"), [(0, 5), (600, 600), (700, 900), (1, 701)])
def test_a_continued_run_is_the_run_without_a_stop(
    kept: int, played: int, whole: tuple[str, Path], tmp_path: Path
) -> None:
    """Row files, validity and verification; the run has been started twice."""
    env_id, expected = whole
    with make(env_id, tmp_path) as env:
        env.reset(seed=SEED)
        before = play(env, 0, kept) if kept else None
        assert env.unwrapped.sync() == kept
        if played > kept:
            play(env, kept, played)
    with make(env_id, tmp_path) as env:
        observation, _ = env.reset(seed=SEED, options={"resume": kept})
        if kept:
            np.testing.assert_array_equal(observation, before)
        play(env, kept)
    run = longplay.read_run(tmp_path)
    for name in ROW_FILES:
        assert (run.path / name).read_bytes() == (expected / name).read_bytes(), name
    assert run.summary is not None
    assert run.summary.tries == 2
    assert longplay.validate_run(run.path).findings.shown == []
    assert longplay.verify_run(run.path).passed


def test_metrics_before_the_frame_are_kept(tmp_path: Path) -> None:
    with make(CONTROL, tmp_path) as env:
        env.reset(seed=SEED)
        play(env, 0, 1000)
    with make(CONTROL, tmp_path) as env:
        env.reset(seed=SEED, options={"resume": 800})
        play(env, 800)
    rows = read_rows(longplay.read_run(tmp_path).path / "metrics.jsonl")
    assert [(row["global_frame_idx"], row["frame"]) for row in rows] == [
        (699, 349.0),  # 0 … 698
        (1399, 1099.0),  # 800 … 1398: what was logged since the last row is lost
    ]


def test_a_complete_run_stays_at_its_end(whole: tuple[str, Path]) -> None:
    env_id, run_dir = whole
    with make(env_id, run_dir.parents[1]) as env:
        env.reset(seed=SEED, options={"resume": 1_000_000})  # a loop that rounds up
        with pytest.warns(UserWarning, match="the recorded stream has ended"):
            assert env.step(0)[1:4] == (0.0, False, True)


def test_a_run_that_lacks_only_its_score_is_completed(
    whole: tuple[str, Path], tmp_path: Path
) -> None:
    env_id, run_dir = whole
    shutil.copytree(run_dir.parents[1], tmp_path / "copy")
    copy = tmp_path / "copy/episodes" / run_dir.name
    (copy / "score.json").unlink()
    status = (copy / "status.json").read_text()
    (copy / "status.json").write_text(status.replace("COMPLETED", "CANCELLED"))
    with make(env_id, tmp_path / "copy") as env:
        env.reset(
            seed=SEED, options={"resume": longplay.read_run(copy).config.total_frames}
        )
    assert longplay.validate_run(copy).is_valid


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    with make(CONTROL, tmp_path / "e") as env:
        env.reset(seed=SEED)
        play(env, 0, 900)
    return tmp_path / "e"


def refuse(
    env: Any, error: type[Exception], message: str, frame: Any = 5, seed: int = SEED
) -> None:
    with env, pytest.raises(error, match=re.escape(message)):
        env.reset(seed=seed, options={"resume": frame})


def edit_action(folder: Path) -> None:
    path = longplay.read_run(folder).path / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lines[20] = re.sub(r'("decided_action_idx":)\d+', r"\g<1>17", lines[20])
    path.write_text("".join(lines))


@pytest.mark.parametrize(
    ("seed", "frame", "change", "message"),
    [
        (1001, 10, None, "expected a recorded run in"),
        (SEED, 901, None, "expected a frame up to 900"),
        (SEED, 800, edit_action, "events.jsonl:21"),
    ],
)
def test_a_run_that_cannot_be_continued_is_not_changed(
    seed: int,
    frame: int,
    change: Callable[[Path], None] | None,
    message: str,
    stopped: Path,
) -> None:
    if change is not None:
        change(stopped)
    before = {p: p.read_bytes() for p in stopped.rglob("*") if p.is_file()}
    refuse(make(CONTROL, stopped), ResumeError, message, frame, seed)
    assert {p: p.read_bytes() for p in stopped.rglob("*") if p.is_file()} == before


def test_a_complete_run_is_not_played_again(whole: tuple[str, Path]) -> None:
    env_id, run_dir = whole
    message = "is complete; a run is not played again"
    refuse(make(env_id, run_dir.parents[1]), ResumeError, message)


def test_a_run_that_is_being_recorded_is_left_alone(tmp_path: Path) -> None:
    with make(CONTROL, tmp_path) as env, make(CONTROL, tmp_path) as other:
        env.reset(seed=SEED)
        play(env, 0, 5)
        with pytest.raises(ResumeError, match="is being recorded by process"):
            other.reset(seed=SEED, options={"resume": 0})
        play(env, 5, 10)


def test_another_agent_does_not_continue_a_run(stopped: Path) -> None:
    env = make(CONTROL, stopped, agent="other")
    refuse(env, ConfigError, "agent.config._type")


@pytest.mark.parametrize("frame", [-1, "5", 1.0, True, None])
def test_a_frame_is_a_number(frame: Any, stopped: Path) -> None:
    message = "expected the number of frames played"
    refuse(make(CONTROL, stopped), ConfigError, message, frame)


def test_only_a_recorded_stream_is_continued() -> None:
    refuse(make(CONTROL, None), ConfigError, "with record=DIR")
