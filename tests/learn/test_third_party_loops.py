"""Loops of other packages, and loops like theirs, train on streams and end normally.

Every run is complete, valid and verified, also where a loop takes more steps than the
stream has. stable-baselines3 and OpenCV are installed by `make test-all` only.
"""

from __future__ import annotations

import subprocess
import sys
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

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMESTEPS = 20 * 100


@pytest.fixture(autouse=True)
def no_old_gym(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder tests/gym would pass for Gym, whose version SB3 saves with a model."""
    monkeypatch.setitem(sys.modules, "gym", None)


def make_env(
    record: Path, agent: str, visit_frames: int = 100
) -> gymnasium.Env[Any, Any]:
    """The preprocessing of DQN, from Gymnasium's own wrappers."""
    env = gymnasium.make(
        "longplay/Control-v1",
        overrides={"base_visit_frames": visit_frames},
        record=record,
        agent=agent,
    )
    env = GameEpisodes(env)
    env = ResizeObservation(GrayscaleObservation(env), (84, 84))
    return FrameStackObservation(env, 4)


def make_model(name: str, env: Any, **options: Any) -> Any:
    import stable_baselines3

    options |= {"seed": 1000, "device": "cpu"}
    if name == "DQN":
        options |= {"buffer_size": 2_000, "learning_starts": 200, "train_freq": 20}
    else:  # its default n_steps is 2048: 48 more than the stream has
        options |= {"batch_size": 256, "n_epochs": 1}
    return getattr(stable_baselines3, name)("CnnPolicy", env, **options)


def check_runs(out: Path, seeds: list[int], frames: int) -> None:
    """Complete, valid and verified."""
    runs = longplay.read_experiment(out).runs
    assert sorted(runs) == seeds
    for run in runs.values():
        assert run.status is not None
        assert run.status.state == "COMPLETED"
        assert run.summary is not None
        assert run.summary.frames == frames
        assert longplay.validate_run(run.path).is_valid
        assert longplay.verify_run(run.path).passed


@pytest.mark.parametrize(("name", "steps"), [("DQN", TIMESTEPS), ("PPO", 2048)])
def test_stable_baselines3_trains_on_the_stream(name, steps, tmp_path, invoke):
    out = tmp_path / "recorded"
    env = make_env(out, f"sb3-{name}")
    model = make_model(name, env)
    model.learn(total_timesteps=TIMESTEPS)
    model.save(tmp_path / "model")
    env.close()
    assert model.num_timesteps == steps
    check_runs(out, [1000], TIMESTEPS)
    assert invoke("show", out).exit_code == 0


def test_stable_baselines3_trains_on_four_streams(tmp_path):
    """Its vector environments reset by themselves, and PPO rounds up to 4 x 768."""
    from stable_baselines3.common.vec_env import DummyVecEnv

    out = tmp_path / "recorded"
    envs = DummyVecEnv([lambda: make_env(out, "sb3-PPO", visit_frames=25)] * 4)
    model = make_model("PPO", envs, n_steps=256)
    model.learn(total_timesteps=4 * 520)
    envs.env_method("log", {"loss": 1.0})  # after the end: dropped
    envs.close()
    assert model.num_timesteps == 4 * 768
    check_runs(out, [1000, 1001, 1002, 1003], 500)


def test_stable_baselines3_continues_from_its_checkpoint(tmp_path):
    """As docs/agents.md describes: the run continues where the model was saved."""
    from stable_baselines3 import DQN
    from stable_baselines3.common.callbacks import CheckpointCallback

    out = tmp_path / "recorded"
    checkpoints = CheckpointCallback(500, str(tmp_path), save_replay_buffer=True)
    env = make_env(out, "sb3-DQN")
    make_model("DQN", env).learn(1_200, callback=checkpoints)
    env.close()

    env = make_env(out, "sb3-DQN")
    model = DQN.load(tmp_path / "rl_model_1000_steps", env=env)
    model.load_replay_buffer(tmp_path / "rl_model_replay_buffer_1000_steps")
    model.env.seed(1000)
    model.env.set_options({"resume": model.num_timesteps})
    model.learn(TIMESTEPS - model.num_timesteps, reset_num_timesteps=False)
    env.close()
    assert model.num_timesteps == TIMESTEPS
    check_runs(out, [1000], TIMESTEPS)
    (run,) = longplay.read_experiment(out).runs.values()
    assert run.summary.tries == 2


def run_example(name: str, *arguments: object) -> None:
    command = [sys.executable, EXAMPLES / name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("num_envs", "steps", "seeds"), [(1, 1500, [1000]), (2, 3000, [1000, 1001])]
)
def test_a_loop_of_whole_rollouts_ends_normally(num_envs, steps, seeds, tmp_path):
    """12 rollouts of 128 steps: 36 more than the stream has."""
    out, network = tmp_path / "recorded", tmp_path / "ppo.pt"
    run_example(
        "gym_ppo_torch.py",
        *("--record", out, "--save", network, "--total-timesteps", steps),
        *("--num-envs", num_envs),
    )
    assert network.stat().st_size > 0
    check_runs(out, seeds, 1500)
    run = longplay.read_run(out / "episodes" / "control-smoke-v1_seed-1000")
    assert (run.path / "metrics.jsonl").read_text().count("value_loss") == 3


def test_a_vector_loop_ends_normally(tmp_path):
    out = tmp_path / "recorded"
    run_example("gym_vector_loop.py", "--record", out, "--seed", 2000)
    check_runs(out, [2000, 2001, 2002, 2003], 1500)
