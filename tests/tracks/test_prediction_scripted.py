"""Whole prediction runs on the scripted console: what is scored, row by row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longplay.console.ale import AleConsole
from longplay.console.scripted import ScriptedConsole
from longplay.contract.documents import PredictionScore
from playing import play_run
from rows import read_rows

SUITE = "prediction-smoke-v1"
TIMESTEPS = 60
Play = Callable[[str], tuple[list[dict[str, Any]], PredictionScore]]

CONSTANT = """
def init(observation_shape):
    return None


def step(state, previous_observation, observation, reward):
    return state, 1.5
"""
KNOWING = """
VALUES = {values}


def init(observation_shape):
    return 0


def step(state, previous_observation, observation, reward):
    return state + 1, VALUES[state]
"""


@pytest.fixture
def play(references: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Plays three visits, games over in each, with the source of a predictor."""

    def make_console(config: object) -> ScriptedConsole:
        return ScriptedConsole(life_frames=9, frame_skip=4)

    monkeypatch.setattr(AleConsole, "from_config", make_console)

    def play(source: str) -> tuple[list[dict[str, Any]], PredictionScore]:
        agent = tmp_path / "predictor.py"
        agent.write_text(source)
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        overrides = {"base_visit_frames": TIMESTEPS}
        result = play_run(SUITE, str(agent), out=out, overrides=overrides)
        assert result.report.is_valid
        assert isinstance(result.score, PredictionScore)
        return read_rows(result.run_dir / "events.jsonl"), result.score

    return play


def test_predicting_the_reference_values_gives_no_error(play: Play) -> None:
    rows, _ = play(CONSTANT)
    targets = [row["target"] for row in rows]
    _, score = play(KNOWING.format(values=targets))
    assert score.mse == 0
    assert set(score.per_game_mse.values()) == {0}
    assert score.nmse == 0


def test_returns_are_masked_where_they_are_cut(play: Play) -> None:
    """Added up from each row on, as slowly as can be."""
    rows, score = play(CONSTANT)
    masked = 0
    for visit, game in enumerate(score.per_game_return_mse):
        own = [row for row in rows if row["visit_idx"] == visit]
        errors = []
        for start in range(len(own)):
            total, weight, is_over = 0.0, 1.0, False
            for row in own[start:]:
                total += weight * row["reward"]
                weight *= 0.99
                is_over = row["terminated"]
                if is_over:
                    break
            if is_over:
                errors.append((1.5 - total) ** 2)
        masked += len(own) - len(errors)
        expected = pytest.approx(sum(errors) / len(errors))
        assert score.per_game_return_mse[game] == expected
    assert 0 < masked < 3 * TIMESTEPS
    assert sum(row["reward"] != 0 for row in rows) > 10


def test_a_constant_has_one_plus_the_distance_to_the_mean(play: Play) -> None:
    rows, score = play(CONSTANT)
    for visit, game in enumerate(score.per_game_nmse):
        targets = [row["target"] for row in rows if row["visit_idx"] == visit]
        mean = sum(targets) / TIMESTEPS
        variance = sum((target - mean) ** 2 for target in targets) / TIMESTEPS
        found = score.per_game_nmse[game]
        assert found == pytest.approx(1 + (1.5 - mean) ** 2 / variance)
        assert found is not None
        assert found >= 1
