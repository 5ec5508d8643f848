"""Control runs on the command line: run, show, score, suites."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import longplay
from longplay.contract.documents import ControlScore

ROOT = Path(__file__).parent.parent.parent
METRICS_AGENT = """
def init(observation_shape, num_actions):
    return 0

def step(state, previous_observation, observation, reward):
    return state + 1, 1, {"calls": state, "mean_loss": 0.25}
"""


def flat(text: str) -> str:
    return " ".join(text.split())


def test_show_has_both_totals_per_game(
    control_run: Path, invoke: Callable[..., Any]
) -> None:
    answer = invoke("show", control_run)
    score = longplay.read_run(control_run).score
    assert isinstance(score, ControlScore)
    shown = flat(answer.stdout)
    for game in ("breakout", "asterix"):
        reward = score.per_game_cumulative_reward[game]
        game_score = score.per_game_cumulative_game_score[game]
        assert f"{game} {reward:g} – {game_score:g} –" in shown
    total = f"{score.cumulative_reward:g} – {score.cumulative_game_score:g}"
    assert f"total {total}" in shown
    assert "900 timesteps" in shown


def test_smoke_suite_is_shown_beside_the_random_agent(
    invoke: Callable[..., Any], tmp_path: Path
) -> None:
    out = tmp_path / "e"
    answer = invoke(
        "run", "control-smoke-v1", "--agent", "random", "--out", out, "--quiet"
    )
    assert answer.exit_code == 0
    shown = flat(answer.stdout)
    assert "random: the random agent, mean of 3 seeds" in shown
    score = longplay.read_run(out).score
    assert isinstance(score, ControlScore)
    machine = invoke("show", out, "--json").json
    assert machine["score"]["cumulative_reward"] == score.cumulative_reward
    random = machine["random"]
    assert set(random["totals"]) == {"pong", "breakout", "space_invaders"}
    # Seed 0 is one of the three.
    assert random["cumulative_reward"] == pytest.approx(score.cumulative_reward, abs=30)
    for totals in random["totals"].values():
        assert set(totals) == {"reward", "game_score"}


def test_part_of_a_run_has_no_total_beside_it(
    invoke: Callable[..., Any], tmp_path: Path
) -> None:
    """The random agent's total is one of all games."""
    out = tmp_path / "e"
    run = ("run", "control-smoke-v1", "--agent", "random", "--out", out, "--quiet")
    assert invoke(*run).exit_code == 0
    (events,) = out.rglob("events.jsonl")
    lines = events.read_text().splitlines(keepends=True)
    events.write_text("".join(lines[:600]))  # pong, and a part of breakout
    shown = flat(invoke("score", out, "--partial").stdout)
    pong = invoke("score", out, "--partial", "--json").json["cumulative_reward"]
    assert "PARTIAL: visits 1, 2" in shown
    assert f"total {pong:g} – {pong:g} –" in shown
    assert f"pong {pong:g} -" in shown  # a game's own total is one of that game


def test_metrics_of_step_are_kept_and_shown(
    invoke: Callable[..., Any], tmp_path: Path
) -> None:
    agent = tmp_path / "metric_agent.py"
    agent.write_text(METRICS_AGENT)
    out = tmp_path / "e"
    options = ("--out", out, "--quiet", "--set", "base_visit_frames=20")
    assert invoke("run", "control-smoke-v1", "--agent", agent, *options).exit_code == 0
    summary = longplay.read_run(out).summary
    assert summary is not None
    assert [visit.metrics for visit in summary.visits] == [
        {"calls": 9.5, "mean_loss": 0.25},
        {"calls": 29.5, "mean_loss": 0.25},
        {"calls": 49.5, "mean_loss": 0.25},
    ]
    shown = flat(invoke("show", out).stdout)
    assert "metrics of the agent mean_ visit game calls loss 0 pong 9.5 0.25" in shown


def test_experiment_is_aggregated_by_cumulative_reward(
    invoke: Callable[..., Any], tmp_path: Path
) -> None:
    out = tmp_path / "e"
    options = ("--seeds", "0-2", "--set", "base_visit_frames=60", "--quiet")
    answer = invoke(
        "run", "control-smoke-v1", "--agent", "random", "--out", out, *options
    )
    assert answer.exit_code == 0
    assert "cumulative reward:" in flat(answer.stdout)
    document = invoke("show", out, "--json").json
    rewards = [run["score"]["cumulative_reward"] for run in document["runs"]]
    assert document["aggregate"]["mean"] == pytest.approx(sum(rewards) / 3)


def test_score_is_explained(control_run: Path, invoke: Callable[..., Any]) -> None:
    score = invoke("score", control_run, "--explain", "asterix", "--json").json
    visits = [row for row in score["explanation"] if row["window"] == "whole visit"]
    totals = {
        "reward_sum": score["per_game_cumulative_reward"]["asterix"],
        "game_reward_sum": score["per_game_cumulative_game_score"]["asterix"],
    }
    assert {key: sum(row[key] for row in visits) for key in totals} == totals
    shown = flat(invoke("score", control_run, "--explain", "asterix").stdout)
    assert "how asterix is scored" in shown
    assert "reward, game score = sums over whole visits" in shown


def test_dry_run_plans_twenty_games(invoke: Callable[..., Any]) -> None:
    plan = invoke("run", "control-v1", "--dry-run", "--json").json
    assert [visit["visit_frames"] for visit in plan["schedule"]] == [10_000] * 20
    assert plan["frames"] == 200_000
    assert plan["benchmark_contract_version"] == "control-v1"
    shown = flat(invoke("run", "control-v1", "--dry-run").stdout)
    assert "every timestep of 4 emulator frames" in shown


def test_suites_lists_the_control_suites(invoke: Callable[..., Any]) -> None:
    rows = {row["suite"]: row for row in invoke("suites", "--json").json}
    assert rows["control-v1"]["frames"] == 200_000
    assert rows["control-v1"]["settings"]["frame_skip"] == 4


@pytest.mark.parametrize("agent", ["random", "repeat", "noop"])
def test_built_in_agents_run_and_validate(
    agent: str, invoke: Callable[..., Any], tmp_path: Path
) -> None:
    answer = invoke(
        "run",
        "control-smoke-v1",
        "--agent",
        agent,
        "--out",
        tmp_path / "e",
        "--set",
        "base_visit_frames=50",
        "--json",
        "--quiet",
    )
    assert answer.exit_code == 0
    assert answer.json["runs"][0]["validation"]["valid"] is True
    assert json.dumps(answer.json["runs"][0]["score"]["reward_rate"])


@pytest.mark.exhaustive
def test_whole_control_suite(invoke: Callable[..., Any], tmp_path: Path) -> None:
    out, agent = tmp_path / "e", ROOT / "examples" / "control_random.py"
    answer = invoke(
        "run", "control-v1", "--agent", agent, "--seed", 0, "--out", out, "--json"
    )
    assert answer.exit_code == 0
    assert answer.json["runs"][0]["validation"]["valid"] is True
    run = longplay.read_run(out)
    rows = run.events.numpy("game_id", "reward", "game_reward")
    score = answer.json["runs"][0]["score"]
    games = list(run.config.games)
    assert len(rows["reward"]) == 200_000
    assert [int((rows["game_id"] == game).sum()) for game in games] == [10_000] * 20
    for game in games:
        own = rows["game_id"] == game
        assert score["per_game_cumulative_reward"][game] == rows["reward"][own].sum()
        total = rows["game_reward"][own].sum()
        assert score["per_game_cumulative_game_score"][game] == total
    assert score["cumulative_reward"] == rows["reward"].sum()
    assert score["cumulative_game_score"] == rows["game_reward"].sum()
