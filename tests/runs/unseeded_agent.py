"""A typical control agent: no seed, draws from the global generators."""

# ruff: noqa: NPY002 - the legacy generator is what this is about
import random

import numpy as np

OFFSET = random.randrange(18)


def init(observation_shape, num_actions):
    return {"num_actions": num_actions, "bias": float(np.random.randn())}


def step(state, previous_observation, observation, reward):
    drawn = random.gauss(0.0, 9.0) + np.random.standard_normal() + state["bias"]
    return state, int(OFFSET + drawn) % state["num_actions"]


def save(state, directory):
    random.random()  # the clock decides when to save: it must not affect later draws
    text = f"{state['num_actions']} {state['bias'].hex()}"
    (directory / "state.txt").write_text(text)


def load(directory):
    np.random.seed(1)
    num_actions, bias = (directory / "state.txt").read_text().split()
    return {"num_actions": int(num_actions), "bias": float.fromhex(bias)}
