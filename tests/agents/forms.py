"""One policy in every form that an agent of another benchmark may have.

The action depends on the picture and on the sum of all rewards so far. So two forms
agree only if both get the same pictures, and every reward once, before the decision.
"""

from __future__ import annotations

POLICY = """
import zlib


def choose(observation, total_reward, num_actions):
    return (zlib.crc32(observation.tobytes()) + int(total_reward)) % num_actions

"""

STEP = """
class Agent:
    def __init__(self, num_actions, seed):
        self.num_actions, self.total = num_actions, 0.0

    def step(self, obs_rgb, reward, terminated, truncated, info):
        self.total += reward
        return choose(obs_rgb, self.total, self.num_actions)
"""

KEYWORDS = """
class Agent:
    def __init__(self, *, action_space_n, seed=0):
        self.num_actions, self.total = action_space_n, 0.0

    def step(self, obs_rgb, reward, terminated, truncated, info):
        self.total += reward
        return choose(obs_rgb, self.total, self.num_actions)

    def get_stats(self):
        return {"total": self.total, "name": "not a number", "loss": float("nan")}
"""

FRAME = """
class Agent:
    def __init__(self, *, seed, num_actions):
        self.num_actions, self.total, self.ends = num_actions, 0.0, 0

    def frame(self, observation, reward, end_of_episode):
        self.total += reward
        self.ends += end_of_episode
        return choose(observation, self.total, self.num_actions)

    def get_stats(self):
        return {"total": self.total, "ends": self.ends}
"""

PAIR = """
class Agent:
    def __init__(self, num_actions):
        self.num_actions, self.total, self.ends = num_actions, 0.0, 0

    def get_action(self, observation):
        return choose(observation, self.total, self.num_actions)

    def learn(self, obs, action, reward, next_obs, done):
        assert action == choose(obs, self.total, self.num_actions)
        self.total += reward
        self.ends += done

    def get_stats(self):
        return {"total": self.total, "ends": self.ends}
"""

FUNCTIONS = """
def init(observation_shape, num_actions):
    return {"num_actions": num_actions, "total": 0.0}


def step(state, previous_observation, observation, reward):
    state["total"] += reward
    return state, choose(observation, state["total"], state["num_actions"])
"""

FORMS = {
    "step": STEP,
    "keywords": KEYWORDS,
    "frame": FRAME,
    "pair": PAIR,
    "functions": FUNCTIONS,
}
