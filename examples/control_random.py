"""The smallest agent: two functions and no class.

    longplay run control-v1 --agent examples/control_random.py --seed 1000

`init` is called once and `step` at every timestep. The state that `step` returns is
passed to the next call.
"""

import numpy as np


def init(observation_shape, num_actions, seed):
    return np.random.default_rng(seed), num_actions


def step(state, previous_observation, observation, reward):
    rng, num_actions = state
    return state, int(rng.integers(num_actions))
