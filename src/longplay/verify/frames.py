"""A run or a pack -> its frames, replayed, with their pixels.

    run = open_frames(PATH)
    for frame in run.iter_frames(range(1_000, 2_000)):
        frame.observation, frame.row

Frame t shows what the agent saw before it acted on frame t; its row contains the action
and its result. Frames are counted over the whole run; on the control and prediction
tracks a frame is a timestep.

Replay starts at the visit of the first frame and keeps one block of frames in memory.
The frames of a run directory are compared with the log: rows and memory digests, up to
the end of their block, before any frame of the block is returned. A pack has no rows to
compare with. So its emulator and ROMs must be the run's own, and the totals of a visit
that is played to its end must be those of the run's summary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice, repeat
from pathlib import Path

import msgspec

from longplay.contract.config import RunConfig, visit_spans
from longplay.contract.digests import BLOCK_FRAMES
from longplay.contract.documents import RunSummary
from longplay.contract.files import open_regular
from longplay.contract.rows import EpisodeRow
from longplay.contract.rules import VISIT_SUMS
from longplay.contract.rundir import PACK_SUFFIX, RunDirectory, find_run
from longplay.errors import (
    AgentError,
    CannotVerifyError,
    ConfigError,
    ConsoleError,
    DifferenceError,
    DocumentError,
    IncompleteRunError,
    LongplayError,
    PackError,
)
from longplay.runs.checked_rows import LONGEST_ROW_BYTES, IgnoredRows
from longplay.runs.recorder import Recorder, RowFiles
from longplay.stream import Stream
from longplay.tracks.catalogue import track_of
from longplay.verify.pack import PackedAnswers, split_answers
from longplay.verify.pack_file import PackFile
from longplay.verify.replay import (
    ReplayedFrame,
    ReplayObserver,
    ReplayWatch,
    RowIds,
    VisitTask,
    begin_visit,
    feed_stream,
    ignore_replay,
    index_lines,
    open_checked,
    plan_replay,
    read_decisions,
    start_stream,
)
from longplay.verify.verification import (
    check_playable,
    compare_emulators,
    read_playable,
)


@dataclass(frozen=True)
class Playback:
    """A stream at the start of a visit, with its recorder and the logged answers."""

    stream: Stream
    recorder: Recorder
    answers: Iterable[object]


class ReplayedRun(ABC):
    """A run whose frames can be replayed.

    Attributes:
        path: The run directory or the pack.
        config: Config of the run.
        frame_count: Number of frames logged.
    """

    path: Path
    config: RunConfig
    frame_count: int

    @cached_property
    def _starts(self) -> list[int]:
        """The first frame of every visit, then the number of frames."""
        starts = [span.start for span in visit_spans(self.config.played_schedule)]
        return [*starts, self.config.total_frames]

    def visit_range(self, visit_idx: int) -> range:
        """The frames of a visit, as far as they are logged.

        Raises:
            ConfigError: There is no such visit.
            IncompleteRunError: None of its frames is logged yet.
        """
        visits = len(self._starts) - 1
        if not 0 <= visit_idx < visits:
            raise ConfigError(f"visit: expected 0 … {visits - 1}, found {visit_idx}")
        start, end = self._starts[visit_idx : visit_idx + 2]
        if start >= self.frame_count:
            noun = track_of(self.config).frame_noun
            raise IncompleteRunError(
                f"visit {visit_idx} starts at {noun} {start:,}; {self.path} has "
                f"{self.frame_count:,} {noun}s so far"
            )
        return range(start, min(end, self.frame_count))

    @abstractmethod
    def episode_range(self, episode_id: int) -> range:
        """The frames of a game episode that has ended.

        Raises:
            ConfigError: There is no such episode.
        """

    def iter_frames(
        self, frames: range, observer: ReplayObserver = ignore_replay
    ) -> Iterator[ReplayedFrame]:
        """Replays some frames of the run.

        Args:
            frames: Which frames, in order. Those that a step leaves out are played
                too, but their pixels are not fetched.
            observer: Receives the progress of the replay.

        Raises:
            ConfigError: The run does not have these frames.
            DifferenceError: The log does not reproduce.
            PackError: The pack does not reproduce.
            CannotVerifyError: The run cannot be replayed with the emulator and ROMs
                installed here.
        """
        if not frames or not 0 <= frames[0] <= frames[-1] < self.frame_count:
            raise ConfigError(
                f"frames: expected a range A:B within 0:{self.frame_count}, found "
                f"{frames.start}:{frames.stop}"
            )
        return self._replay(frames, observer)

    def _replay(
        self, frames: range, observer: ReplayObserver
    ) -> Iterator[ReplayedFrame]:
        visit_idx = self._first_visit(self._visit_of(frames[0]))
        first, end = self._starts[visit_idx], self._block_end(frames[-1])
        watch = ReplayWatch([end - first], observer)
        playback = self._open_visit(visit_idx)
        stream, recorder = playback.stream, playback.recorder
        answers = islice(playback.answers, end - first)
        with closing(recorder), self._explained():
            for block in feed_stream(stream, recorder, answers, frames):
                watch.tell([block.last.global_frame_idx + 1 - first])
                yield from block.shown
                if block.last.truncated:
                    self._end_visit(playback, block.last.visit_idx)

    def _visit_of(self, frame: int) -> int:
        return bisect_right(self._starts, frame) - 1

    def _block_end(self, frame: int) -> int:
        """The end of a frame's block of digests.jsonl, as far as it is logged."""
        visit_idx = self._visit_of(frame)
        start, visit_end = self._starts[visit_idx : visit_idx + 2]
        blocks = (frame - start) // BLOCK_FRAMES + 1
        return min(start + blocks * BLOCK_FRAMES, visit_end, self.frame_count)

    def _first_visit(self, visit_idx: int) -> int:
        """The visit from which replay has to start, to get to another one."""
        return visit_idx

    @abstractmethod
    def _open_visit(self, visit_idx: int) -> Playback:
        """Opens the run at the start of a visit."""

    @abstractmethod
    def _end_visit(self, playback: Playback, visit_idx: int) -> None:
        """Called after the last frame of a visit."""

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of a replay become errors that name the run and the reason."""
        try:
            yield
        except ConsoleError as error:
            raise CannotVerifyError(f"cannot be replayed here: {error}") from error
        except AgentError as error:
            raise PackError(
                f"{self.path}: its answers do not fit its schedule: {error}"
            ) from error
        except DifferenceError as error:
            raise self._explain_difference(error) from error

    def _explain_difference(self, error: DifferenceError) -> LongplayError:
        if others := compare_emulators(self.config):
            return CannotVerifyError(
                f"cannot be replayed here: {'; '.join(others)}. With the versions "
                f"installed here the run differs: {error}"
            )
        return DifferenceError(error.difference, f"{self.path} does not reproduce: ")


def open_frames(path: Path) -> ReplayedRun:
    """Opens a run directory, an experiment with one run, or a pack.

    Raises:
        NotARunError: There is no run, or several.
        CannotVerifyError: The run cannot be replayed here.
        DocumentError: A file that replay needs is missing or damaged.
        PackError: The pack is damaged.
    """
    is_pack = path.suffix == PACK_SUFFIX and not path.is_dir()
    return PackedRun(path) if is_pack else LoggedRun(find_run(path))


# --- Run directories ------------------------------------------------------------


class LoggedRun(ReplayedRun):
    """A run directory; the run may still be in progress."""

    def __init__(self, path: Path) -> None:
        self.path = path
        run = RunDirectory(path)
        self.config = read_playable(run)
        for name in ("events.jsonl", "digests.jsonl"):
            if not (path / name).is_file():
                raise DocumentError(f"{name}: missing in {path}")
        state = run.status.state if run.status is not None else "COMPLETED"
        self._is_complete = state == "COMPLETED"
        self.frame_count = self.config.total_frames
        if not self._is_complete:
            logged = index_lines(path / "events.jsonl", ()).line_count
            self.frame_count = min(self.frame_count, logged)

    @cached_property
    def _tasks(self) -> list[VisitTask]:
        return plan_replay(self.path, self.config)

    def episode_range(self, episode_id: int) -> range:
        """The frames of a game episode, from its row of episodes.jsonl."""
        path = self.path / "episodes.jsonl"
        if not path.is_file():
            raise DocumentError(f"{path.name}: missing in {self.path}")
        index = index_lines(path, [max(0, episode_id)])
        _check_episode(episode_id, index.line_count)
        with open_regular(path) as file:
            file.seek(index.bytes_before[0])
            line = file.readline(LONGEST_ROW_BYTES)
        try:
            return _frames_of(msgspec.json.decode(line, type=EpisodeRow))
        except (msgspec.MsgspecError, ValueError) as error:
            raise DocumentError(f"{path.name}:{episode_id + 1}: {error}") from error

    def _open_visit(self, visit_idx: int) -> Playback:
        task, path = self._tasks[visit_idx], self.path / "events.jsonl"
        with closing(read_decisions(path, task.events.byte, 1)) as rows:
            first = next(rows)
        ids = RowIds(first.episode_id, first.segment_id)
        frames = self.frame_count - task.first_frame
        decisions = read_decisions(path, task.events.byte, frames)
        return Playback(
            start_stream(self.config, visit_idx, task.first_frame, ids),
            open_checked(task, may_be_unfinished=not self._is_complete),
            (decision.answer for decision in decisions),
        )

    def _end_visit(self, playback: Playback, visit_idx: int) -> None:
        """Every row was compared already."""


def _check_episode(episode_id: int, count: int) -> None:
    if not 0 <= episode_id < count:
        raise ConfigError(f"episode: expected 0 … {count - 1}, found {episode_id}")


def _frames_of(row: EpisodeRow) -> range:
    return range(row.start_global_frame_idx, row.end_global_frame_idx + 1)


# --- Packs ----------------------------------------------------------------------


class PackedRun(ReplayedRun):
    """A pack: its answers are played directly, without unpacking it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with PackFile(path) as pack:
            run = pack.read_documents()
            content = pack.read_answers()
        self.config = run.config
        check_playable(self.config)
        if others := compare_emulators(self.config):
            raise CannotVerifyError(f"cannot be replayed here: {'; '.join(others)}")
        self._answers = split_answers(content, self.config)
        self._summary = self._read_summary(run)
        self.frame_count = self.config.total_frames

    def _read_summary(self, run: RunDirectory) -> RunSummary:
        summary, lengths = run.summary, self.config.played_schedule
        found = [visit.frames for visit in summary.visits] if summary else []
        if summary is None or found != [visit.visit_frames for visit in lengths]:
            raise PackError(f"{self.path}: run_summary.json does not fit the schedule")
        return summary

    def episode_range(self, episode_id: int) -> range:
        """The frames of a game episode, found by replaying its visit."""
        counts = [visit.episodes for visit in self._summary.visits]
        _check_episode(episode_id, sum(counts))
        wanted = bisect_right([0, *accumulate(counts)], episode_id) - 1
        visit_idx, episodes = self._first_visit(wanted), _LatestEpisodes()
        playback = self._open_visit(visit_idx, episodes)
        frames = self._starts[wanted + 1] - self._starts[visit_idx]
        answers = islice(playback.answers, frames)
        with self._explained():
            for block in feed_stream(playback.stream, playback.recorder, answers):
                for row in episodes.take():
                    if row.episode_id == episode_id:
                        return _frames_of(row)
                if block.last.truncated:
                    self._end_visit(playback, block.last.visit_idx)
        raise PackError(f"{self.path}: found no episode {episode_id} in visit {wanted}")

    def _first_visit(self, visit_idx: int) -> int:
        # The summary counts episodes. With life-loss termination there are fewer
        # segments, and only a replay from the start tells how many.
        return 0 if self.config.life_loss_termination else visit_idx

    def _open_visit(
        self, visit_idx: int, episodes: IgnoredRows | None = None
    ) -> Playback:
        before = self._summary.visits[:visit_idx]
        count = sum(visit.episodes for visit in before)
        taken = sum(visit.decision_frames for visit in before)
        stream = start_stream(
            self.config, visit_idx, self._starts[visit_idx], RowIds(count, count)
        )
        files = RowFiles(
            IgnoredRows(),
            episodes or IgnoredRows(),
            IgnoredRows(),
            IgnoredRows(),
            IgnoredRows(),
        )
        recorder = Recorder(files)
        begin_visit(stream, recorder)
        return Playback(stream, recorder, repeat(PackedAnswers(self._answers[taken:])))

    def _end_visit(self, playback: Playback, visit_idx: int) -> None:
        stream, recorder = playback.stream, playback.recorder
        recorder.end_visit({})
        found = recorder.summarise().visits[-1]
        expected = self._summary.visits[visit_idx]
        for name in VISIT_SUMS:
            before, after = getattr(expected, name), getattr(found, name)
            if before != after:
                raise PackError(
                    f"{self.path} does not reproduce: {name} of visit {visit_idx}: "
                    f"expected {before} from run_summary.json, found {after}"
                )
        if not stream.done:
            begin_visit(stream, recorder)


class _LatestEpisodes(IgnoredRows):
    """Keeps the rows of the episodes that ended since the last look."""

    def __init__(self) -> None:
        super().__init__()
        self._latest = b""

    def append(self, rows: bytes) -> None:
        self._latest += rows

    def take(self) -> list[EpisodeRow]:
        rows, self._latest = self._latest, b""
        return msgspec.json.Decoder(EpisodeRow).decode_lines(rows)
