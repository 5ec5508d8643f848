"""An agent that fails during a run leaves whole rows and a status that says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from failing_runs import (
    CONTROL_SUITE,
    ONE_VISIT,
    ROW_FILES,
    THREE_VISITS,
    Left,
    play,
)

pytestmark = pytest.mark.usefixtures("working_dir")


# --- Agents that fail during a run ------------------------------------------------


@pytest.fixture
def failed_run(
    run_to_failure: Callable[..., str], write_agent: Callable[..., Path], left: Left
) -> Left:
    """A run of three visits of 100 frames whose agent raised at frame 137."""
    agent = write_agent("if frame == 137: raise ValueError('boom')\n        return 1")
    message = run_to_failure(agent, *THREE_VISITS)
    game_id = left.rows()[-1]["game_id"]
    assert (
        f"the agent raised ValueError: boom (some_agent.py:9) at frame 137 of {game_id}"
        in message
    )
    assert f"recorded so far: {left.run_dir}\n" in message
    return left


def test_agent_that_raises_leaves_its_status(failed_run: Left) -> None:
    error = failed_run.status["error"]
    assert failed_run.status["frame"] == error["frame"] == 137
    assert failed_run.status["frames_total"] == 300
    assert error["type"] == "ValueError"
    assert "ValueError: boom" in error["message"]
    assert failed_run.status["game_id"] == error["game"]
    assert error["game"] == failed_run.rows()[136]["game_id"]


def test_agent_that_raises_leaves_all_frames_before(failed_run: Left) -> None:
    assert failed_run.check_rows() == 137
    assert failed_run.document("run_summary.json")["frames"] == 137
    assert failed_run.rows("segments.jsonl")[0]["end_global_frame_idx"] == 99
    assert not (failed_run.run_dir / "score.json").exists()


def test_agent_that_raises_shows_in_the_experiment(failed_run: Left) -> None:
    summary = json.loads((failed_run.out / "experiment_summary.json").read_bytes())
    (run,) = summary["runs"]
    assert (run["state"], run["frame"], run["headline_value"]) == ("FAILED", 137, None)
    assert run["error"] == failed_run.status["error"]


def test_failed_run_is_not_scored(failed_run: Left, invoke: Callable[..., Any]) -> None:
    answer = invoke("score", failed_run.out)
    assert answer.exit_code == 1
    assert "its last frame is 136 of 0 … 299" in answer.stderr
    assert "--partial" in answer.stderr
    assert not (failed_run.run_dir / "score.json").exists()


def test_failed_run_is_scored_in_part(
    failed_run: Left, invoke: Callable[..., Any]
) -> None:
    answer = invoke("score", failed_run.out, "--partial", "--json")
    assert answer.exit_code == 0
    assert answer.json["complete"] is False
    assert list(answer.json["per_game_scores"]) == [failed_run.rows()[0]["game_id"]]
    assert not (failed_run.run_dir / "score.json").exists()


def test_run_without_a_frame(
    run_to_failure: Callable[..., str],
    write_agent: Callable[..., Path],
    left: Left,
    invoke: Callable[..., Any],
) -> None:
    run_to_failure(write_agent("return 18"), *ONE_VISIT)
    answer = invoke("score", left.out)
    assert answer.exit_code == 1
    assert "frame is -1" not in answer.stderr
    partial = invoke("score", left.out, "--partial", "--json")
    assert partial.exit_code == 0
    assert (partial.json["complete"], partial.json["final_score"]) == (False, None)
    assert invoke("show", left.out).exit_code == 0
    assert invoke("validate", left.out).exit_code == 1


def test_failed_run_is_shown(failed_run: Left, invoke: Callable[..., Any]) -> None:
    answer = invoke("show", failed_run.out)
    assert answer.exit_code == 0
    assert "FAILED" in answer.stdout


def test_failed_run_has_findings(failed_run: Left, invoke: Callable[..., Any]) -> None:
    answer = invoke("validate", failed_run.out)
    assert answer.exit_code == 1
    assert "error:" not in answer.stderr


NO_ACTIONS = [
    ("3.0", "found 3.0 (float)"),
    ("'3'", "found '3' (str)"),
    ("-1", "found -1 (int)"),
    ("18", "found 18 (int)"),
    ("10**30", f"found {10**30} (int)"),
    ("math.nan", "found nan (float)"),
    ("True", "found True (bool)"),
    ("False", "found False (bool)"),
    ("None", "found None (NoneType)"),
    ("np.bool_(True)", "found np.True_"),
    ("np.float32(3)", "found np.float32(3.0)"),
    ("[3]", "found [3] (list)"),
    ("(3,)", "found (3,) (tuple)"),
    ("np.array([3, 4])", "found array([3, 4]) (ndarray)"),
    ("np.array([3.0])", "found array([3.]) (ndarray)"),
    ("np.array([True])", "found array([ True]) (ndarray)"),
]


@pytest.mark.few(5)
@pytest.mark.parametrize(("answer", "found"), NO_ACTIONS)
def test_answer_that_is_not_a_valid_action(
    answer: str,
    found: str,
    run_to_failure: Callable[..., str],
    write_agent: Callable[..., Path],
    left: Left,
) -> None:
    agent = write_agent(f"return {answer} if frame == 8 else 2")
    message = run_to_failure(agent, *ONE_VISIT)
    expected = "the agent's answer is not a valid action: expected an int in 0 … 17"
    assert expected in message
    assert found in message
    assert "at frame 8 of pong" in message
    assert left.check_rows() == 8
    assert (left.status["error"]["frame"], left.status["error"]["game"]) == (8, "pong")


NUMPY_ACTIONS = [
    *(f"np.{kind}(3)" for kind in ("int64", "int32", "int8", "uint8", "uint64")),
    "np.array([3])",
    "np.array([[3]])",
]


@pytest.mark.parametrize("action", NUMPY_ACTIONS)
def test_numpy_integer_is_an_action(
    action: str,
    invoke: Callable[..., Any],
    write_agent: Callable[..., Path],
    left: Left,
) -> None:
    agent = write_agent(f"return {action}")
    rows = play(invoke, agent, left.out).rows()
    assert {row["decided_action_idx"] for row in rows} == {3}


def test_answers_between_decisions_are_ignored(
    invoke: Callable[..., Any], write_agent: Callable[..., Path], tmp_path: Path
) -> None:
    action = "frame // 4 % 18"
    garbage = "[None, 'x', math.nan, -1, 18, True, object(), [1, 2]][frame % 8]"
    agent = write_agent(f"return {action} if is_decision else {garbage}")
    # An interval of 3, so that each kind of garbage meets a frame between decisions.
    interval = ("--set", "decision_interval=3")
    messy = play(invoke, agent, tmp_path / "messy", *interval)
    agent = write_agent(f"return {action}")
    clean = play(invoke, agent, tmp_path / "clean", *interval)
    for name in ROW_FILES:
        written = (messy.run_dir / name).read_bytes()
        assert written == (clean.run_dir / name).read_bytes()
    assert len({row["decided_action_idx"] for row in messy.rows()}) > 10


OTHER_FAILURES = [
    ("return 0", "def metrics(self): return {'loss': 'low'}", "found 'low'"),
    ("return 0", "def metrics(self): return {'loss': True}", "found True"),
    ("return 0", "def metrics(self): return 0.5", "must be a dict, found 0.5"),
    ("return 0", "def metrics(self): return 1 / 0", "raised ZeroDivisionError"),
    ("return 0", "def close(self): raise OSError('stuck')", "raised OSError: stuck"),
    ("sys.exit(0)", "pass", "raised SystemExit"),
    ("raise GeneratorExit", "pass", "raised GeneratorExit"),
    ("raise type('Quit', (BaseException,), {})", "pass", "raised Quit"),
    ("raise StopIteration", "pass", "raised StopIteration"),
    ("raise MemoryError", "pass", "raised MemoryError"),
]


@pytest.mark.parametrize(("step", "more", "message"), OTHER_FAILURES)
def test_agent_that_fails_in_other_ways(
    step: str,
    more: str,
    message: str,
    run_to_failure: Callable[..., str],
    write_agent: Callable[..., Path],
    left: Left,
) -> None:
    found = run_to_failure(write_agent(step, more=more), *ONE_VISIT)
    assert message in found
    _, raised, kind = message.partition("raised ")
    kind = kind.partition(":")[0] if raised else "AgentError"
    assert left.status["error"]["type"] == kind


# --- Functions that fail during a run ---------------------------------------------

FUNCTIONS = """\
def init(observation_shape, num_actions):
    return 0

def step(state, previous_observation, observation, reward):
    state += 1
    if state <= 40:
        return state, 1
    {answer}
"""
MUST_RETURN = "step must return (state, action) or (state, action, metrics), found"
BAD_STEPS = [
    ("return state", f"{MUST_RETURN} int"),
    ("return None", f"{MUST_RETURN} NoneType"),
    ("return (state,)", f"{MUST_RETURN} 1 values"),
    ("return state, 1, {}, 0", f"{MUST_RETURN} 4 values"),
    ("return [state]", f"{MUST_RETURN} 1 values"),
    ("return state, 1, 0.5", "step's metrics must be a dict, found 0.5"),
    ("return state, 1, {'loss': True}", "found True"),
    ("return state, 1, {'loss': 'low'}", "found 'low'"),
    ("return state, 18", "expected an int in 0 … 17, found 18 (int)"),
    ("return state, -1", "found -1 (int)"),
    ("return state, 1.0", "found 1.0 (float)"),
    ("return state, True", "found True (bool)"),
    ("return state, None", "found None (NoneType)"),
    ("raise ValueError('boom')", "raised ValueError: boom (some_functions.py:8)"),
]


@pytest.mark.few(5)
@pytest.mark.parametrize(("answer", "message"), BAD_STEPS)
def test_step_that_fails(
    answer: str,
    message: str,
    invoke: Callable[..., Any],
    left: Left,
    tmp_path: Path,
) -> None:
    path = tmp_path / "some_functions.py"
    path.write_text(FUNCTIONS.format(answer=answer))
    options = ("--out", left.out, "--quiet", "--set", "base_visit_frames=30")
    failure = invoke("run", CONTROL_SUITE, "--agent", path, *options)
    assert failure.exit_code == 1
    found = " ".join(failure.stderr.split())
    assert message in found
    assert "at timestep 40 of breakout" in found
    assert left.status["state"] == "FAILED"
    assert left.status["error"]["frame"] == 40
    assert left.check_rows() == 40
    left.check_no_scraps()


def test_metrics_that_are_not_numbers_are_named(
    run_to_failure: Callable[..., str], write_agent: Callable[..., Path]
) -> None:
    agent = write_agent(more="def metrics(self): return {'loss': 'low'}")
    message = run_to_failure(agent, *ONE_VISIT)
    assert "metrics()['loss']: expected a number, found 'low'" in message


def test_numpy_metrics_are_accepted(
    invoke: Callable[..., Any], write_agent: Callable[..., Path], left: Left
) -> None:
    agent = write_agent(more="def metrics(self): return {'loss': np.float32(0.5)}")
    summary = play(invoke, agent, left.out).document("run_summary.json")
    assert [visit["metrics"] for visit in summary["visits"]] == [{"loss": 0.5}]
