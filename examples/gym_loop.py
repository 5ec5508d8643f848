"""A research script with its own loop, on a recorded stream of longplay.

    python examples/gym_loop.py --env-id longplay/ControlSmoke-v1 --record runs/mine
    longplay show runs/mine

The agent tracks the mean reward of each action with a constant step size. It is not
told when the game changes, so it never stops learning.
"""

import argparse

import gymnasium
import numpy as np

import longplay.gym  # noqa: F401 - registers the environments


def parse_args(args=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env-id", default="longplay/ControlSmoke-v1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", default=None, help="the experiment directory")
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--step-size", type=float, default=0.02)
    return parser.parse_args(args)


def main(args=None):
    args = parse_args(args)
    env = gymnasium.make(args.env_id, record=args.record, agent="gym_loop")
    rng = np.random.default_rng(args.seed)
    values = np.zeros(env.action_space.n)
    total = 0.0

    env.reset(seed=args.seed)
    is_over = False
    while not is_over:
        action = int(values.argmax())
        if rng.random() < args.epsilon:
            action = int(rng.integers(len(values)))
        _observation, reward, terminated, truncated, _info = env.step(action)
        values[action] += args.step_size * (reward - values[action])
        total += reward
        is_over = terminated or truncated  # the end of the stream, not of a game
    env.close()
    return total


if __name__ == "__main__":
    print(f"collected {main():g}")
