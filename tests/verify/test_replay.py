"""A genuine log reproduces; in a forged one the first difference is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forgery import (
    CONTROL,
    FORGERIES,
    LIVES,
    RECHAINED,
    STREAM,
    TWO_GAMES,
    Forgery,
    Row,
    read_rows,
    read_story,
    rechain,
    tell,
)

import longplay
from longplay.agents.isolation.levels import Isolation
from longplay.agents.random import RandomAgent
from longplay.contract.digests import BLOCK_FRAMES
from longplay.contract.documents import Difference
from longplay.contract.rundir import ROW_FILES
from longplay.errors import (
    CannotVerifyError,
    ConfigError,
    DocumentError,
    IncompleteRunError,
)
from longplay.suites import SUITES
from longplay.validation import validate_run
from longplay.verify import verification
from longplay.verify.replay import ReplayProgress, index_lines
from longplay.verify.verification import verify_run, write_verification
from playing import play_run

_SHORT = {"num_cycles": 1, "jitter_pct": 0.0}
_SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    STREAM: (
        "stream-smoke-v1",
        {**_SHORT, "games": ["centipede"], "base_visit_frames": 600},
    ),
    LIVES: (
        "stream-smoke-v1",
        {
            **_SHORT,
            "games": ["asterix"],
            "base_visit_frames": 900,
            "delay": 6,
            "life_loss_termination": True,
            "full_action_space": False,
        },
    ),
    CONTROL: ("control-smoke-v1", {"games": ["asterix"], "base_visit_frames": 700}),
    TWO_GAMES: (
        "stream-smoke-v1",
        {**_SHORT, "games": ["centipede", "qbert"], "base_visit_frames": 300},
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Genuine runs of every kind. Do not change them: copy them."""
    folder = tmp_path_factory.mktemp("true")
    return {
        name: play_run(suite, "random", out=folder / name, overrides=settings).run_dir
        for name, (suite, settings) in _SETTINGS.items()
    }


@pytest.fixture
def true_copy(runs: dict[str, Path], copy_of: Callable[[Path], Path]) -> Path:
    """A genuine run of two games that a test may damage."""
    return copy_of(runs[TWO_GAMES])


# --- Genuine logs ---------------------------------------------------------------

ALL_GAMES = sorted({game for suite in SUITES.values() for game in suite.games})
CONTROL_GAMES = list(SUITES["control-v1"].games)


def _play_all(out: Path, suite: str, seed: int, visit_frames: int) -> Path:
    games = ALL_GAMES if suite.startswith("stream") else CONTROL_GAMES
    settings = {"games": games, "num_cycles": 1, "base_visit_frames": visit_frames}
    return play_run(suite, "random", seed=seed, out=out, overrides=settings).run_dir


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (1, 2))]
)
def test_genuine_log_of_every_game_passes(tmp_path: Path, seed: int) -> None:
    run = _play_all(tmp_path / "run", "stream-3x2-v1", seed, 40)
    assert verify_run(run, workers=2).passed


@pytest.mark.exhaustive
def test_genuine_control_log_of_every_game_passes(tmp_path: Path) -> None:
    run = _play_all(tmp_path / "run", "control-v1", 0, 20)
    assert verify_run(run, workers=2).passed


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("suite", ["stream-3x2-v1", "stream-8x3-1m-v1", "control-v1"])
def test_long_genuine_log_passes(tmp_path: Path, suite: str, seed: int) -> None:
    run = _play_all(tmp_path / "run", suite, seed, 3_000)
    for workers in (1, 2):
        assert verify_run(run, workers=workers).passed


@pytest.mark.parametrize("name", list(_SETTINGS))
def test_genuine_log_passes(runs: dict[str, Path], name: str) -> None:
    verdict = verify_run(runs[name])
    assert verdict.difference is None
    assert verdict.passed
    assert verdict.frames == len(read_rows(runs[name] / "events.jsonl"))


def test_runs_have_all_kinds_of_boundaries(runs: dict[str, Path]) -> None:
    lives = read_rows(runs[LIVES] / "events.jsonl")
    lost = [row for row in lives if row["terminated"]]
    assert any(row["lives"] > 0 for row in lost)
    control = read_rows(runs[CONTROL] / "events.jsonl")
    assert control[-1]["segment_id"] > 0
    assert any(row["emulator_frames"] < 4 for row in control)


# --- Forged logs ----------------------------------------------------------------


@pytest.mark.parametrize("name", list(_SETTINGS))
def test_unchanged_story_gives_the_same_bytes(
    runs: dict[str, Path], copy_of: Callable[[Path], Path], name: str
) -> None:
    copy = copy_of(runs[name])
    tell(copy, read_story(copy))
    for file in (*ROW_FILES, "score.json"):
        assert (copy / file).read_bytes() == (runs[name] / file).read_bytes()


def test_there_are_enough_forgeries() -> None:
    assert len(FORGERIES) >= 100
    assert len(RECHAINED) >= 20


def _forge(run: Path, forgery: Forgery) -> Row:
    """Forges a run; returns the first row that changed."""
    story = read_story(run)
    before = read_rows(run / "events.jsonl")
    forgery.lie(story)
    tell(run, story)
    after = read_rows(run / "events.jsonl")
    pairs = zip(before, after, strict=True)
    return next({"was": a, "is": b} for a, b in pairs if a != b)


def _check_place(difference: Difference, first: Row) -> None:
    """The first forged frame is named, or its block if only the chain differs."""
    was, told = first["was"], first["is"]
    frame, visit_frame = was["global_frame_idx"], was["visit_frame_idx"]
    assert difference.visit_idx == was["visit_idx"]
    if all(was[k] == told[k] for k in ("is_decision_frame", "decided_action_idx")):
        assert difference.first_frame_idx == difference.last_frame_idx == frame
        assert json.loads(difference.logged or "null") == told[difference.field]
        assert json.loads(difference.replayed) == was[difference.field]
    else:  # an action: found when it has an effect, at the latest by the chain
        block_end = frame - visit_frame % BLOCK_FRAMES + BLOCK_FRAMES - 1
        assert difference.first_frame_idx <= block_end
        assert frame <= difference.last_frame_idx <= block_end


@pytest.mark.few(12)
@pytest.mark.parametrize("forgery", FORGERIES, ids=str)
def test_forged_log_is_found(
    runs: dict[str, Path], copy_of: Callable[[Path], Path], forgery: Forgery
) -> None:
    run = copy_of(runs[forgery.source])
    first = _forge(run, forgery)
    verdict = verify_run(run)
    assert verdict.report is not None
    assert verdict.report.is_valid, verdict.report.findings.shown
    assert verdict.difference is not None
    _check_place(verdict.difference, first)
    assert not verdict.passed


@pytest.mark.few(6)
@pytest.mark.parametrize("forgery", RECHAINED, ids=str)
def test_forged_log_with_a_recomputed_chain_is_found(
    runs: dict[str, Path], copy_of: Callable[[Path], Path], forgery: Forgery
) -> None:
    run = copy_of(runs[forgery.source])
    first = _forge(run, forgery)
    rechain(run)
    verdict = verify_run(run)
    assert verdict.report is not None
    assert verdict.report.is_valid, verdict.report.findings.shown
    assert verdict.difference is not None
    assert verdict.difference.file == "events.jsonl"
    _check_place(verdict.difference, first)


def test_log_of_another_seed_is_found(
    runs: dict[str, Path], copy_of: Callable[[Path], Path], tmp_path: Path
) -> None:
    suite, settings = _SETTINGS[STREAM]
    out = tmp_path / "other"
    other = play_run(suite, "random", seed=1, out=out, overrides=settings).run_dir
    run = copy_of(runs[STREAM])
    tell(run, read_story(other))
    rechain(run)
    verdict = verify_run(run)
    assert verdict.report is not None
    assert verdict.report.is_valid
    assert verdict.difference is not None


def test_first_difference_is_the_lowest_frame_of_all_visits(true_copy: Path) -> None:
    story = read_story(true_copy)
    story[1].change(250, reward=9.0)
    story[1].change(20, lives=77)
    story[0].change(123, reward=story[0].outcomes[123].reward + 1)
    tell(true_copy, story)
    for workers in (1, 2):
        difference = verify_run(true_copy, workers=workers).difference
        assert difference is not None
        assert (difference.visit_idx, difference.last_frame_idx) == (0, 123)
        assert difference.field == "reward"
        assert difference.line == 124


def _change_last_decision(run: Path) -> int:
    """Forges a decision that comes too late to be applied; returns its frame."""
    story = read_story(run)
    story[0].answers[-1] = (story[0].answers[-1] + 1) % 18
    tell(run, story)
    rows = read_rows(run / "events.jsonl")
    frames = [row["global_frame_idx"] for row in rows if row["is_decision_frame"]]
    assert frames[-1] > len(rows) - 6  # the delay
    return int(frames[-1])


def test_action_without_effect_is_found_only_by_the_chain(
    runs: dict[str, Path], copy_of: Callable[[Path], Path]
) -> None:
    run = copy_of(runs[LIVES])
    _change_last_decision(run)
    difference = verify_run(run).difference
    assert difference is not None
    assert (difference.file, difference.field) == ("digests.jsonl", "chain")
    assert (difference.first_frame_idx, difference.last_frame_idx) == (768, 899)
    rechain(run)
    assert verify_run(run).passed  # only re-execution can find it


# --- Damaged files --------------------------------------------------------------


def _edit_line(path: Path, index: int, line: bytes) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[index] = line
    path.write_bytes(b"".join(lines))


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"garbage\n",
        b"null\n",
        b"[]\n",
        b"{}\n",
        b"\xff\xfe\x00\n",
        b'{"decided_action_idx":1e999}\n',
        b"[" * 100_000 + b"\n",
        b"x" * 1_000_000 + b"\n",
        b'{"global_frame_idx": 400}\n',
    ],
    ids=lambda garbage: repr(garbage[:12]),
)
@pytest.mark.parametrize("file", ["events.jsonl", "digests.jsonl"])
def test_garbage_is_a_difference(true_copy: Path, file: str, garbage: bytes) -> None:
    index = {"events.jsonl": 400, "digests.jsonl": 2}[file]
    _edit_line(true_copy / file, index, garbage)
    verdict = verify_run(true_copy)
    assert not verdict.passed
    difference = verdict.difference
    assert difference is not None
    assert (difference.file, difference.line) == (file, index + 1)
    assert difference.visit_idx == 1
    assert len(difference.logged or "") <= 201


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("decided_action_idx", 99),
        ("decided_action_idx", True),
        ("reward", 0),
        ("visit_idx", 5),
        ("global_frame_idx", 2**62),
        ("episode_id", 7),
        ("truncated", True),
        ("game_id", "pong"),
    ],
)
def test_edited_field_is_named(true_copy: Path, key: str, value: object) -> None:
    row = read_rows(true_copy / "events.jsonl")[400]
    line = json.dumps({**row, key: value}, separators=(",", ":")).encode() + b"\n"
    _edit_line(true_copy / "events.jsonl", 400, line)
    difference = verify_run(true_copy).difference
    assert difference is not None
    assert (difference.last_frame_idx, difference.field) == (400, key)
    assert difference.logged == json.dumps(value)


@pytest.mark.parametrize("value", [2**62, 2**63, 2**64 - 1, 2**70, -1, "0", None])
def test_absurd_id_at_the_start_of_a_visit_is_found(
    true_copy: Path, value: object
) -> None:
    row = {**read_rows(true_copy / "events.jsonl")[300], "episode_id": value}
    line = json.dumps(row, separators=(",", ":")).encode() + b"\n"
    _edit_line(true_copy / "events.jsonl", 300, line)
    difference = verify_run(true_copy).difference
    assert difference is not None
    assert difference.visit_idx == 1
    assert difference.last_frame_idx in (300, 301)  # its own row, or the next one's


def test_row_in_another_format_is_a_difference(true_copy: Path) -> None:
    line = (true_copy / "events.jsonl").read_bytes().splitlines()[17]
    _edit_line(true_copy / "events.jsonl", 17, line.replace(b":", b": ", 1) + b"\n")
    difference = verify_run(true_copy).difference
    assert difference is not None
    assert (difference.last_frame_idx, difference.field) == (17, "row")


def test_ids_that_do_not_continue_are_found(true_copy: Path) -> None:
    rows = read_rows(true_copy / "events.jsonl")
    for row in rows[300:]:
        row["segment_id"] += 1
    lines = [json.dumps(row, separators=(",", ":")) + "\n" for row in rows]
    (true_copy / "events.jsonl").write_text("".join(lines))
    rechain(true_copy)
    difference = verify_run(true_copy).difference
    assert difference is not None
    assert (difference.last_frame_idx, difference.field) == (300, "segment_id")
    assert (difference.logged, difference.replayed) == ("2", "1")


@pytest.mark.parametrize(
    ("line", "field", "value"), [(0, "ram_crc32", "0" * 8), (2, "chain", "f" * 64)]
)
def test_edited_digest_names_its_block(
    true_copy: Path, line: int, field: str, value: str
) -> None:
    row = {**read_rows(true_copy / "digests.jsonl")[line], field: value}
    text = json.dumps(row, separators=(",", ":")).encode() + b"\n"
    _edit_line(true_copy / "digests.jsonl", line, text)
    difference = verify_run(true_copy).difference
    assert difference is not None
    block = {0: (0, 255), 2: (300, 555)}[line]
    assert (difference.first_frame_idx, difference.last_frame_idx) == block
    assert difference.field == field


def test_rows_after_the_end_are_found(true_copy: Path) -> None:
    last = (true_copy / "events.jsonl").read_bytes().splitlines(keepends=True)[-1]
    with (true_copy / "events.jsonl").open("ab") as file:
        file.write(last)
    verdict = verify_run(true_copy)
    assert not verdict.passed


def test_missing_digest_rows_are_found(true_copy: Path) -> None:
    lines = (true_copy / "digests.jsonl").read_bytes().splitlines(keepends=True)
    (true_copy / "digests.jsonl").write_bytes(b"".join(lines[:3]))
    difference = verify_run(true_copy).difference
    assert difference is not None
    assert (difference.file, difference.line, difference.logged) == (
        "digests.jsonl",
        4,
        None,
    )


def test_validation_finding_fails_a_log_that_replays(true_copy: Path) -> None:
    _edit_json(true_copy / "score.json", final_score=1e6)
    verdict = verify_run(true_copy)
    assert verdict.difference is None
    assert not verdict.passed
    assert "score.json" in verdict.describe_failure()


# --- Runs that cannot be verified -----------------------------------------------


def _edit_json(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_incomplete_run_is_not_verified(true_copy: Path) -> None:
    lines = (true_copy / "events.jsonl").read_bytes().splitlines(keepends=True)
    (true_copy / "events.jsonl").write_bytes(b"".join(lines[:-1]))
    with pytest.raises(IncompleteRunError, match="599 of 600 frames"):
        verify_run(true_copy)


def test_run_that_has_not_ended_is_not_verified(true_copy: Path) -> None:
    _edit_json(true_copy / "status.json", state="CANCELLED")
    with pytest.raises(IncompleteRunError, match="state is CANCELLED"):
        verify_run(true_copy)


@pytest.mark.parametrize("name", ["digests.jsonl", "run_summary.json", "events.jsonl"])
def test_missing_file_is_named(true_copy: Path, name: str) -> None:
    (true_copy / name).unlink()
    with pytest.raises(DocumentError, match=name):
        verify_run(true_copy)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"emulator_seeds": [1]}, "emulator_seeds: expected 2 seeds"),
        ({"emulator_seeds": None}, "emulator_seeds: expected 2 seeds"),
        ({"default_action_idx": 99}, "default_action_idx: expected an action"),
        ({"benchmark_contract_version": "v9"}, "benchmark_contract_version"),
    ],
)
def test_config_that_cannot_be_replayed_is_refused(
    true_copy: Path, changes: dict[str, Any], message: str
) -> None:
    _edit_json(true_copy / "config.json", **changes)
    with pytest.raises(DocumentError, match=message):
        verify_run(true_copy)


def test_run_made_by_another_tool_cannot_be_verified(true_copy: Path) -> None:
    _edit_json(true_copy / "config.json", versions={"python": "3.11"})
    with pytest.raises(CannotVerifyError, match="made by another tool"):
        verify_run(true_copy)


def test_unknown_game_cannot_be_verified(true_copy: Path) -> None:
    text = (true_copy / "config.json").read_text()
    (true_copy / "config.json").write_text(text.replace('"qbert"', '"quibbert"'))
    with pytest.raises(CannotVerifyError, match="quibbert"):
        verify_run(true_copy)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"versions": {"ale_py": "0.11.0", "longplay": "0.1.0"}}, "ale-py 0.11.0"),
        ({"rom_sha256": {"centipede": "0" * 64}}, "the ROM 0000"),
    ],
)
def test_difference_under_another_emulator_is_not_a_verdict(
    true_copy: Path, changes: dict[str, Any], named: str
) -> None:
    story = read_story(true_copy)
    story[0].change(100, reward=3.0)
    tell(true_copy, story)
    _edit_json(true_copy / "config.json", **changes)
    with pytest.raises(CannotVerifyError, match=named) as caught:
        verify_run(true_copy)
    assert "cannot verify here" in str(caught.value)
    assert "frame 100" in str(caught.value)


def test_broken_chain_is_a_verdict_under_any_emulator(true_copy: Path) -> None:
    row = {**read_rows(true_copy / "digests.jsonl")[0], "chain": "f" * 64}
    text = json.dumps(row, separators=(",", ":")).encode() + b"\n"
    _edit_line(true_copy / "digests.jsonl", 0, text)
    versions = {"ale_py": "0.11.0", "longplay": "0.1.0"}
    _edit_json(true_copy / "config.json", versions=versions)
    difference = verify_run(true_copy).difference
    assert difference is not None
    assert difference.field == "chain"


# --- Some visits ----------------------------------------------------------------


def test_one_visit_is_verified_alone(true_copy: Path) -> None:
    story = read_story(true_copy)
    story[1].change(100, reward=3.0)
    tell(true_copy, story)
    assert verify_run(true_copy, visits=[0]).passed
    verdict = verify_run(true_copy, visits=[1])
    assert verdict.visits == (1,)
    assert verdict.frames == 300
    assert verdict.difference is not None
    assert verdict.difference.last_frame_idx == 400


def test_unknown_visit_is_refused(true_copy: Path) -> None:
    with pytest.raises(ConfigError, match="expected 0 … 1, found 2"):
        verify_run(true_copy, visits=[2])


# --- The verdict ----------------------------------------------------------------


def test_verdict_is_kept_with_the_hashes_of_the_verified_files(
    true_copy: Path,
) -> None:
    record = write_verification(verify_run(true_copy))
    assert (record.level, record.passed, record.frames) == ("replayed", True, 600)
    checked = {*ROW_FILES, "config.json", "run_summary.json", "score.json"}
    assert record.sha256.keys() == checked
    again = write_verification(verify_run(true_copy, workers=2))
    now = {"verified_utc": again.verified_utc}
    assert again == record.model_copy(update=now)
    assert validate_run(true_copy).is_valid


def test_failed_verdict_has_the_level_claimed(true_copy: Path) -> None:
    story = read_story(true_copy)
    story[0].change(100, reward=3.0)
    tell(true_copy, story)
    record = write_verification(verify_run(true_copy))
    assert (record.level, record.passed) == ("claimed", False)
    assert record.first_difference is not None
    assert record.first_difference.last_frame_idx == 100


def test_progress_counts_frames_and_visits(runs: dict[str, Path]) -> None:
    seen: list[ReplayProgress] = []
    verify_run(runs[TWO_GAMES], observer=seen.append)
    assert seen
    assert all(0 < p.frames <= p.frames_total == 600 for p in seen)
    assert all(p.visits_total == 2 for p in seen)


# --- Re-execution ---------------------------------------------------------------


def test_agent_that_decides_the_same_gives_the_highest_level(true_copy: Path) -> None:
    verdict = verification.reexecute(true_copy)
    assert verdict.passed
    assert write_verification(verdict).level == "re-executed"


@pytest.mark.few(1)
@pytest.mark.parametrize("name", [LIVES, CONTROL])
def test_other_runs_are_reexecuted(runs: dict[str, Path], name: str) -> None:
    assert verification.reexecute(runs[name]).passed


def test_action_without_effect_is_found_by_reexecution(
    runs: dict[str, Path], copy_of: Callable[[Path], Path]
) -> None:
    run = copy_of(runs[LIVES])
    frame = _change_last_decision(run)
    rechain(run)
    difference = verification.reexecute(run).difference
    assert difference is not None
    assert difference.last_frame_idx == frame
    assert difference.field == "decided_action_idx"


_FORGETFUL = """
import builtins

class Agent:
    '''Does otherwise in each of its lives in one process.'''
    def __init__(self, num_actions, seed):
        builtins._forgetful_lives = getattr(builtins, "_forgetful_lives", 0) + 1
        self.life, self.frame = builtins._forgetful_lives, 0
        print("this is life", self.life)

    def step(self, obs_rgb, reward, terminated, truncated, info):
        self.frame += 1
        return self.life if self.frame > 100 else 0
"""


def test_agent_that_is_not_deterministic_is_named(tmp_path: Path) -> None:
    agent = tmp_path / "forgetful.py"
    agent.write_text(_FORGETFUL)
    suite, settings = _SETTINGS[TWO_GAMES]
    out = tmp_path / "run"
    run = play_run(suite, str(agent), out=out, overrides=settings).run_dir
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    verdict = verification.reexecute(run, str(agent), isolation=Isolation())
    assert verdict.difference is not None
    assert verdict.difference.last_frame_idx == 100
    assert verdict.difference.field == "decided_action_idx"
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    assert verify_run(run).passed


def test_reexecuted_agent_is_closed(
    true_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[RandomAgent] = []

    def close(agent: RandomAgent) -> None:
        closed.append(agent)

    monkeypatch.setattr(RandomAgent, "close", close, raising=False)
    verdict = verification.reexecute(true_copy, isolation=Isolation())
    assert verdict.passed
    assert len(closed) == 1
    assert write_verification(verdict).level == "re-executed (unconfined)"


def test_different_agent_is_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    agent = tmp_path / "other.py"
    agent.write_text(_FORGETFUL)
    with pytest.raises(longplay.errors.AgentLoadError, match="different agent"):
        verification.reexecute(runs[TWO_GAMES], str(agent))


# --- Lines ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "starts", "line_count"),
    [
        (b"", [0, 0, 0], 0),
        (b"\n\n\n", [0, 1, 2], 3),
        (b"ab\ncd\nef\n", [0, 3, 6], 3),
        (b"ab\ncd\nef", [0, 3, 6], 2),
        (b"ab\n", [0, 3, 3], 1),
        (b"a" * 2**20 + b"\nb\nc\n", [0, 2**20 + 1, 2**20 + 3], 3),
        (b"a" * (2**20 - 1) + b"\nb\nc\n", [0, 2**20, 2**20 + 2], 3),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_lines_are_found(
    tmp_path: Path, text: bytes, starts: list[int], line_count: int
) -> None:
    (tmp_path / "file").write_bytes(text)
    index = index_lines(tmp_path / "file", [0, 1, 2])
    assert index.bytes_before == starts
    assert index.line_count == line_count


# --- The command line -----------------------------------------------------------


def test_verify_command_keeps_the_verdict_and_show_prints_it(
    true_copy: Path, invoke: Callable[..., Any]
) -> None:
    assert "claimed" in invoke("show", true_copy).stdout
    answer = invoke("verify", true_copy, "--workers", 1)
    assert answer.exit_code == 0
    assert "verified: 600 rows replayed" in answer.stdout
    assert "replayed: 600 frames" in invoke("show", true_copy).stdout
    with (true_copy / "run_summary.json").open("a") as file:
        file.write("\n")
    shown = invoke("show", true_copy).stdout
    assert "changed since it was verified: run_summary.json" in shown
    assert invoke("show", true_copy, "--json").json["changed_since"] == [
        "run_summary.json"
    ]


def test_verify_command_prints_the_first_difference(
    true_copy: Path, invoke: Callable[..., Any]
) -> None:
    story = read_story(true_copy)
    story[0].change(100, reward=3.0)
    tell(true_copy, story)
    answer = invoke("verify", true_copy, "--workers", 1)
    assert answer.exit_code == 1
    words = " ".join(answer.stdout.split())
    assert "visit 0" in words
    assert "frame 100: reward logged 3.0, replayed 0.0 (events.jsonl:101)" in words
    answer = invoke("verify", true_copy, "--workers", 1, "--json")
    assert answer.json["first_difference"]["field"] == "reward"


def test_verify_command_of_one_visit_keeps_nothing(
    true_copy: Path, invoke: Callable[..., Any]
) -> None:
    answer = invoke("verify", true_copy, "--visit", 1, "--workers", 1)
    assert answer.exit_code == 0
    assert "300 rows of visit 1" in answer.stdout
    assert not (true_copy / "verification.json").exists()


def test_verify_command_continues_after_a_run_that_cannot_be_verified(
    runs: dict[str, Path], tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    for seed in (0, 1):
        shutil.copytree(runs[TWO_GAMES], tmp_path / "episodes" / f"run_seed-{seed}")
    _edit_json(tmp_path / "episodes/run_seed-0/status.json", state="FAILED")
    answer = invoke("verify", tmp_path, "--workers", 1, "--json")
    assert answer.exit_code == 1
    assert answer.json[0]["error"]["type"] == "IncompleteRunError"
    assert answer.json[1]["passed"] is True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--agent", "random"], "only with --reexecute"),
        (["--isolate", "sandbox"], "--isolate: only with --reexecute"),
        (["--reexecute", "--visit", "0"], "not with --reexecute"),
    ],
)
def test_verify_command_refuses_invalid_usage(
    true_copy: Path, invoke: Callable[..., Any], options: list[str], message: str
) -> None:
    answer = invoke("verify", true_copy, *options)
    assert answer.exit_code == 2
    assert message in answer.stderr


def test_reexecute_command_writes_the_level(
    true_copy: Path, invoke: Callable[..., Any]
) -> None:
    answer = invoke("verify", true_copy, "--reexecute", "--agent", "random")
    assert answer.exit_code == 0
    assert "re-executed: 600 frames" in invoke("show", true_copy).stdout
