"""Loops of other packages train on a stream: recorded, valid, verified.

stable-baselines3 and OpenCV are installed by `make test-all` only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.wrappers import (
    FrameStackObservation,
    GrayscaleObservation,
    ResizeObservation,
)

import longplay
from longplay.gym import GameEpisodes

pytestmark = [
    pytest.mark.exhaustive,
    # Of the other packages, about themselves.
    pytest.mark.filterwarnings("default::UserWarning"),
    pytest.mark.filterwarnings("default::DeprecationWarning"),
    pytest.mark.filterwarnings("default::FutureWarning"),
]

TIMESTEPS = 20 * 100


def make_env(record: Path, agent: str) -> gymnasium.Env[Any, Any]:
    """The preprocessing of DQN, from Gymnasium's own wrappers."""
    env = gymnasium.make(
        "longplay/Control-v1",
        overrides={"base_visit_frames": 100},
        record=record,
        agent=agent,
    )
    env = GameEpisodes(env)
    env = ResizeObservation(GrayscaleObservation(env), (84, 84))
    return FrameStackObservation(env, 4)


def train(name: str, env: gymnasium.Env[Any, Any]) -> None:
    import stable_baselines3

    options: dict[str, Any] = {"seed": 0, "device": "cpu"}
    if name == "DQN":
        options |= {"buffer_size": 2_000, "learning_starts": 200, "train_freq": 20}
    else:
        options |= {"n_steps": 250, "batch_size": 50, "n_epochs": 1}
    model = getattr(stable_baselines3, name)("CnnPolicy", env, **options)
    model.learn(total_timesteps=TIMESTEPS)
    assert model.num_timesteps == TIMESTEPS


@pytest.mark.parametrize("name", ["DQN", "PPO"])
def test_stable_baselines3_trains_on_the_stream(name, tmp_path, invoke):
    out = tmp_path / "recorded"
    env = make_env(out, f"sb3-{name}")
    train(name, env)
    env.close()
    (run,) = longplay.read_experiment(out).runs.values()
    assert run.status.state == "COMPLETED"
    assert run.summary.frames == TIMESTEPS
    assert longplay.validate_run(run.path).is_valid
    assert longplay.verify_run(run.path).passed
    assert invoke("show", out).exit_code == 0
