"""The smallest agent: two functions, no class, no game to name.

    longplay run control-v1 --agent examples/control_random.py --seed 0

`init` is called once, `step` on every timestep. Whatever `step` returns as state comes
back to it the next time.
"""

import numpy as np


def init(observation_shape, num_actions, seed):
    return np.random.default_rng(seed), num_actions


def step(state, previous_observation, observation, reward):
    rng, num_actions = state
    return state, int(rng.integers(num_actions))
