"""A stream as a Gymnasium environment, driven by the user's loop.

One episode of the environment is one whole stream, seeded by `reset(seed=)` as
`longplay run --seed` is. A game over or a change of games does not end it: `terminated`
is always False, and `truncated` is True only on the stream's last step, so that
no loop resets the stream early. The stream's own flags are `info["terminated"]` and
`info["truncated"]`; nothing in `info` names the game.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from longplay.console.base import ACTION_NAMES, OBSERVATION_SHAPE, Observation
from longplay.contract.config import GLOBAL_ACTION_SET
from longplay.errors import AgentError, ConfigError, RunFailed
from longplay.gym.recording import RecordedExperiment, Recording
from longplay.plan import RunPlan, plan_run
from longplay.seeds import MAX_SEED
from longplay.stream import Stream
from longplay.suites import FIRST_TUNING_SEED, describe_seeds
from longplay.tracks.catalogue import make_stream, track_of


class StreamEnv(gymnasium.Env[Observation, np.int64]):
    """One suite of the catalogue.

    Args:
        suite: Id of the suite.
        overrides: Settings of the suite to override.
        record: An experiment directory, new or of the same suite and agent. Every
            stream that is stepped is recorded there as a run: COMPLETED and scored at
            its end, CANCELLED if it is reset or closed before.
        agent: Name of the agent in the recorded runs.
        render_mode: None, or `rgb_array` for the last observation.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares it so
        "render_modes": ["rgb_array"],
        "render_fps": 60,
    }

    def __init__(
        self,
        suite: str,
        overrides: Mapping[str, Any] | None = None,
        record: str | Path | None = None,
        agent: str = "gymnasium-loop",
        render_mode: str | None = None,
    ) -> None:
        self._suite_id, self._overrides = suite, dict(overrides or {})
        self._experiment = None
        if record is not None:
            self._experiment = RecordedExperiment(Path(record), agent)
        # Whether the next stream needs a seed before it is recorded.
        self._needs_seed = False
        # What was said about seeds.
        self._notes: set[str] = set()
        self.render_mode = render_mode
        plan = plan_run(suite, 0, self._overrides)  # refuses invalid settings
        track = track_of(plan.config)
        if track.predicts:
            raise ConfigError(
                f"suite: {suite} takes predictions, and an environment takes actions; "
                "choose a suite of another track"
            )
        self._info_keys = track.env_info_keys
        fps = self.metadata["render_fps"] // (plan.config.frame_skip or 1)
        self.metadata = {**self.metadata, "render_fps": fps}
        self.observation_space = gymnasium.spaces.Box(
            0, 255, OBSERVATION_SHAPE, np.uint8
        )
        self.action_space = gymnasium.spaces.Discrete(len(GLOBAL_ACTION_SET))
        self._plan: RunPlan = plan
        self._stream: Stream | None = None
        self._recording: Recording | None = None
        self._observation: Observation | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts a new stream.

        Without a seed, the first one has tuning seed 1000; the seeds of others are
        drawn from `np_random`, and are never official ones.

        After a stream that was recorded to its end, a new one can only be played with
        a seed: loops that reset by themselves would record a second stream unasked.
        """
        is_given = seed is not None
        if not is_given and self._np_random is None:
            seed = FIRST_TUNING_SEED
        super().reset(seed=seed)
        if is_given:
            self._needs_seed = False
        run_seed = seed
        if run_seed is None:
            drawn = self.np_random.integers(FIRST_TUNING_SEED, MAX_SEED + 1)
            run_seed = int(drawn)
        self._end_recording()
        self._plan = plan_run(self._suite_id, run_seed, self._overrides)
        if seed is not None:
            self._explain_seed(seed, is_given)
        self._stream = make_stream(self._plan.config)
        return self._perceive(self._stream)

    def _explain_seed(self, seed: int, is_given: bool) -> None:
        """Says once what the seed means, if it is official or was not given."""
        suite_name = self._plan.suite_name
        note = describe_seeds(suite_name, [seed], are_given=is_given)
        if note is not None and note not in self._notes:
            self._notes.add(note)
            sys.stderr.write(f"longplay: {note}\n")

    def step(
        self, action: np.int64 | int
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Plays one frame of the stream, a timestep on the control track.

        Raises:
            AgentError: The action on a decision frame is not valid; nothing was played.
        """
        stream = self._stream
        if stream is None or stream.done:
            raise ResetNeeded("no stream is active: call reset() first")
        if self._needs_seed:
            raise ResetNeeded(
                "the recorded stream has ended: reset(seed=...) begins another one"
            )
        try:
            if self._experiment is not None and self._recording is None:
                self._recording = self._experiment.begin(self._plan, stream)
            event = stream.advance(action)
            if self._recording is not None:
                self._recording.write(event)
                self._needs_seed = stream.done
        except AgentError:
            raise  # the loop may try another action
        except RunFailed as error:
            self._end_recording(error)
            raise
        observation, info = self._perceive(stream)
        info["terminated"], info["truncated"] = event.terminated, event.truncated
        return observation, event.reward, False, stream.done, info

    def _perceive(self, stream: Stream) -> tuple[Observation, dict[str, Any]]:
        """The next observation; after the last frame, the final screen."""
        flags: dict[str, Any] = {"terminated": False, "truncated": False}
        if stream.done:
            self._observation = stream.console.observation()
            return self._observation, flags
        percept = stream.percept()
        assert percept.observation is not None  # pixels were requested
        self._observation = percept.observation
        allowed = {key: percept.info[key] for key in self._info_keys}
        return percept.observation, flags | allowed

    def _end_recording(self, error: RunFailed | None = None) -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.stop(error)

    def get_action_meanings(self) -> list[str]:
        """The names of the actions, as ale-py's environments give them."""
        return [ACTION_NAMES[action] for action in GLOBAL_ACTION_SET]

    def render(self) -> Any:
        """A copy of the last observation."""
        if self.render_mode is None or self._observation is None:
            return None
        return self._observation.copy()

    def close(self) -> None:
        """Stops an active recording: the run of an unfinished stream is CANCELLED."""
        self._end_recording()
        self._stream = None
