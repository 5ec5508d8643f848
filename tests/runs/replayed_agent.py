"""An agent without `save` and `load`: its run is resumed by replay."""

from zlib import crc32


class Agent:
    """Its answers depend on everything it has seen, so that any error shows."""

    def __init__(self, num_actions, seed):
        self.num_actions, self.memory = num_actions, seed

    def step(self, obs_rgb, reward, terminated, truncated, info):
        flags = bytes((terminated, truncated, info["lives"]))
        seen = crc32(obs_rgb[::8, ::8].tobytes(), self.memory)
        self.memory = crc32(flags + str(reward).encode(), seen)
        return self.memory % self.num_actions

    def metrics(self):
        return {"memory": float(self.memory)}
