"""Replayed frames are those that the agent saw; a log that does not fit is refused."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from bare_replay import replay_bare
from longplay.errors import (
    CannotVerifyError,
    ConfigError,
    DifferenceError,
    DocumentError,
    IncompleteRunError,
    LongplayError,
    NotARunError,
    PackError,
)
from longplay.verify.frames import open_frames
from longplay.verify.pack import pack_run
from longplay.verify.replay import ReplayProgress
from playing import play_run
from repacking import close_pack, open_contents
from rows import read_rows

_EXAMPLES = Path(__file__).parents[2] / "examples"
_STREAM = {"games": ["centipede", "qbert"], "base_visit_frames": 300}
_RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "streaming": ("stream-smoke-v1", "random", _STREAM),
    "control": (
        "control-smoke-v1",
        "random",
        {"games": ["breakout", "asterix"], "base_visit_frames": 270},
    ),
    "prediction": (
        "prediction-smoke-v1",
        str(_EXAMPLES / "prediction_td_lambda.py"),
        {"games": ["pong", "breakout"], "base_visit_frames": 120},
    ),
    "life loss": (
        "stream-smoke-v1",
        "random",
        {
            "games": ["asterix", "breakout"],
            "num_cycles": 1,
            "base_visit_frames": 700,
            "delay": 6,
            "life_loss_termination": True,
            "full_action_space": False,
        },
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of every track, and one with life-loss termination. Do not change them."""
    folder = tmp_path_factory.mktemp("frames")
    return {
        name: play_run(suite, agent, out=folder / name, overrides=settings).run_dir
        for name, (suite, agent, settings) in _RUNS.items()
    }


@pytest.fixture(scope="module")
def packs(
    runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """The same runs, packed. Do not change them."""
    folder = tmp_path_factory.mktemp("packs")
    for name, run_dir in runs.items():
        pack_run(run_dir, folder / f"{name}.longplay")
    return {name: folder / f"{name}.longplay" for name in runs}


@pytest.fixture
def pack(packs: dict[str, Path]) -> Path:
    return packs["streaming"]


# --- Pixels and rows ------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("name", _RUNS)
def test_every_frame_equals_a_replay_on_bare_ale(
    runs: dict[str, Path], name: str
) -> None:
    run = open_frames(runs[name])
    expected = replay_bare(runs[name])
    count = 0
    for frame in run.iter_frames(range(run.frame_count)):
        assert frame.row.global_frame_idx == count
        assert np.array_equal(frame.observation, next(expected))
        count += 1
    assert count == run.frame_count == len(read_rows(runs[name] / "events.jsonl"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", _RUNS)
def test_random_frames_of_runs_and_packs(
    runs: dict[str, Path], packs: dict[str, Path], name: str
) -> None:
    """Four requests for four frames each, of runs and packs of every kind."""
    expected = list(replay_bare(runs[name]))
    rng = np.random.default_rng(0)
    for run in (open_frames(runs[name]), open_frames(packs[name])):
        for _ in range(4):
            start = int(rng.integers(len(expected) - 40))
            step = int(rng.integers(1, 11))
            frames = range(start, start + 4 * step, step)
            for frame, shown in zip(frames, run.iter_frames(frames), strict=True):
                assert shown.row.global_frame_idx == frame
                assert np.array_equal(shown.observation, expected[frame])


@pytest.mark.few(3)
@pytest.mark.parametrize("name", _RUNS)
@pytest.mark.parametrize("is_packed", (False, True))
def test_rows_are_those_of_the_log(
    runs: dict[str, Path], packs: dict[str, Path], name: str, is_packed: bool
) -> None:
    """From the middle of the second visit on: ids and returns have a history."""
    rows = read_rows(runs[name] / "events.jsonl")
    run = open_frames((packs if is_packed else runs)[name])
    start = run.visit_range(1)[50]
    shown = list(run.iter_frames(range(start, run.frame_count)))
    assert [msgspec.to_builtins(frame.row) for frame in shown] == rows[start:]
    returns = dict.fromkeys((row["episode_id"] for row in rows), 0.0)
    for row in rows:
        frame_idx, episode = row["global_frame_idx"], row["episode_id"]
        if frame_idx >= start:
            assert shown[frame_idx - start].episode_return == returns[episode]
        returns[episode] += row["reward"]


def test_step_fetches_only_some_frames(runs: dict[str, Path]) -> None:
    run = open_frames(runs["streaming"])
    every = list(run.iter_frames(range(250, 350)))
    third = list(run.iter_frames(range(250, 350, 3)))
    assert [frame.row for frame in third] == [frame.row for frame in every[::3]]
    pairs = zip(third, every[::3], strict=True)
    assert all(np.array_equal(a.observation, b.observation) for a, b in pairs)


def test_memory_does_not_grow_with_the_number_of_frames(runs: dict[str, Path]) -> None:
    run = open_frames(runs["life loss"])
    peaks = []
    for end in (300, 1300):
        tracemalloc.start()
        for _ in run.iter_frames(range(end)):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0] < 80e6  # 256 frames are 26 MB


def test_progress_counts_all_played_frames(
    runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longplay.verify.replay._TICK_S", 0.0)
    seen: list[ReplayProgress] = []
    list(open_frames(runs["control"]).iter_frames(range(265, 275), seen.append))
    # To the first digest, the visit's end, and the first digest of the next visit.
    assert [progress.frames for progress in seen] == [256, 270, 526]
    assert {progress.frames_total for progress in seen} == {526}


# --- Which frames ---------------------------------------------------------------


@pytest.mark.few(2)
@pytest.mark.parametrize("is_packed", (False, True))
@pytest.mark.parametrize("name", ("streaming", "life loss", "control"))
def test_episodes_and_visits_are_found(
    runs: dict[str, Path], packs: dict[str, Path], name: str, is_packed: bool
) -> None:
    rows = read_rows(runs[name] / "events.jsonl")
    run = open_frames((packs if is_packed else runs)[name])
    for key, find in (
        ("visit_idx", run.visit_range),
        ("episode_id", run.episode_range),
    ):
        for number in {rows[0][key], rows[-1][key] // 2, rows[-1][key]}:
            frames = [row["global_frame_idx"] for row in rows if row[key] == number]
            assert list(find(number)) == frames


@pytest.mark.parametrize(
    ("frames", "found"),
    [
        (range(5, 5), "5:5"),
        (range(9, 5), "9:5"),
        (range(-3, 5), "-3:5"),
        (range(100, 10**9), "100:1000000000"),
        (range(9, 5, -1), "9:5"),
    ],
)
def test_frames_that_do_not_exist_are_refused(
    runs: dict[str, Path], pack: Path, frames: range, found: str
) -> None:
    for path in (runs["streaming"], pack):
        run = open_frames(path)
        expected = f"expected a range A:B within 0:{run.frame_count}, found {found}"
        with pytest.raises(ConfigError, match=expected):
            run.iter_frames(frames)


@pytest.mark.parametrize("number", (-1, 10**6))
def test_unknown_visits_and_episodes_are_refused(
    runs: dict[str, Path], pack: Path, number: int
) -> None:
    for path in (runs["streaming"], pack):
        run = open_frames(path)
        with pytest.raises(ConfigError, match=f"visit: expected 0 … 3, found {number}"):
            run.visit_range(number)
        with pytest.raises(ConfigError, match=r"episode: expected 0 … \d+, found"):
            run.episode_range(number)


# --- Runs that are not complete -------------------------------------------------


def cut_run(run_dir: Path, frames: int, digests: int) -> Path:
    """Makes a run look as if it were being played."""
    for name, lines in (("events.jsonl", frames), ("digests.jsonl", digests)):
        content = (run_dir / name).read_bytes().splitlines(keepends=True)
        torn = content[lines][:20]  # a row that is being written
        (run_dir / name).write_bytes(b"".join(content[:lines]) + torn)
    status = json.loads((run_dir / "status.json").read_text())
    status["state"] = "RUNNING"
    (run_dir / "status.json").write_text(json.dumps(status))
    return run_dir


@pytest.mark.parametrize("digests", (1, 2, 3))
def test_frames_of_a_run_in_progress(
    runs: dict[str, Path], copy_of: Callable[[Path], Path], digests: int
) -> None:
    """The first visit has two digests; the last may not have been written yet."""
    whole = open_frames(runs["streaming"])
    start = whole.visit_range(1).start
    run = open_frames(cut_run(copy_of(runs["streaming"]), start + 260, digests))
    assert run.frame_count == start + 260
    assert run.visit_range(1) == range(start, start + 260)
    with pytest.raises(IncompleteRunError, match="visit 2 starts at frame"):
        run.visit_range(2)
    frames = range(start + 200, start + 260)
    pairs = zip(run.iter_frames(frames), whole.iter_frames(frames), strict=True)
    assert all(np.array_equal(a.observation, b.observation) for a, b in pairs)


def test_missing_digests_of_a_complete_run_are_a_difference(
    runs: dict[str, Path], copy_of: Callable[[Path], Path]
) -> None:
    copy = copy_of(runs["streaming"])
    (copy / "digests.jsonl").write_bytes(b"")
    with pytest.raises(DifferenceError, match=r"digests\.jsonl:1 row: logged nothing"):
        next(open_frames(copy).iter_frames(range(1)))


# --- Logs and packs that do not reproduce ---------------------------------------


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("events.jsonl", '"lives":3', '"lives":4', "lives: logged 4, found 3"),
        ("events.jsonl", '"reward":0.0', '"reward":1.0', "reward: logged 1.0, found 0"),
        ("events.jsonl", '"game_id"', '"gone_id"', "game_id: logged nothing"),
        ("digests.jsonl", '"ram_crc32":"', '"ram_crc32":"0', "ram_crc32: logged"),
        ("digests.jsonl", '"chain":"', '"chain":"0', "chain: logged"),
    ],
)
def test_log_that_does_not_reproduce_shows_no_frame(
    runs: dict[str, Path],
    copy_of: Callable[[Path], Path],
    name: str,
    old: str,
    new: str,
    message: str,
) -> None:
    copy = copy_of(runs["streaming"])
    text = (copy / name).read_text()
    (copy / name).write_text(text.replace(old, new, 1))
    with pytest.raises(DifferenceError) as caught:
        next(open_frames(copy).iter_frames(range(5, 6)))
    assert str(caught.value).startswith(f"{copy} does not reproduce: {name}:1 ")
    assert message in str(caught.value)


def test_changed_action_is_found_by_the_digest(
    runs: dict[str, Path], copy_of: Callable[[Path], Path]
) -> None:
    """Even if the wanted frame is before it: their block has one digest."""
    copy = copy_of(runs["control"])
    lines = (copy / "events.jsonl").read_text().splitlines(keepends=True)
    row = json.loads(lines[200])
    for key in ("decided_action_idx", "applied_action_idx"):
        row[key] = (row[key] + 1) % 18
    lines[200] = json.dumps(row, separators=(",", ":")) + "\n"
    (copy / "events.jsonl").write_text("".join(lines))
    with pytest.raises(DifferenceError):
        next(open_frames(copy).iter_frames(range(10, 20)))


def test_other_emulator_is_named(
    runs: dict[str, Path], copy_of: Callable[[Path], Path], pack: Path, tmp_path: Path
) -> None:
    copy = copy_of(runs["streaming"])
    for path in (copy / "config.json", copy / "events.jsonl"):
        text = path.read_text().replace('"ale_py": "0.12.1"', '"ale_py": "0.11.2"')
        path.write_text(text.replace('"lives":3', '"lives":4', 1))
    expected = "made with ale-py 0.11.2, found 0.12.1 here.* differs: events.jsonl:1"
    with pytest.raises(CannotVerifyError, match=expected):
        next(open_frames(copy).iter_frames(range(1)))
    contents = open_contents(pack)
    contents["config.json"] = (copy / "config.json").read_bytes()
    close_pack(pack, tmp_path / "other.longplay", contents)
    with pytest.raises(CannotVerifyError, match=r"made with ale-py 0\.11\.2"):
        open_frames(tmp_path / "other.longplay")


def test_other_emulator_that_plays_the_same_is_accepted(
    runs: dict[str, Path], copy_of: Callable[[Path], Path]
) -> None:
    copy = copy_of(runs["streaming"])
    text = (copy / "config.json").read_text()
    text = text.replace('"ale_py": "0.12.1"', '"ale_py": "0.11.2"')
    (copy / "config.json").write_text(text)
    assert len(list(open_frames(copy).iter_frames(range(10)))) == 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a[:-1], "its answers do not fit its schedule"),
        (lambda a: bytes([99]) + a[1:], "its answers do not fit its schedule"),
        (lambda a: bytes(len(a)), "of visit 0: expected .* from run_summary.json"),
    ],
)
def test_pack_with_other_answers_is_refused(
    pack: Path, tmp_path: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    contents = open_contents(pack)
    contents["answers"] = change(contents["answers"])
    run = open_frames(close_pack(pack, tmp_path / "evil.longplay", contents))
    with pytest.raises(PackError, match=message):
        list(run.iter_frames(range(run.frame_count)))


def test_pack_whose_summary_does_not_fit_is_refused(pack: Path, tmp_path: Path) -> None:
    contents = open_contents(pack)
    summary = json.loads(contents["run_summary.json"])
    summary["visits"] = summary["visits"][1:]
    contents["run_summary.json"] = json.dumps(summary).encode()
    close_pack(pack, tmp_path / "evil.longplay", contents)
    with pytest.raises(PackError, match="does not fit the schedule"):
        open_frames(tmp_path / "evil.longplay")


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda run: (run / "events.jsonl").unlink(), DocumentError),
        (lambda run: (run / "digests.jsonl").unlink(), DocumentError),
        (lambda run: (run / "config.json").write_text("{}"), DocumentError),
        (lambda run: [path.unlink() for path in run.glob("*.json*")], NotARunError),
    ],
)
def test_damaged_run_is_refused(
    runs: dict[str, Path],
    copy_of: Callable[[Path], Path],
    damage: Callable[[Path], object],
    error: type[LongplayError],
) -> None:
    copy = copy_of(runs["streaming"])
    damage(copy)
    with pytest.raises(error):
        open_frames(copy)


def test_run_of_another_tool_is_refused(
    runs: dict[str, Path], copy_of: Callable[[Path], Path]
) -> None:
    copy = copy_of(runs["streaming"])
    config = json.loads((copy / "config.json").read_text())
    del config["versions"]
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(CannotVerifyError, match="made by another tool"):
        open_frames(copy)


def test_replay_can_be_stopped_early(runs: dict[str, Path]) -> None:
    reader = open_frames(runs["streaming"]).iter_frames(range(600))
    next(reader)
    reader.close()  # type: ignore[attr-defined]
    assert list(reader) == []
