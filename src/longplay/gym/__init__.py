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
from longplay.suites import list_suites

__all__ = ["ENV_SUITES", "GameEpisodes"]

ENV_SUITES: Mapping[str, str] = {
    suite.env_id: suite_id for suite_id, suite in list_suites().items() if suite.env_id
}

for _env_id, _suite_id in ENV_SUITES.items():
    gymnasium.register(
        id=_env_id,
        entry_point="longplay.gym.env:StreamEnv",
        kwargs={"suite": _suite_id},
    )
