"""Frames of a run, replayed in chunks: their pixels as one picture, and their rows.

A chunk's picture has its frames one below the other, as PNG: exactly the pixels that
the agent saw, which a video codec would change. Chunks in order continue one replay;
a chunk before it starts again at its visit.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import msgspec
import numpy as np

from longplay.errors import IncompleteRunError
from longplay.lab.report.draw.frame_pictures import render_png
from longplay.lab.viewer.index import RunEntry, fingerprint
from longplay.lab.viewer.kept import Kept, PageNotFoundError
from longplay.verify.frames import ReplayedRun, open_frames
from longplay.verify.replay import ReplayedFrame

CHUNK_FRAMES = 64
# An open replay keeps up to 256 frames, 26 MB.
_MOST_REPLAYS = 2
_MOST_CHUNKS = 256


@dataclass(frozen=True)
class Chunk:
    """Some frames of a run.

    Attributes:
        picture: PNG, the frames one below the other.
        rows: Rows of events.jsonl, as text.
        returns: Return of the game episode before each frame.
    """

    picture: bytes
    rows: tuple[str, ...]
    returns: tuple[float, ...]


class _OpenReplay:
    """A replay that waits at a position."""

    def __init__(self, run: ReplayedRun) -> None:
        self.run = run
        self._frames: Iterator[ReplayedFrame] = iter(())
        self._left = range(0)

    def read(self, frames: range) -> list[ReplayedFrame]:
        """Replays some frames, from where the replay stands if that is faster."""
        left, self._left = self._left, range(0)  # not known if it raises
        visit = self._find_visit(frames.start)
        skipped = frames.start - left.start
        is_ahead = left.start >= visit.start and skipped >= 0
        # Frames passed on the way cost twice: their pixels are fetched, too.
        is_near = 2 * skipped <= frames.start - visit.start
        if not (is_ahead and is_near and frames.stop <= left.stop):
            left = range(frames.start, max(visit.stop, frames.stop))
            self._frames, skipped = self.run.iter_frames(left), 0
        found = list(islice(self._frames, skipped, skipped + len(frames)))
        self._left = range(frames.stop, left.stop)
        return found

    def _find_visit(self, frame: int) -> range:
        """The frames of the visit that a frame belongs to, as far as logged."""
        end = 0
        for visit in self.run.config.played_schedule:
            start, end = end, end + visit.visit_frames
            if frame < end:
                break
        return range(start, min(end, self.run.frame_count))


class Replays:
    """The replays of a viewer."""

    def __init__(self) -> None:
        self._open: Kept[_OpenReplay] = Kept(_MOST_REPLAYS)
        self._chunks: OrderedDict[object, Chunk] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, entry: RunEntry, frames: range) -> Chunk:
        """A chunk of a run.

        Args:
            entry: The run.
            frames: Which frames, at most `CHUNK_FRAMES`.

        Raises:
            PageNotFoundError: The run does not have these frames.
            LongplayError: The run cannot be replayed.
        """
        if not 0 < len(frames) <= CHUNK_FRAMES:
            raise PageNotFoundError(f"expected 1 to {CHUNK_FRAMES} frames")
        config_file = fingerprint(
            entry.path if entry.is_pack else entry.path / "config.json"
        )
        key = (entry.id, config_file)
        with self._open.hold(key) as place:
            with self._lock:
                if (kept := self._chunks.get((key, frames))) is not None:
                    self._chunks.move_to_end((key, frames))
                    return kept
            chunk = _make_chunk(self._replay(entry, frames, place))
            with self._lock:
                self._chunks[key, frames] = chunk
                while len(self._chunks) > _MOST_CHUNKS:
                    self._chunks.popitem(last=False)
            return chunk

    def _replay(
        self, entry: RunEntry, frames: range, place: list[_OpenReplay]
    ) -> list[ReplayedFrame]:
        # A run in progress has more frames than when it was opened.
        if not place or place[0].run.frame_count < frames.stop:
            entry.open()  # checks the files
            place[:] = [_OpenReplay(open_frames(entry.path))]
        if place[0].run.frame_count < frames.stop:
            count = place[0].run.frame_count
            raise PageNotFoundError(f"the run has {count:,} rows so far")
        try:
            return place[0].read(frames)
        except BaseException:
            place.clear()
            raise

    def find_clip(self, entry: RunEntry, kind: str, number: int) -> range:
        """The frames of an episode or a visit.

        Raises:
            PageNotFoundError: There is no such episode or visit.
            LongplayError: The run cannot be replayed.
        """
        entry.open()
        run = open_frames(entry.path)
        find = run.episode_range if kind == "episode" else run.visit_range
        try:
            frames = find(number)
        except IncompleteRunError as error:
            raise PageNotFoundError(str(error)) from error
        if not 0 <= frames.start < frames.stop <= run.frame_count:
            raise PageNotFoundError(f"the run does not have the rows of this {kind}")
        return frames


def _make_chunk(frames: list[ReplayedFrame]) -> Chunk:
    pixels = np.concatenate([frame.observation for frame in frames])
    return Chunk(
        render_png(pixels, is_small=False),
        tuple(msgspec.json.encode(frame.row).decode() for frame in frames),
        tuple(frame.episode_return for frame in frames),
    )
