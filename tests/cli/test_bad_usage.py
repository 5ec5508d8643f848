"""Bad usage: each kind has its own message and exit code, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from failing_runs import (
    ONE_VISIT,
    SUITE,
    Left,
)

pytestmark = pytest.mark.usefixtures("working_dir")


# --- Unknown names ----------------------------------------------------------------

FAILS_AT_ONCE = """\
def init(observation_shape, num_actions, seed):
    return 0

def step(state, previous_observation, observation, reward):
    raise ValueError("boom")
"""
UNKNOWN = [
    (("run", "stream-smok-v1", "--agent", "random"), "suite 'stream-smok-v1'", SUITE),
    (("run", "stream-8x3-v2", "--agent", "random"), "suite", "'stream-8x3-v1'"),
    (("run", "qqq", "--agent", "random"), "unknown suite 'qqq'", "stream-3x2-v1"),
    (("run", SUITE, "--agent", "randon"), "unknown agent 'randon'", "'random'"),
    (("run", SUITE, "--agent", "zzz"), "unknown agent 'zzz'", "file.py[:Agent]"),
    (("check-agent", "nop"), "unknown agent 'nop'", "'noop'"),
    (
        ("run", SUITE, "--agent", "random", "--set", 'games=["qberd"]'),
        "unknown game 'qberd'",
        "'qbert'",
    ),
]


@pytest.mark.parametrize(("args", "what", "hint"), UNKNOWN)
def test_unknown_name(
    args: tuple[str, ...], what: str, hint: str, refuse: Callable[..., str]
) -> None:
    message = refuse(*args)
    assert what in message
    assert hint in message


@pytest.mark.parametrize(
    ("game_id", "reason"),
    [
        ("combat", "'combat' cannot be played: it is for two players only"),
        ("adventure", "'adventure' cannot be played: its frames are 250 lines high"),
    ],
)
def test_unplayable_game(game_id: str, reason: str, refuse: Callable[..., str]) -> None:
    assert reason in refuse(
        "run", SUITE, "--agent", "random", "--set", f'games=["{game_id}"]'
    )


def test_damaged_rom(
    refuse: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pong.bin").write_bytes(b"\xea" * 2048)
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    message = refuse("run", SUITE, "--agent", "random", *ONE_VISIT)
    assert "ROM of pong: expected MD5" in message


def test_no_agent_given(refuse: Callable[..., str]) -> None:
    assert "--agent: expected a name, file.py[:attr]" in refuse("run", SUITE)


# --- --json and directories that are no runs --------------------------------------

JSON_ERRORS = [
    (("run", "nope", "--agent", "random"), 2, "UnknownNameError", "suite 'nope'"),
    (("run", SUITE, "--agent", "nope"), 2, "UnknownNameError", "agent 'nope'"),
    (("run", SUITE, "--agent", "no.py"), 2, "AgentLoadError", "no such file"),
    (("run", SUITE, "--agent", "noop", "--set", "delay=-1"), 2, "ConfigError", "delay"),
    (("run", SUITE, "--agent", "noop", "--out", "."), 2, "OutputError", "exists"),
    (("run", SUITE), 2, "ConfigError", "--agent"),
    (("check-agent", "nope"), 2, "UnknownNameError", "agent 'nope'"),
    (("validate", "nowhere"), 2, "NotARunError", "no such folder"),
    (("score", "nowhere"), 2, "NotARunError", "no such folder"),
    (("show", "nowhere"), 2, "NotARunError", "no such folder"),
]


@pytest.mark.parametrize(("args", "exit_code", "kind", "message"), JSON_ERRORS)
def test_error_as_json(
    args: tuple[str, ...],
    exit_code: int,
    kind: str,
    message: str,
    invoke: Callable[..., Any],
) -> None:
    answer = invoke(*args, "--json")
    assert answer.exit_code == exit_code
    assert set(answer.json) == {"error"}
    assert answer.json["error"]["type"] == kind
    assert message in answer.json["error"]["message"]
    assert answer.stderr == ""


def test_the_error_of_a_control_run_names_a_timestep(invoke, tmp_path):
    agent = tmp_path / "fails.py"
    agent.write_text(FAILS_AT_ONCE)
    answer = invoke(
        "run", "control-smoke-v1", "--agent", agent, "--out", tmp_path / "e"
    )
    assert answer.exit_code == 1
    assert "boom (fails.py:5) at timestep 0 of pong" in answer.stderr


def test_failed_run_as_json(
    invoke: Callable[..., Any], write_agent: Callable[..., Path], left: Left
) -> None:
    agent = write_agent("raise ValueError('boom')")
    answer = invoke(
        *("run", SUITE, "--agent", agent, "--out", left.out),
        *(*ONE_VISIT, "--json", "--quiet"),
    )
    assert answer.exit_code == 1
    (run,) = answer.json["runs"]
    assert (run["state"], run["error"]["type"]) == ("FAILED", "ValueError")
    assert (
        "ValueError: boom (some_agent.py:9) at frame 0 of pong"
        in run["error"]["message"]
    )
    assert left.status["state"] == "FAILED"


def make_nothing(path: Path) -> None:
    pass


def make_file(path: Path) -> None:
    path.write_text("{}")


def make_folder(path: Path) -> None:
    path.mkdir()


def make_hollow_experiment(path: Path) -> None:
    (path / "episodes" / "run").mkdir(parents=True)


NOT_RUNS = [make_nothing, make_file, make_folder, make_hollow_experiment]


@pytest.mark.parametrize("command", ["validate", "score", "show"])
@pytest.mark.parametrize("make", NOT_RUNS)
def test_not_a_run(
    command: str,
    make: Callable[[Path], None],
    refuse: Callable[..., str],
    tmp_path: Path,
) -> None:
    path = tmp_path / "thing"
    make(path)
    message = refuse(command, path)
    assert "expected a run directory (config.json, events.jsonl, …)" in message
    assert str(path) in message


BAD_SCORING = [
    (("--window-frames", "0"), "window_frames"),
    (("--revisit-frames", "-1"), "revisit_frames"),
    (("--bottom-k-frac", "0"), "bottom_k_frac"),
    (("--bottom-k-frac", "1.5"), "bottom_k_frac"),
    (("--bottom-k-frac", "nan"), "bottom_k_frac"),
    (("--explain", "qberd"), "did you mean 'qbert'"),
]


@pytest.mark.parametrize(("options", "message"), BAD_SCORING)
def test_bad_scoring_option(
    options: tuple[str, ...],
    message: str,
    refuse: Callable[..., str],
    finished_run: Path,
) -> None:
    before = (finished_run / "score.json").read_bytes()
    assert message in refuse("score", finished_run, *options)
    assert (finished_run / "score.json").read_bytes() == before


@pytest.mark.parametrize(
    "args", [("run",), ("frobnicate",), ("score",), ("run", "--x")]
)
def test_usage(args: tuple[str, ...], invoke: Callable[..., Any]) -> None:
    answer = invoke(*args)
    assert answer.exit_code == 2
    assert "Usage" in answer.stderr
