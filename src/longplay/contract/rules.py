"""The contract's rules for every frame -> findings.

`RULES` is the table of them. `EventRules` takes the columns of events.jsonl chunk by
chunk, in order, and checks each row against the schedule, the previous row and the
control rules. It also derives the expected content of episodes.jsonl, segments.jsonl,
curves.jsonl and run_summary.json. Rules compare frame numbers, not row positions, so
that one lost row is one finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from longplay.contract.columns import Chunk, Column, RowReader
from longplay.contract.config import RunConfig, visit_spans
from longplay.contract.curves import WindowSums
from longplay.contract.findings import Finding, FindingLog, Kind, Mask, RowPlace
from longplay.contract.rows import CurveRow, PredictionRow, TimestepRow
from longplay.contract.spans import SpanTable
from longplay.errors import DocumentError

VISIT_SUMS = (
    "frames",
    "decision_frames",
    "emulator_frames",
    "reward_sum",
    "game_reward_sum",
    "episodes",
)


class SparseColumn:
    """The values of a column that are not zero, and their frames."""

    def __init__(self) -> None:
        self._frames: list[Column] = [np.zeros(0, np.int64)]
        self._values: list[Column] = [np.zeros(0, np.float64)]

    def add(self, frames: Column, values: Column) -> None:
        """Adds the rows of a chunk."""
        is_nonzero = values != 0
        self._frames.append(frames[is_nonzero])
        self._values.append(values[is_nonzero])

    def by_frame(self) -> tuple[Column, Column]:
        """Frames, ascending, and their values."""
        frames = np.concatenate(self._frames)
        order = np.argsort(frames, kind="stable")
        return frames[order], np.concatenate(self._values)[order]


class ForecastColumns:
    """Predictions and targets of all rows."""

    def __init__(self) -> None:
        self._frames: list[Column] = [np.zeros(0, np.int64)]
        self._values: list[Column] = [np.zeros((2, 0))]

    def add(self, columns: dict[str, Column]) -> None:
        """Adds the rows of a chunk."""
        self._frames.append(columns["global_frame_idx"])
        self._values.append(np.stack((columns["prediction"], columns["target"])))

    def by_frame(self) -> tuple[Column, Column]:
        """Predictions and targets, both in the order of their frames."""
        order = np.argsort(np.concatenate(self._frames), kind="stable")
        predictions, targets = np.concatenate(self._values, axis=1)[:, order]
        return predictions, targets


@dataclass(frozen=True)
class _Rows:
    """The rows of a chunk, and what the schedule and the rows before say of them.

    Attributes:
        columns: The rows.
        previous: The same columns, shifted by one row.
        expected: Column -> what it must be.
        limits: Numbers that the words of rules name.
        visit: The visit of each frame number.
        is_last: Whether the frame number is the last of its visit.
        ended_before: Whether a game episode ended with the row before.
        lost_life: Whether a life was lost within a segment; life-loss termination.
        starts: Whether a segment starts, except for the first of the run.
        since_reset: Frames since the segment's start.
        is_due: Whether the log determines the action to apply.
    """

    columns: dict[str, Column]
    previous: dict[str, Column]
    expected: dict[str, Column]
    limits: dict[str, int]
    visit: Column
    is_last: Mask
    ended_before: Mask
    lost_life: Mask
    starts: Mask
    since_reset: Column
    is_due: Mask

    def differs(self, name: str) -> Mask:
        """The rows whose column is not as expected."""
        bad: Mask = self.columns[name] != self.expected[name]
        return bad

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]


@dataclass(frozen=True)
class Rule:
    """One rule for every frame.

    Attributes:
        kind: The kind of its findings.
        column: The column that is wrong where it is broken.
        is_broken: The rows that break it; by default those that are not as expected.
        words: What is expected, if it is not one value; may name limits.
    """

    kind: Kind
    column: str
    is_broken: Callable[[_Rows], Mask] | None = None
    words: str | None = None


def _breaks_segment(rows: _Rows) -> Mask:
    """A segment starts where it must, and only where an episode ended."""
    is_early = rows["segment_id"] > rows.previous["segment_id"] + rows.ended_before
    bad: Mask = is_early | (rows["segment_id"] < rows.expected["segment_id"])
    return bad


def _changes_held(rows: _Rows) -> Mask:
    """Between decision frames the decision stays; a lost row may hide one."""
    follows = ~rows.differs("global_frame_idx")
    is_held = ~rows["is_decision_frame"] & (rows.since_reset > 0) & follows
    return is_held & rows.differs("decided_action_idx")


def _is_short(rows: _Rows) -> Mask:
    """Only a game over shortens a timestep."""
    is_whole = rows["emulator_frames"] == rows.limits["frame_skip"]
    bad: Mask = ~is_whole & ~rows["terminated"]
    return bad


def _ends_outside(rows: _Rows) -> Mask:
    frames = rows["emulator_frames"]
    is_outside = (frames < 1) | (frames > rows.limits["frame_skip"])
    bad: Mask = rows["terminated"] & is_outside
    return bad


def _exceeds(column: str, limit: str) -> Callable[[_Rows], Mask]:
    """The rows whose column is above a limit."""
    return lambda rows: rows[column] > rows.limits[limit]


_PAST_THE_END = "a frame before {frames}, where the schedule ends"
_ACTIONS = "0 … {last_action}"

# In the order in which the findings of a chunk are listed.
RULES = (
    Rule("frame order", "global_frame_idx"),
    Rule(
        "frame order",
        "global_frame_idx",
        _exceeds("global_frame_idx", "last_frame"),
        _PAST_THE_END,
    ),
    Rule("schedule", "visit_idx"),
    Rule("schedule", "cycle_idx"),
    Rule("schedule", "visit_frame_idx"),
    Rule("schedule", "game_id"),
    Rule(
        "truncated flag",
        "truncated",
        lambda rows: rows["truncated"] & ~rows.is_last,
        "False before a visit's last frame",
    ),
    Rule(
        "visit end",
        "truncated",
        lambda rows: rows.is_last & ~rows["truncated"],
        "True on a visit's last frame",
    ),
    Rule(
        "action range",
        "decided_action_idx",
        _exceeds("decided_action_idx", "last_action"),
        _ACTIONS,
    ),
    Rule(
        "action range",
        "applied_action_idx",
        _exceeds("applied_action_idx", "last_action"),
        _ACTIONS,
    ),
    Rule("episode id", "episode_id"),
    Rule(
        "life loss",
        "terminated",
        lambda rows: rows.lost_life & ~rows["terminated"],
        "True where a life was lost",
    ),
    Rule("segment id", "segment_id", _breaks_segment),
    Rule("decision cadence", "is_decision_frame"),
    Rule("held decision", "decided_action_idx", _changes_held),
    Rule(
        "delay law",
        "applied_action_idx",
        lambda rows: rows.is_due & rows.differs("applied_action_idx"),
    ),
)
# Those of the tracks whose rows are timesteps; `verify` checks the values of targets.
TIMESTEP_RULES = (
    Rule("delivered reward", "reward"),
    Rule("emulator frames", "emulator_frames", _is_short, "{frame_skip}"),
    Rule("emulator frames", "emulator_frames", _ends_outside, "1 … {frame_skip}"),
)
PREDICTION_RULES = (Rule("target", "target"),)


class EventRules:
    """Checks events.jsonl against a config, chunk by chunk."""

    FILE = "events.jsonl"

    def __init__(self, config: RunConfig, findings: FindingLog) -> None:
        self._config = config
        self._findings = findings
        visits = config.played_schedule
        self.games = tuple(dict.fromkeys(visit.game_id for visit in visits))
        self._visit_games = np.array([self.games.index(v.game_id) for v in visits])
        self._visit_cycles = np.array([visit.cycle_idx for visit in visits])
        spans = visit_spans(visits)
        self._visit_starts = np.array([span.start for span in spans], np.int64)
        self._visit_ends = np.array([span.stop for span in spans], np.int64)
        self._rules: tuple[Rule, ...] = RULES
        if issubclass(config.event_row, TimestepRow):
            self._rules += TIMESTEP_RULES
        if issubclass(config.event_row, PredictionRow):
            self._rules += PREDICTION_RULES
        actions = config.action_mapping_policy.global_action_set
        self._limits = {
            "frames": config.total_frames,
            "last_frame": config.total_frames - 1,
            "last_action": len(actions) - 1,
            "frame_skip": config.frame_skip or 1,
        }

        self.episodes = SpanTable("episode_id")
        self.segments = SpanTable("segment_id")
        # Sums per visit, by the names of run_summary.json.
        self.visit_sums = {name: np.zeros(len(visits)) for name in VISIT_SUMS}
        self.windows = WindowSums(config)
        self.rewards = SparseColumn()
        self.game_rewards = SparseColumn()
        self.forecasts = ForecastColumns()

        # State that the next chunk needs from earlier rows.
        self._last: dict[str, Any] | None = None
        self._kept_life = False
        self._segment_start_frame = 0
        self._tail = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    @property
    def frames(self) -> int:
        """Rows checked so far."""
        return int(self.visit_sums["frames"].sum())

    def check(self, chunk: Chunk) -> None:
        """Checks the next chunk."""
        if len(chunk) == 0:
            return
        rows = self._relate(chunk.columns)
        for rule in self._rules:
            self._apply(rule, rows, chunk)
        self.episodes.add(rows.columns, rows.previous, rows.ended_before)
        self.segments.add(rows.columns, rows.previous, rows.starts)
        self._add_up(rows)
        self._last = {name: column[-1] for name, column in rows.columns.items()}

    def finish(self) -> None:
        """Closes open spans; reports missing frames at the end of the schedule."""
        total = self._config.total_frames
        last_frame = -1
        if self._last is not None:
            last_frame = int(self._last["global_frame_idx"])
            if self._last["terminated"] or self._last["truncated"]:
                self.episodes.close_last(self._last)
                if self._last["truncated"] or not self._config.life_loss_termination:
                    self.segments.close_last(self._last)
        if last_frame + 1 < total:
            found = f"the last is frame {last_frame}" if self._last else "found none"
            message = f"expected {total} frames, {found}"
            self._findings.add(Finding("missing frames", self.FILE, message))

    def _apply(self, rule: Rule, rows: _Rows, chunk: Chunk) -> None:
        """Reports the rows that break a rule."""
        is_broken = rule.is_broken
        bad = rows.differs(rule.column) if is_broken is None else is_broken(rows)
        if not bad.any():
            return
        found: Any = rows[rule.column]
        expected: Any = rows.expected.get(rule.column)
        if rule.words is not None:
            expected = rule.words.format(**rows.limits)
        elif rule.column == "game_id":
            names = np.array([*self.games, "a game not in the schedule"], object)
            expected, found = names[expected], names[found]
        place = RowPlace(self.FILE, rule.column, chunk.lines)
        self._findings.add_rows(rule.kind, place, bad, expected, found)

    # --- What the rules compare with ------------------------------------------------

    def _relate(self, columns: dict[str, Column]) -> _Rows:
        """The rows of the next chunk, related to the schedule and the rows before."""
        previous = self._shift(columns)
        ended_before = previous["terminated"] | previous["truncated"]
        frames = columns["global_frame_idx"]
        visit = np.searchsorted(self._visit_ends, frames, side="right")
        visit = np.minimum(visit, len(self._visit_ends) - 1)
        lost_life, must_start, starts = self._find_segments(columns, previous)
        since_reset = self._frames_since_reset(frames, starts)
        due, is_due = self._actions_due(columns, since_reset)
        expected = {
            "global_frame_idx": previous["global_frame_idx"] + 1,
            "visit_idx": visit,
            "cycle_idx": self._visit_cycles[visit],
            "visit_frame_idx": frames - self._visit_starts[visit],
            "game_id": self._visit_games[visit],
            "episode_id": previous["episode_id"] + ended_before,
            "segment_id": previous["segment_id"] + must_start,
            "is_decision_frame": since_reset % self._config.decision_interval == 0,
            "decided_action_idx": previous["decided_action_idx"],
            "applied_action_idx": due,
        }
        if "game_reward" in columns:
            signs = self._config.reward == "sign"
            rewards = columns["game_reward"]
            expected["reward"] = np.sign(rewards) if signs else rewards
        if "target" in columns:  # a float32
            exact = columns["target"].astype(np.float32).astype(np.float64)
            expected["target"] = exact
        return _Rows(
            columns=columns,
            previous=previous,
            expected=expected,
            limits=self._limits,
            visit=visit,
            is_last=frames == self._visit_ends[visit] - 1,
            ended_before=ended_before,
            lost_life=lost_life,
            starts=starts,
            since_reset=since_reset,
            is_due=is_due,
        )

    def _shift(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Every column shifted by one row; no span ended before the first row."""
        before = self._last or {
            name: -1 if name == "global_frame_idx" else 0 for name in columns
        }
        return {
            name: np.concatenate((np.array([before[name]], column.dtype), column[:-1]))
            for name, column in columns.items()
        }

    def _find_segments(
        self, columns: dict[str, Column], previous: dict[str, Column]
    ) -> tuple[Mask, Mask, Mask]:
        """Where a life was lost, where a segment must start, and where one does.

        With life-loss termination a segment may span several episodes. It must end at
        the end of its visit, and where an episode ended without a lost life, because
        then the game itself ended. Where a life was lost too, both are valid.
        """
        nowhere = np.zeros(len(columns["segment_id"]), np.bool_)
        if not self._config.life_loss_termination:
            ended_before = previous["terminated"] | previous["truncated"]
            return nowhere, ended_before, ended_before
        starts = columns["segment_id"] != previous["segment_id"]
        must_start = previous["truncated"].copy()
        if "lives" not in columns:
            return nowhere, must_start, starts
        is_same = ~starts
        is_same[0] &= self._last is not None
        lost_life = is_same & (columns["lives"] < previous["lives"])
        kept_life = is_same & ~lost_life
        must_start[1:] |= previous["terminated"][1:] & kept_life[:-1]
        must_start[0] |= previous["terminated"][0] & self._kept_life
        self._kept_life = bool(kept_life[-1])
        return lost_life, must_start, starts

    def _frames_since_reset(self, frames: Column, segment_starts: Mask) -> Column:
        latest = np.maximum.accumulate(
            np.where(segment_starts, np.arange(len(frames)), -1)
        )
        start = np.where(latest >= 0, frames[latest], self._segment_start_frame)
        self._segment_start_frame = int(start[-1])
        return frames - start

    def _actions_due(
        self, columns: dict[str, Column], since_reset: Column
    ) -> tuple[Column, Mask]:
        """The action each row must apply, and whether the log determines it."""
        delay, frames = self._config.delay, columns["global_frame_idx"]
        all_frames = np.concatenate((self._tail[0], frames))
        all_decided = np.concatenate((self._tail[1], columns["decided_action_idx"]))
        at = np.arange(len(frames)) + len(all_frames) - len(frames) - delay
        is_logged = at >= 0
        at = np.maximum(at, 0)
        is_logged &= all_frames[at] == frames - delay
        is_early = since_reset < delay
        due = np.where(is_early, self._config.default_action_idx, all_decided[at])
        keep_from = max(len(all_frames) - delay, 0)
        self._tail = all_frames[keep_from:], all_decided[keep_from:]
        return due, is_early | is_logged

    def _add_up(self, rows: _Rows) -> None:
        game_reward = rows.columns.get("game_reward", rows["reward"])
        weights = {
            "frames": None,
            "decision_frames": rows["is_decision_frame"],
            "emulator_frames": rows.columns.get("emulator_frames"),
            "reward_sum": rows["reward"],
            "game_reward_sum": game_reward,
            "episodes": rows["terminated"] | rows["truncated"],
        }
        for name, weight in weights.items():
            self.visit_sums[name] += np.bincount(
                rows.visit, weight, minlength=len(self._visit_ends)
            )
        frames = rows["global_frame_idx"]
        visit_frames = rows.expected["visit_frame_idx"]
        self.windows.add(rows.visit, visit_frames, rows.columns)
        self.rewards.add(frames, rows["reward"])
        self.game_rewards.add(frames, game_reward)
        if "target" in rows.columns:
            self.forecasts.add(rows.columns)


def sum_events(path: Path, config: RunConfig) -> list[CurveRow]:
    """The rows that curves.jsonl would have, from events.jsonl; nothing is written.

    For runs of other tools, and of longplay before it wrote curves.

    Raises:
        DocumentError: Rows are missing, repeated or malformed.
    """
    rules = EventRules(config, findings := FindingLog())
    reader = RowReader(config.event_row, {"game_id": rules.games}, canonical=False)
    for chunk in reader.read_chunks(path):
        rules.check(chunk)
        if chunk.has_damage or findings.counts.keys() & {"frame order", "schedule"}:
            last_frame = int(chunk.columns["global_frame_idx"].max(initial=-1))
            raise DocumentError(
                f"{path.name}: expected frames 0, 1, 2, … once each, all in their "
                f"visits, found {rules.frames} rows up to frame {last_frame}; see "
                "`longplay validate`"
            )
    return rules.windows.to_rows()
