"""The streams as Gymnasium environments.

    import gymnasium
    import longplay.gym  # registers them

    env = gymnasium.make("longplay/Control-v1", record="runs/mine")
    observation, info = env.reset(seed=1000)

`GameEpisodes(env)` presents game overs as ends of episodes.
`gymnasium.make("longplay.gym:longplay/Control-v1")` works without the import. Importing
this module imports no emulator; making an environment does.
"""

from __future__ import annotations

from collections.abc import Mapping

import gymnasium

from longplay.gym.episodes import GameEpisodes

__all__ = ["ENV_SUITES", "GameEpisodes"]

ENV_SUITES: Mapping[str, str] = {
    "longplay/Control-v1": "control-v1",
    "longplay/Control3x3-v1": "control-3x3-v1",
    "longplay/Control6x3-v1": "control-6x3-v1",
    "longplay/ControlSmoke-v1": "control-smoke-v1",
    "longplay/Stream-v1": "stream-8x3-v1",
    "longplay/Stream3x2-v1": "stream-3x2-v1",
    "longplay/Stream8x3-1m-v1": "stream-8x3-1m-v1",
    "longplay/StreamSmoke-v1": "stream-smoke-v1",
}

for _env_id, _suite_id in ENV_SUITES.items():
    gymnasium.register(
        id=_env_id,
        entry_point="longplay.gym.env:StreamEnv",
        kwargs={"suite": _suite_id},
    )
