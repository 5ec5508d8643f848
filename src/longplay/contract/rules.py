"""The contract's rules for every frame -> findings.

`EventRules` takes the columns of events.jsonl chunk by chunk, in order, and checks each
row against the schedule, the previous row and the control rules. It also derives the
expected content of episodes.jsonl, segments.jsonl, curves.jsonl and run_summary.json.
Rules compare frame numbers, not row positions, so that one lost row is one finding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from longplay.contract.columns import Chunk, Column
from longplay.contract.config import RunConfig, visit_spans
from longplay.contract.curves import WindowSums
from longplay.contract.findings import Finding, FindingLog, Kind, Mask
from longplay.contract.spans import SpanTable

_VISIT_SUMS = (
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

        self.episodes = SpanTable("episode_id")
        self.segments = SpanTable("segment_id")
        # Sums per visit, by the names of run_summary.json.
        self.visit_sums = {name: np.zeros(len(visits)) for name in _VISIT_SUMS}
        self.windows = WindowSums(config)
        self.rewards = SparseColumn()
        self.game_rewards = SparseColumn()
        self.forecasts = ForecastColumns()

        # State that the next chunk needs from earlier rows.
        self._last: dict[str, Any] | None = None
        self._kept_life = False
        self._segment_start_frame = 0
        self._tail: dict[str, Column] = {
            "global_frame_idx": np.zeros(0, np.int64),
            "decided_action_idx": np.zeros(0, np.int64),
        }

    @property
    def frames(self) -> int:
        """Rows checked so far."""
        return int(self.visit_sums["frames"].sum())

    def check(self, chunk: Chunk) -> None:
        """Checks the next chunk."""
        if len(chunk) == 0:
            return
        columns, lines = chunk.columns, chunk.lines
        previous = self._shift(columns)
        ended_before = previous["terminated"] | previous["truncated"]
        visit = self._check_schedule(columns, previous, lines)
        self._check_actions(columns, lines)
        self._check_episode_ids(columns, previous, ended_before, lines)
        segment_starts = self._check_segment_ids(columns, previous, ended_before, lines)
        self._check_control(columns, previous, segment_starts, lines)
        if "game_reward" in columns:
            self._check_timesteps(columns, lines)
        if "target" in columns:
            self._check_targets(columns, lines)

        self.episodes.add(columns, previous, ended_before)
        self.segments.add(columns, previous, segment_starts)
        self._add_up(columns, visit)
        self._last = {name: column[-1] for name, column in columns.items()}

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
            self._findings.add(
                Finding(
                    "missing frames",
                    self.FILE,
                    f"expected {total} frames, "
                    + (
                        f"the last is frame {last_frame}"
                        if self._last
                        else "found none"
                    ),
                )
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

    def _report(
        self,
        kind: Kind,
        column: str,
        bad: Mask,
        lines: NDArray[np.int64],
        expected: Any,
        found: Column,
    ) -> None:
        """Reports bad rows; `expected` is one value per row, or one text for all."""
        if not bad.any():
            return

        def describe(row: int) -> str:
            wanted = expected[row] if isinstance(expected, np.ndarray) else expected
            return f"expected {wanted}, found {found[row]}"

        self._findings.add_rows(kind, self.FILE, column, bad, lines, describe)

    def _check_schedule(
        self,
        columns: dict[str, Column],
        previous: dict[str, Column],
        lines: NDArray[np.int64],
    ) -> Column:
        """Checks the order of frames and their visits; returns each row's visit."""
        frames = columns["global_frame_idx"]
        following = previous["global_frame_idx"] + 1
        self._report(
            "frame order",
            "global_frame_idx",
            frames != following,
            lines,
            following,
            frames,
        )
        total = self._config.total_frames
        self._report(
            "frame order",
            "global_frame_idx",
            frames >= total,
            lines,
            f"a frame before {total}, where the schedule ends",
            frames,
        )
        visit = np.searchsorted(self._visit_ends, frames, side="right")
        visit = np.minimum(visit, len(self._visit_ends) - 1)
        names = np.array([*self.games, "a game not in the schedule"], object)
        for name, expected, found in (
            ("visit_idx", visit, columns["visit_idx"]),
            ("cycle_idx", self._visit_cycles[visit], columns["cycle_idx"]),
            (
                "visit_frame_idx",
                frames - self._visit_starts[visit],
                columns["visit_frame_idx"],
            ),
            ("game_id", self._visit_games[visit], columns["game_id"]),
        ):
            bad = found != expected
            if name == "game_id" and bad.any():
                expected, found = names[expected], names[found]
            self._report("schedule", name, bad, lines, expected, found)
        self._check_truncated(columns, frames == self._visit_ends[visit] - 1, lines)
        return visit

    def _check_truncated(
        self, columns: dict[str, Column], is_last: Mask, lines: NDArray[np.int64]
    ) -> None:
        truncated = columns["truncated"]
        self._report(
            "truncated flag",
            "truncated",
            truncated & ~is_last,
            lines,
            "False before a visit's last frame",
            truncated,
        )
        self._report(
            "visit end",
            "truncated",
            is_last & ~truncated,
            lines,
            "True on a visit's last frame",
            truncated,
        )

    def _check_actions(
        self, columns: dict[str, Column], lines: NDArray[np.int64]
    ) -> None:
        actions = len(self._config.action_mapping_policy.global_action_set)
        for name in ("decided_action_idx", "applied_action_idx"):
            found = columns[name]
            bad = found >= actions
            self._report("action range", name, bad, lines, f"0 … {actions - 1}", found)

    def _check_episode_ids(
        self,
        columns: dict[str, Column],
        previous: dict[str, Column],
        ended_before: Mask,
        lines: NDArray[np.int64],
    ) -> None:
        found = columns["episode_id"]
        expected = previous["episode_id"] + ended_before
        self._report(
            "episode id", "episode_id", found != expected, lines, expected, found
        )

    def _check_segment_ids(
        self,
        columns: dict[str, Column],
        previous: dict[str, Column],
        ended_before: Mask,
        lines: NDArray[np.int64],
    ) -> Mask:
        """Returns the rows that start a segment, except the first of the run.

        With life-loss termination a segment may span several episodes. It must end at
        the end of its visit, and where an episode ended without a lost life, because
        then the game itself ended. Where a life was lost too, both are valid.
        """
        found = columns["segment_id"]
        if not self._config.life_loss_termination:
            expected = previous["segment_id"] + ended_before
            bad = found != expected
            starts = ended_before
        else:
            advance = found - previous["segment_id"]
            must = previous["truncated"].copy()
            if "lives" in columns:
                is_same = advance == 0
                is_same[0] &= self._last is not None
                lost_life = is_same & (columns["lives"] < previous["lives"])
                self._report_lost_lives(lost_life, columns, lines)
                kept_life = is_same & ~lost_life
                must[1:] |= previous["terminated"][1:] & kept_life[:-1]
                must[0] |= previous["terminated"][0] & self._kept_life
                self._kept_life = bool(kept_life[-1])
            expected = previous["segment_id"] + must
            bad = (advance < must) | (advance > ended_before)
            starts = advance != 0
        self._report("segment id", "segment_id", bad, lines, expected, found)
        return starts

    def _report_lost_lives(
        self, lost_life: Mask, columns: dict[str, Column], lines: NDArray[np.int64]
    ) -> None:
        found = columns["terminated"]
        expected = "True where a life was lost"
        bad = lost_life & ~found
        self._report("life loss", "terminated", bad, lines, expected, found)

    def _check_control(
        self,
        columns: dict[str, Column],
        previous: dict[str, Column],
        segment_starts: Mask,
        lines: NDArray[np.int64],
    ) -> None:
        """Checks decision cadence, held decisions and the delay."""
        frames = columns["global_frame_idx"]
        since_reset = self._frames_since_reset(frames, segment_starts)
        found = columns["is_decision_frame"]
        expected = since_reset % self._config.decision_interval == 0
        self._report(
            "decision cadence",
            "is_decision_frame",
            found != expected,
            lines,
            expected,
            found,
        )

        decided = columns["decided_action_idx"]
        held = previous["decided_action_idx"]
        follows = frames == previous["global_frame_idx"] + 1
        bad = ~found & (since_reset > 0) & follows & (decided != held)
        self._report("held decision", "decided_action_idx", bad, lines, held, decided)

        applied = columns["applied_action_idx"]
        due, is_known = self._actions_due(frames, decided, since_reset)
        bad = is_known & (applied != due)
        self._report("delay law", "applied_action_idx", bad, lines, due, applied)

    def _frames_since_reset(self, frames: Column, segment_starts: Mask) -> Column:
        latest = np.maximum.accumulate(
            np.where(segment_starts, np.arange(len(frames)), -1)
        )
        start = np.where(latest >= 0, frames[latest], self._segment_start_frame)
        self._segment_start_frame = int(start[-1])
        return frames - start

    def _actions_due(
        self, frames: Column, decided: Column, since_reset: Column
    ) -> tuple[Column, Mask]:
        """The action each row must apply, and whether the log determines it."""
        delay = self._config.delay
        all_frames = np.concatenate((self._tail["global_frame_idx"], frames))
        all_decided = np.concatenate((self._tail["decided_action_idx"], decided))
        at = np.arange(len(frames)) + len(all_frames) - len(frames) - delay
        is_logged = at >= 0
        at = np.maximum(at, 0)
        is_logged &= all_frames[at] == frames - delay
        is_early = since_reset < delay
        due = np.where(is_early, self._config.default_action_idx, all_decided[at])
        keep_from = max(len(all_frames) - delay, 0)
        self._tail = {
            "global_frame_idx": all_frames[keep_from:],
            "decided_action_idx": all_decided[keep_from:],
        }
        return due, is_early | is_logged

    def _check_timesteps(
        self, columns: dict[str, Column], lines: NDArray[np.int64]
    ) -> None:
        """Checks delivered rewards and the number of emulator frames."""
        found, expected = columns["reward"], columns["game_reward"]
        if self._config.reward == "sign":
            expected = np.sign(expected)
        bad = found != expected
        self._report("delivered reward", "reward", bad, lines, expected, found)

        frames, most = columns["emulator_frames"], self._config.frame_skip or 1
        bad = (frames != most) & ~columns["terminated"]
        self._report("emulator frames", "emulator_frames", bad, lines, most, frames)
        bad = columns["terminated"] & ((frames < 1) | (frames > most))
        words = f"1 … {most}"
        self._report("emulator frames", "emulator_frames", bad, lines, words, frames)

    def _check_targets(
        self, columns: dict[str, Column], lines: NDArray[np.int64]
    ) -> None:
        """Checks that targets are float32; `verify` checks their values."""
        found = columns["target"]
        expected = found.astype(np.float32).astype(np.float64)
        bad = found != expected
        self._report("target", "target", bad, lines, expected, found)
        self.forecasts.add(columns)

    def _add_up(self, columns: dict[str, Column], visit: Column) -> None:
        game_reward = columns.get("game_reward", columns["reward"])
        weights = {
            "frames": None,
            "decision_frames": columns["is_decision_frame"],
            "emulator_frames": columns.get("emulator_frames"),
            "reward_sum": columns["reward"],
            "game_reward_sum": game_reward,
            "episodes": columns["terminated"] | columns["truncated"],
        }
        for name, weight in weights.items():
            self.visit_sums[name] += np.bincount(
                visit, weight, minlength=len(self._visit_ends)
            )
        frames = columns["global_frame_idx"]
        self.windows.add(visit, frames - self._visit_starts[visit], columns)
        self.rewards.add(frames, columns["reward"])
        self.game_rewards.add(frames, game_reward)
