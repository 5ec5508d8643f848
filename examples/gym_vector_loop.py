"""Four seeds at once: a vector environment, and every stream a recorded run.

    python examples/gym_vector_loop.py --record runs/vector
    longplay show runs/vector

Each seed has an agent of its own, the one of `gym_loop.py`, so that the runs are
independent. Streams can have different lengths: one that has ended stays at its end,
and records nothing more, until the others have ended too.
"""

import argparse

import gymnasium
import numpy as np

import longplay.gym  # noqa: F401 - registers the environments


def parse_args(args=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env-id", default="longplay/ControlSmoke-v1")
    parser.add_argument("--seed", type=int, default=1000, help="the first of the seeds")
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--record", default=None, help="the experiment directory")
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--step-size", type=float, default=0.02)
    return parser.parse_args(args)


def main(args=None):
    args = parse_args(args)
    settings = {"epsilon": args.epsilon, "step_size": args.step_size}
    envs = gymnasium.make_vec(
        args.env_id,
        num_envs=args.num_envs,
        record=args.record,
        agent={"name": "gym_vector_loop", "args": settings},
    )
    every = np.arange(args.num_envs)
    rngs = [np.random.default_rng(args.seed + n) for n in every]
    values = np.zeros((args.num_envs, envs.single_action_space.n))
    totals = np.zeros(args.num_envs)

    envs.reset(seed=args.seed)  # seeds 1000, 1001, 1002, 1003
    has_ended = np.zeros(args.num_envs, bool)
    while not has_ended.all():
        actions = values.argmax(axis=1)
        for n, rng in enumerate(rngs):
            if rng.random() < args.epsilon:
                actions[n] = rng.integers(values.shape[1])
        _observations, rewards, _terminated, truncated, _infos = envs.step(actions)
        errors = rewards - values[every, actions]
        values[every, actions] += args.step_size * errors
        envs.call("log", {"mean_squared_error": float(np.mean(errors**2))})
        totals += rewards
        has_ended |= truncated  # the end of a stream, not of a game
    envs.close()
    return totals


if __name__ == "__main__":
    print("collected", *(f"{total:g}" for total in main()))
