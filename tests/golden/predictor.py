"""Predicts ten times the mean reward so far: the predictor of the golden run."""


def init(observation_shape):
    return 0.0, 0


def step(state, previous_observation, observation, reward):
    total, count = state[0] + reward, state[1] + 1
    return (total, count), 10 * total / count
