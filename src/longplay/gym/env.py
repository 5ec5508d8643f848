"""A stream as a Gymnasium environment, driven by the user's loop.

One episode of the environment is one whole stream, seeded by `reset(seed=)` as
`longplay run --seed` is. A game over or a change of games does not end it: `terminated`
is always False, and `truncated` is True only on the stream's last step, so that
no loop resets the stream early. The stream's own flags are `info["terminated"]` and
`info["truncated"]`; nothing in `info` names the game.

A recorded stream that has ended stays at its end: loops that round up their steps, and
vector environments, which reset by themselves, end normally and record nothing more.
"""

from __future__ import annotations

import sys
import warnings
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
        agent: The agent in the recorded runs: its name, or
            `{"name": …, "args": {…}}` with its arguments, plain JSON values.
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
        agent: str | Mapping[str, Any] = "gymnasium-loop",
        render_mode: str | None = None,
    ) -> None:
        self._suite_id, self._overrides = suite, dict(overrides or {})
        self._experiment = None
        if record is not None:
            self._experiment = RecordedExperiment(Path(record), agent)
        # Whether the stream was recorded to its end: only a seed begins another one.
        self._stays_at_end = False
        self._has_warned = False
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
        """Starts a new stream, or continues a recorded one.

        Without a seed, the first one has tuning seed 1000; the seeds of others are
        drawn from `np_random`, and are never official ones. After a stream that was
        recorded to its end, nothing starts without a seed: loops that reset by
        themselves would record a second stream unasked.

        Args:
            seed: The run seed.
            options: `{"resume": frame}` continues the recorded run of this seed before
                that frame: the frames before it are replayed and checked, recorded
                frames from it on are discarded. See `sync`.

        Raises:
            ResumeError: The run cannot be continued there; nothing was changed.
        """
        if self._stays_at_end and seed is None and self._stream is not None:
            return self._perceive(self._stream)
        is_given = seed is not None
        if not is_given and self._np_random is None:
            seed = FIRST_TUNING_SEED
        super().reset(seed=seed)
        run_seed = seed
        if run_seed is None:
            drawn = self.np_random.integers(FIRST_TUNING_SEED, MAX_SEED + 1)
            run_seed = int(drawn)
        self._end_recording()
        self._plan = plan_run(self._suite_id, run_seed, self._overrides)
        if seed is not None:
            self._explain_seed(seed, is_given)
        self._stream = stream = make_stream(self._plan.config)
        self._stays_at_end = self._has_warned = False
        if options is not None and "resume" in options:
            self._resume(stream, options["resume"])
        return self._perceive(stream)

    def _resume(self, stream: Stream, frame: object) -> None:
        """Brings a new stream to a frame of its recorded run."""
        if self._experiment is None:
            raise ConfigError(
                "resume: only a recorded stream can be continued; make the environment "
                "with record=DIR"
            )
        if not isinstance(frame, int) or isinstance(frame, bool) or frame < 0:
            raise ConfigError(
                f"resume: expected the number of frames played, found {frame!r}"
            )
        self._recording = self._experiment.resume(self._plan, stream, frame)
        self._stays_at_end = stream.done

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
        if stream is None or (stream.done and not self._stays_at_end):
            raise ResetNeeded("no stream is active: call reset() first")
        if stream.done:
            return self._stay_at_end(stream)
        try:
            if self._experiment is not None and self._recording is None:
                self._recording = self._experiment.begin(self._plan, stream)
            event = stream.advance(action)
            if self._recording is not None:
                self._recording.write(event)
                self._stays_at_end = stream.done
        except AgentError:
            raise  # the loop may try another action
        except RunFailed as error:
            self._end_recording(error)
            raise
        observation, info = self._perceive(stream)
        info["terminated"], info["truncated"] = event.terminated, event.truncated
        return observation, event.reward, False, stream.done, info

    def _stay_at_end(
        self, stream: Stream
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """A step after the end of a recorded stream: nothing is played or recorded."""
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                "the recorded stream has ended: more steps play and record nothing, "
                "and return its last observation, reward 0 and truncated=True; "
                "reset(seed=...) begins another stream",
                stacklevel=3,
            )
        observation, info = self._perceive(stream)
        info["truncated"] = True
        return observation, 0.0, False, True, info

    def log(self, metrics: Mapping[str, float]) -> None:
        """Records numbers of the loop, such as its losses, in the run's metrics.jsonl.

        The means of every 1,000 decisions are recorded there, as for agents that report
        metrics; what is logged before the first step and after the last one is dropped.
        Without `record`, nothing happens, so that a loop is the same with and without.

        Raises:
            AgentError: A value is not a number, or a name is reserved.
        """
        if self._recording is not None:
            self._recording.log(metrics)

    def sync(self) -> int:
        """Waits until everything that was recorded is on the disk.

        Returns:
            The number of frames played. A loop that saves itself now, with this number,
            can continue later with `reset(seed=…, options={"resume": number})`.
        """
        if self._recording is not None:
            self._recording.sync()
        return 0 if self._stream is None else self._stream.global_frame_idx

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
