"""Games as episodes, for loops that expect `terminated` at a game over.

The stream itself never ends early. This wrapper ends an episode at every game over and
change of games; `reset()` then continues the same stream with the next one.
"""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium


class GameEpisodes(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Presents a game over as `terminated`, a change of games as `truncated`.

    The observation of an episode's last step is the one before it, because the stream
    continues at once; `reset()` returns the first observation of the next episode.
    `reset()` in the middle of an episode changes nothing. A seed starts a new stream,
    as does the first `reset()` after the stream's end.

    Args:
        env: An environment of longplay, before any other wrapper that changes
            observations.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._observation: Any = None
        self._info: dict[str, Any] = {}
        self._is_active = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins the next episode of the stream; with a seed, a new stream."""
        if seed is not None or not self._is_active:
            self._observation, self._info = self.env.reset(seed=seed, options=options)
            self._is_active = True
        return self._observation, self._info

    def step(
        self, action: Any
    ) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Plays one step; both flags are those of the stream."""
        before = self._observation
        observation, reward, _, is_over, info = self.env.step(action)
        terminated, truncated = info["terminated"], info["truncated"] or is_over
        self._observation, self._info = observation, info
        self._is_active = not is_over
        is_last = terminated or truncated
        return before if is_last else observation, reward, terminated, truncated, info
