"""Visits x console x driver -> one frame at a time: decisions, delays, boundaries.

    stream = Stream(schedule, emulator_seeds, console, mechanics, driver)
    while not stream.done:
        percept = stream.percept()         # everything an agent may know
        event = stream.advance(answer)     # control rules, one console step, boundaries
        if event.terminated or event.truncated:
            stream.ended_episode, stream.ended_segment

This module has no I/O and no agent; the driver interprets answers. The whole state is
one plain record: `snapshot()` returns it, and `Stream.restore` takes it together with
the actions applied in the current visit, which rebuild the console exactly.

The rules, per frame:
  - an answer is read only on a decision frame: the first after a reset and every
    `decision_interval`-th from there; in between the decision is held;
  - the action applied `t` frames after a reset is the one decided at `t - delay`, and
    the default action before that;
  - the delivered reward is the game's own, or its sign, depending on the mechanics;
  - only a visit's last frame is `truncated`; `terminated` means that the game episode
    ended. The console is reset at game over and at the visit's end, and the control
    rules restart only there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import isfinite
from typing import Any
from zlib import crc32

import msgspec

from longplay.console.base import Console, Observation
from longplay.contract.config import (
    GLOBAL_ACTION_SET,
    PendingPercept,
    RewardRule,
    RunConfig,
    ScheduledVisit,
)
from longplay.contract.rows import EpisodeRow, EventRow, SegmentRow, TimestepRow
from longplay.driver import ActionDriver, Driver
from longplay.errors import AgentError, ConfigError, ConsoleError

_NUM_ACTIONS = len(GLOBAL_ACTION_SET)

# Keys of a percept's `info`. A track lists those that its agents get.
INFO_KEYS = (
    "lives",
    "action_space_n",
    "is_decision_frame",
    "global_frame_idx",
    "default_action_idx",
    "prev_applied_action_idx",
    "has_prev_applied_action",
)


@dataclass(frozen=True)
class Mechanics:
    """The control rules of a run."""

    decision_interval: int = 1
    delay: int = 0
    life_loss_termination: bool = False
    default_action_idx: int = 0
    reward: RewardRule = "raw"


class Percept(msgspec.Struct, gc=False):
    """Everything an agent may know on one frame.

    The observation is None where pixels were not requested.
    """

    observation: Observation | None
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


@dataclass(slots=True)
class StreamState:
    """The whole state of a stream between two frames, except for the console."""

    global_frame_idx: int = 0
    visit_idx: int = 0
    visit_frame_idx: int = 0
    episode_id: int = 0
    segment_id: int = 0
    episode_start: int = 0
    segment_start: int = 0
    episode_return: float = 0.0
    segment_return: float = 0.0
    # Control: phase of the decision interval, current decision, delayed decisions (in
    # a snapshot; the stream itself keeps them in a deque).
    phase: int = 0
    decided: int = 0
    queue: list[int] = field(default_factory=list)
    prev_applied: int = 0
    has_prev_applied: bool = False
    # From the last frame, for the next percept.
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    lives: int = 0
    # Over the memory after every console step of the visit: for verification.
    ram_crc32: int = 0


def map_actions(game_actions: Sequence[int], default_action_idx: int) -> list[int]:
    """Global action index -> the game's action for it.

    A game without the action gets the default one; without that, its first.
    """
    known = set(game_actions)
    fallback = default_action_idx if default_action_idx in known else game_actions[0]
    return [action if action in known else fallback for action in GLOBAL_ACTION_SET]


class Stream:
    """One agent lifetime on one console, a frame at a time."""

    def __init__(
        self,
        schedule: Sequence[ScheduledVisit],
        emulator_seeds: Sequence[int],
        console: Console,
        mechanics: Mechanics,
        driver: Driver | None = None,
        pending: PendingPercept | None = None,
    ) -> None:
        self.schedule = tuple(schedule)
        self._emulator_seeds = tuple(emulator_seeds)
        self.mechanics = mechanics
        self._driver = driver or ActionDriver()
        self._decide, self._row_type = self._driver.decide, self._driver.row_type
        self._has_more_columns = self._row_type is not EventRow
        self._is_timestep = issubclass(self._row_type, TimestepRow)
        self.use_console(console)
        self._interval, self._delay = mechanics.decision_interval, mechanics.delay
        self._default = mechanics.default_action_idx
        self._state = StreamState()
        self._queue: deque[int] = deque()
        self._visit = self.schedule[0]
        self._visit_is_due = True
        # Of a probe: what precedes every visit, and the run's frame minus the probe's.
        self._pending = pending
        self._frame_offset = 0
        # The episode and segment that the last frame ended, if any.
        self.ended_episode: EpisodeRow | None = None
        self.ended_segment: SegmentRow | None = None

    @classmethod
    def from_config(
        cls, config: RunConfig, console: Console, driver: Driver | None = None
    ) -> Stream:
        """The stream of a run.

        Args:
            config: Config of the run.
            console: The console, made with the same config.
            driver: Interprets answers; by default an answer is the action.
        """
        mechanics = Mechanics(
            decision_interval=config.decision_interval,
            delay=config.delay,
            life_loss_termination=config.life_loss_termination,
            default_action_idx=config.default_action_idx,
            reward=config.reward or "raw",
        )
        if driver is None:
            driver = ActionDriver(config.contract.row_type)
        seeds = config.emulator_seeds or ()
        pending = None if config.probe is None else config.probe.pending
        return cls(config.played_schedule, seeds, console, mechanics, driver, pending)

    def use_console(self, console: Console) -> None:
        """Replaces the console by one that shows the same machine."""
        self.console = console
        # Looked up once, because they are used on every frame.
        self._observe, self._step_console = console.observation, console.step
        self._ram = console.ram

    @property
    def done(self) -> bool:
        """Whether the last visit has ended."""
        return self._state.visit_idx == len(self.schedule)

    @property
    def global_frame_idx(self) -> int:
        """The next frame."""
        return self._state.global_frame_idx

    @property
    def episode_return(self) -> float:
        """Return of the current game episode, so far."""
        return self._state.episode_return

    @property
    def ram_crc32(self) -> int:
        """CRC-32 over the memory after every console step of the last frame's visit."""
        return self._state.ram_crc32

    @property
    def visit(self) -> ScheduledVisit:
        """The visit of the last frame: for records and errors, never for an agent."""
        return self._visit

    def begin_visit(self) -> None:
        """Starts the next visit, if the last one has ended.

        The first percept or frame of a visit does this too; call it to start the
        machine earlier.
        """
        if self._visit_is_due:
            self._start_visit()
            self._start_control()
            if self._pending is not None:
                self._set_back(self._pending)

    def _set_back(self, pending: PendingPercept) -> None:
        """Makes the next percept the one that the probed run would have delivered."""
        state = self._state
        state.reward = pending.reward
        state.terminated, state.truncated = pending.terminated, pending.truncated
        self._frame_offset = pending.global_frame_idx - state.global_frame_idx

    def _start_visit(self) -> None:
        visit_idx = self._state.visit_idx
        self._visit = visit = self.schedule[visit_idx]
        self._place = visit.game_id, visit.visit_idx, visit.cycle_idx
        self._last_frame_idx = visit.visit_frames - 1
        try:
            self.console.start_visit(visit.game_id, self._emulator_seeds[visit_idx])
        except ConfigError as error:  # the ROM changed since the run started
            raise ConsoleError(str(error)) from error
        self._console_actions = map_actions(self.console.actions, self._default)
        self._driver.start_visit(visit, self.console)
        self._state.ram_crc32 = 0
        self._visit_is_due = False

    def _start_control(self) -> None:
        state = self._state
        state.phase = 0
        state.decided = state.prev_applied = self._default
        # Decisions due after the visit's end need no place in the queue.
        length = min(self._delay, self._visit.visit_frames)
        self._queue = deque([self._default] * length)
        state.has_prev_applied = False
        state.lives = self.console.lives()

    def percept(self, looks_between_decisions: bool = True) -> Percept:
        """Everything the agent gets on this frame.

        Args:
            looks_between_decisions: Whether to fetch the pixels of frames that are not
                decision frames, which takes a good part of an emulator frame's time.
        """
        if self._visit_is_due:
            self.begin_visit()
        state = self._state
        is_decision_frame = state.phase == 0
        is_shown = is_decision_frame or looks_between_decisions
        return Percept(
            self._observe() if is_shown else None,
            state.reward,
            state.terminated,
            state.truncated,
            {
                "lives": state.lives,
                "action_space_n": _NUM_ACTIONS,
                "is_decision_frame": is_decision_frame,
                "global_frame_idx": state.global_frame_idx + self._frame_offset,
                "default_action_idx": self._default,
                "prev_applied_action_idx": state.prev_applied,
                "has_prev_applied_action": state.has_prev_applied,
            },
        )

    @property
    def known_actions(self) -> list[int]:
        """The console's actions on the frames up to the next decision, as far as known.

        On a decision frame, before its answer: with a delay, the next actions were
        decided earlier. A driver that reads the console must be asked first.
        """
        if not isinstance(self._driver, ActionDriver):
            return []
        left = self._visit.visit_frames - self._state.visit_frame_idx
        known = islice(self._queue, min(self._interval, left))
        return [self._console_actions[action] for action in known]

    def advance(self, answer: object) -> EventRow:
        """Plays one frame with the agent's answer.

        Raises:
            AgentError: The answer to a decision frame is not valid.
        """
        if self._visit_is_due:
            self.begin_visit()
        state = self._state
        phase = state.phase
        if phase == 0:
            try:
                state.decided = self._decide(answer, not state.has_prev_applied)
            except AgentError as error:
                raise self._locate_error(error) from error.__cause__
        state.phase = (phase + 1) % self._interval
        applied = decided = state.decided
        if self._delay:
            self._queue.append(decided)
            applied = self._queue.popleft()

        step = self._step_console(self._console_actions[applied])
        reward, game_over, lives = step
        state.ram_crc32 = crc32(self._ram(), state.ram_crc32)
        game_reward = reward
        if reward:
            reward = self._deliver(reward)
            state.episode_return += reward
            state.segment_return += reward
        terminated = game_over or (
            lives < state.lives and self.mechanics.life_loss_termination
        )
        frame_idx, visit_frame_idx = state.global_frame_idx, state.visit_frame_idx
        truncated = visit_frame_idx == self._last_frame_idx
        game_id, visit_idx, cycle_idx = self._place
        columns: tuple[Any, ...] = (
            frame_idx,
            game_id,
            visit_idx,
            cycle_idx,
            visit_frame_idx,
            state.episode_id,
            state.segment_id,
            phase == 0,
            decided,
            applied,
            reward,
            terminated,
            truncated,
            lives,
        )
        if self._has_more_columns:
            columns += self._add_columns(reward, game_reward)
        event = self._row_type(*columns)
        state.reward = reward
        state.terminated = terminated
        state.truncated = truncated
        state.lives = lives
        state.prev_applied = applied
        state.has_prev_applied = True
        state.global_frame_idx = frame_idx + 1
        state.visit_frame_idx = visit_frame_idx + 1
        if terminated or truncated:
            self._cross_boundary(event, game_over)
        return event

    def _add_columns(self, reward: float, game_reward: float) -> tuple[Any, ...]:
        """The columns that rows of v1 do not have."""
        added = self._driver.finish_frame(reward)
        if self._is_timestep:
            return game_reward, self.console.emulator_frames, *added
        return added

    def _deliver(self, game_reward: float) -> float:
        """The delivered reward for a nonzero reward of the game."""
        if not isfinite(game_reward):
            raise ConsoleError(
                f"the console's reward is {game_reward} {self.describe_place()}; "
                "expected a finite number"
            )
        if self.mechanics.reward == "sign":
            return 1.0 if game_reward > 0 else -1.0
        return game_reward

    def _locate_error(self, error: AgentError) -> AgentError:
        return AgentError(f"{error} {self.describe_place()}")

    def describe_place(self, frame: int | None = None) -> str:
        """Where the stream is, in the word of its track: `at timestep 7 of pong`."""
        place = self.global_frame_idx if frame is None else frame
        return f"at {self.frame_noun} {place} of {self._visit.game_id}"

    @property
    def frame_noun(self) -> str:
        """What the track calls a frame."""
        return "timestep" if self._is_timestep else "frame"

    def _cross_boundary(self, event: EventRow, game_over: bool) -> None:
        """Closes the episode, and at a reset the segment; starts the next one."""
        self.ended_episode = self._close_episode(event)
        self.ended_segment = None
        if not game_over and not event.truncated:
            return  # a lost life: the game continues
        self.ended_segment = self._close_segment(event)
        if event.truncated:
            self._state.visit_idx += 1
            self._state.visit_frame_idx = 0
            self._visit_is_due = True
        else:
            self.console.reset()
            self._start_control()

    def _close_episode(self, event: EventRow) -> EpisodeRow:
        state, end = self._state, event.global_frame_idx
        row = EpisodeRow(
            event.game_id,
            event.episode_id,
            state.episode_start,
            end,
            end - state.episode_start + 1,
            state.episode_return,
            "terminated" if event.terminated else "truncated",
        )
        state.episode_id += 1
        state.episode_start = end + 1
        state.episode_return = 0.0
        return row

    def _close_segment(self, event: EventRow) -> SegmentRow:
        state, end = self._state, event.global_frame_idx
        row = SegmentRow(
            event.game_id,
            event.segment_id,
            state.segment_start,
            end,
            end - state.segment_start + 1,
            state.segment_return,
            "truncated" if event.truncated else "terminated",
        )
        state.segment_id += 1
        state.segment_start = end + 1
        state.segment_return = 0.0
        return row

    def snapshot(self) -> StreamState:
        """The whole state between two frames, as one plain record."""
        return replace(self._state, queue=list(self._queue))

    def restore(self, state: StreamState, applied: Iterable[int]) -> None:
        """Restores a snapshot that was taken before the end of the stream.

        Args:
            state: The snapshot.
            applied: Global indices of the actions applied in the snapshot's visit,
                from its first frame on. They are replayed, because an emulator state
                saved by ALE lacks the previous action that sticky actions repeat.

        Raises:
            ConsoleError: The replayed console differs from the recorded one.
        """
        self._state = replace(state)
        self._queue = deque(state.queue)
        self._visit_is_due = state.visit_frame_idx == 0
        if self._visit_is_due:
            self._visit = self.schedule[max(state.visit_idx - 1, 0)]
            return
        self._start_visit()
        memory, is_first = 0, True
        for action in applied:
            self._driver.skip(is_first)
            _, is_first, _ = self.console.step(self._console_actions[action])
            memory = crc32(self._ram(), memory)
            if is_first:
                self.console.reset()
        if memory != state.ram_crc32:
            raise ConsoleError(
                f"visit {state.visit_idx} of {self._visit.game_id} did not reproduce "
                f"up to frame {state.global_frame_idx}: expected memory with CRC-32 "
                f"{state.ram_crc32:08x}, found {memory:08x}"
            )
        self._state.ram_crc32 = memory
