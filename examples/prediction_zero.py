"""Always predicts zero: the least a predictor has to beat.

longplay run prediction-v1 --agent examples/prediction_zero.py --seed 0
"""


def init(observation_shape):
    return None


def step(state, previous_observation, observation, reward):
    return state, 0.0


def save(state, directory):
    pass


def load(directory):
    return None
