"""Whole prediction runs on the real emulator, with untrained references."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import longplay
from longplay.agents.source.loading import load_agent
from longplay.contract.rundir import ROW_FILES
from longplay.eval_log.trajectory import Trajectory
from longplay.reference.streams import find_recorded_visit
from playing import play_run
from references.recording import write_streams
from rows import read_rows

SUITE = "prediction-smoke-v1"
SHORT = {"games": ["pong", "breakout"], "base_visit_frames": 120}
EXAMPLES = Path(__file__).parents[2] / "examples"
TD = str(EXAMPLES / "prediction_td_lambda.py")
ZERO = str(EXAMPLES / "prediction_zero.py")


STOPPING = """

import os
import signal
import time
from pathlib import Path

CALLS = []
step_quietly = step


def step(state, previous_observation, observation, reward, info):
    CALLS.append(None)
    if len(CALLS) == 170 and not Path("{flag}").exists():
        Path("{flag}").touch()
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)  # until the loop looks again, right after this timestep
    return step_quietly(state, previous_observation, observation, reward, info)
"""


@pytest.fixture
def run_dir(references: Path, tmp_path: Path) -> Path:
    return play_run(SUITE, TD, out=tmp_path / "e", overrides=SHORT).run_dir


@pytest.mark.parametrize("name", ["zero", "mean", "td_lambda"])
def test_baseline_runs_and_validates(
    references: Path, tmp_path: Path, name: str
) -> None:
    agent = str(EXAMPLES / f"prediction_{name}.py")
    result = play_run(SUITE, agent, out=tmp_path / "e", overrides=SHORT)
    assert result.report.is_valid
    rows = read_rows(result.run_dir / "events.jsonl")
    assert list(rows[0])[-3:] == ["emulator_frames", "prediction", "target"]
    errors = [(row["prediction"] - row["target"]) ** 2 for row in rows]
    assert result.score.mse == pytest.approx(np.mean(errors))
    record = result.run_dir / "episode_record.json"
    reward = json.loads(record.read_text())["reward"]
    assert reward == pytest.approx(1 - result.score.nmse)


def test_recorded_and_live_runs_have_the_same_bytes(
    references: Path, run_dir: Path, tmp_path: Path, tool: Callable
) -> None:
    for game in SHORT["games"]:
        options = ("--data", references, "--seeds", "0-1", "--timesteps", 130)
        assert tool("record", "--game", game, *options).exit_code == 0
    for game in SHORT["games"]:  # nothing but the recording can be played now
        (references / f"{game}.safetensors").unlink()
    again = play_run(SUITE, TD, out=tmp_path / "f", overrides=SHORT).run_dir
    for name in ROW_FILES:
        assert (again / name).read_bytes() == (run_dir / name).read_bytes()


def test_a_run_is_verified_packed_and_unpacked(
    run_dir: Path, tmp_path: Path, invoke: Callable
) -> None:
    assert invoke("verify", run_dir, "--workers", 2).exit_code == 0
    assert invoke("verify", run_dir, "--reexecute", "--agent", TD).exit_code == 0
    pack, copy = tmp_path / "run.longplay", tmp_path / "copy"
    assert invoke("pack", run_dir, "-o", pack).exit_code == 0
    assert invoke("unpack", pack, "-o", copy).exit_code == 0
    for name in ROW_FILES:
        assert (copy / name).read_bytes() == (run_dir / name).read_bytes()


def test_a_stopped_run_goes_on_to_the_same_bytes(
    references: Path, run_dir: Path, tmp_path: Path, invoke: Callable
) -> None:
    # Stops itself once in the second visit, whose console and guide are then rebuilt.
    flag, agent = tmp_path / "stopped", tmp_path / "prediction_td_lambda.py"
    source = Path(TD).read_text() + STOPPING.format(flag=str(flag))
    agent.write_text(source)
    out = tmp_path / "stopped-run"
    short = [f"--set={name}={json.dumps(value)}" for name, value in SHORT.items()]
    run = ("run", SUITE, "--agent", agent, "--seed", 0, "--out", out, *short)
    assert invoke(*run).exit_code == 130
    assert flag.exists()
    answer = invoke("resume", out, "--agent", agent)
    assert answer.exit_code == 0
    assert "checkpoint at timestep 170" in answer.stdout
    (resumed,) = (out / "episodes").iterdir()
    for name in ROW_FILES:
        assert (resumed / name).read_bytes() == (run_dir / name).read_bytes()


def change_row(run_dir: Path, line: int, name: str, value: float) -> None:
    path = run_dir / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    row = json.loads(lines[line])
    row[name] = value
    lines[line] = json.dumps(row, separators=(",", ":")) + "\n"
    path.write_text("".join(lines))


def test_a_forged_target_is_found_by_verify(run_dir: Path) -> None:
    change_row(run_dir, 17, "target", 0.5)
    difference = longplay.verify_run(run_dir).difference
    assert difference is not None
    assert (difference.field, difference.last_frame_idx) == ("target", 17)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("target", 0.1, "target"),  # no float32
        ("prediction", 7.5, "score"),
        ("prediction", 1e16, "unreadable line"),
    ],
)
def test_validation_holds_predictions_and_targets_against_the_rules(
    run_dir: Path, name: str, value: float, kind: str
) -> None:
    change_row(run_dir, 17, name, value)
    assert kind in longplay.validate_run(run_dir).findings.counts


@pytest.mark.exhaustive
def test_games_are_revisited_in_an_order_drawn_with_the_seed(
    references: Path, tmp_path: Path
) -> None:
    overrides = {"games": ["pong", "breakout"], "base_visit_frames": 60}
    result = play_run(
        *("prediction-6x3-v1", TD), seed=1001, out=tmp_path / "e", overrides=overrides
    )
    assert result.report.is_valid
    assert longplay.verify_run(result.run_dir).passed
    config = longplay.read_run(result.run_dir).config
    games = [visit.game_id for visit in config.schedule]
    assert config.config_effective["shuffle_games"] is True
    assert len(games) == 6
    assert games != ["pong", "breakout"] * 3
    rows = read_rows(result.run_dir / "events.jsonl")
    targets = {k: [r["target"] for r in rows if r["visit_idx"] == k] for k in range(6)}
    errors = {
        k: np.mean(
            [(r["prediction"] - r["target"]) ** 2 for r in rows if r["visit_idx"] == k]
        )
        for k in range(6)
    }
    pong = [k for k in range(6) if games[k] == "pong"]
    pooled = np.mean([errors[k] for k in pong])
    variance = np.var([target for k in pong for target in targets[k]])
    assert result.score.per_game_mse["pong"] == pytest.approx(pooled)
    assert result.score.per_game_nmse["pong"] == pytest.approx(pooled / variance)
    # In records, a visit's reward comes from that visit alone.
    rewards = [v.reward_info["reward"] for v in Trajectory(result.run_dir).visits()]
    spreads = {k: np.var(targets[k]) for k in range(6)}
    alone = [0.0 if v < 1e-6 else 1 - errors[k] / v for k, v in spreads.items()]
    assert rewards == pytest.approx(alone, rel=1e-6)
    assert len({rewards[k] for k in pong}) > 1


def test_a_prediction_out_of_range_is_a_difference(run_dir: Path) -> None:
    change_row(run_dir, 17, "prediction", 1e16)
    difference = longplay.verify_run(run_dir).difference
    assert difference is not None
    assert (difference.field, difference.last_frame_idx) == ("prediction", 17)


def test_other_references_are_another_suite(
    references: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Callable
) -> None:
    """Nobody calls another thing by a suite's name; looking at it needs nothing."""
    out = tmp_path / "e"
    overrides = {"base_visit_frames": 500}  # the suite's own
    result = play_run(SUITE, ZERO, out=out, overrides=overrides)
    name = longplay.read_run(result.run_dir).config.suite
    assert name is not None
    assert name.startswith(f"{SUITE}+")
    monkeypatch.setenv("LONGPLAY_REFERENCES", str(tmp_path / "nowhere"))
    shown = invoke("show", out)
    assert shown.exit_code == 0
    assert "baselines" not in shown.stdout
    for command in ("status", "validate", "score"):
        assert invoke(command, out).exit_code == 0
    config = result.run_dir / "config.json"
    config.write_text(config.read_text().replace(name, SUITE))
    assert "suite claim" in longplay.validate_run(result.run_dir).findings.counts


def test_errors_are_explained_by_their_sums(run_dir: Path, invoke: Callable) -> None:
    answer = invoke("score", run_dir, "--explain", "pong", "--json").json
    errors, spread, missed = answer["explanation"]
    rows = [
        row for row in read_rows(run_dir / "events.jsonl") if row["game_id"] == "pong"
    ]
    squares = [(row["prediction"] - row["target"]) ** 2 for row in rows]
    assert errors["timesteps"] == spread["timesteps"] == len(rows)
    assert errors["sum_of_squares"] == pytest.approx(sum(squares))
    assert errors["mean"] == answer["per_game_mse"]["pong"]
    assert errors["mean"] / spread["mean"] == answer["per_game_nmse"]["pong"]
    assert missed["timesteps"] == 0  # no game ends in so short a visit
    assert missed["mean"] is None
    shown = invoke("score", run_dir, "--explain", "pong").stdout
    assert "prediction - value" in shown
    assert "plasticity = late" not in shown


def test_dry_run_speaks_of_predictions(references: Path, invoke: Callable) -> None:
    shown = invoke("run", SUITE, "--agent", ZERO, "--dry-run").stdout
    assert "every prediction" in shown
    assert "forgetting" not in shown


@pytest.mark.parametrize("damaged", ["pong.json", "pong.safetensors"])
def test_damaged_references_do_not_blame_the_run(
    references: Path, run_dir: Path, invoke: Callable, damaged: str
) -> None:
    (references / damaged).write_bytes(b"?")
    answer = invoke("verify", run_dir)
    assert answer.exit_code == 2
    assert damaged in answer.stderr


@pytest.mark.exhaustive
def test_a_recording_of_another_emulator_does_not_blame_the_run(
    references: Path, run_dir: Path, invoke: Callable, tool: Callable
) -> None:
    options = ("--data", references, "--seeds", "0", "--timesteps", 130)
    assert tool("record", "--game", "pong", *options).exit_code == 0
    recorded = find_recorded_visit("pong", 0, 0)
    assert recorded is not None
    recorded.rewards[60] += 1
    write_streams(references, "pong", 0, {0: recorded})
    for reexecution in ((), ("--reexecute", "--agent", TD)):
        answer = invoke("verify", run_dir, *reexecution)
        assert answer.exit_code == 2
        assert "was recorded with another emulator version" in answer.stderr


def test_a_run_of_other_references_cannot_be_verified_here(
    references: Path, run_dir: Path, invoke: Callable
) -> None:
    facts = references / "pong.json"
    facts.write_text(
        facts.read_text().replace('"exploration": 0.', '"exploration": 0.5')
    )
    answer = invoke("verify", run_dir)
    assert answer.exit_code == 2
    assert "reference_sha256" in answer.stderr


def test_an_agent_that_acts_is_refused_before_anything_is_written(
    references: Path, tmp_path: Path, invoke: Callable
) -> None:
    out = tmp_path / "e"
    answer = invoke("run", SUITE, "--agent", "random", "--out", out)
    assert answer.exit_code == 2
    assert "the prediction track takes a module or file with init" in answer.stderr
    assert not list(out.glob("episodes/*/events.jsonl"))


def test_show_prints_the_errors_of_every_game(run_dir: Path, invoke: Callable) -> None:
    shown = invoke("show", run_dir).stdout
    assert all(word in shown for word in ("nmse", "return mse", "pong", "breakout"))


def test_td_lambda_that_was_loaded_predicts_as_the_one_that_saved(
    tmp_path: Path,
) -> None:
    agents = [load_agent(TD).build_predictor(0) for _ in range(2)]
    frames = np.random.default_rng(0).integers(0, 256, (40, 210, 160, 3), np.uint8)
    info = {"is_decision_frame": True}
    answers = [agents[0].step(f, 1.0, False, False, info) for f in frames[:20]]
    (tmp_path / "saved").mkdir()
    agents[0].save(tmp_path / "saved")
    agents[1].load(tmp_path / "saved")
    for frame in frames[20:]:
        first, second = (a.step(frame, 1.0, False, False, info) for a in agents)
        assert first == second
    assert len(set(answers)) > 10
