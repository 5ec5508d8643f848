"""The loop: stream x track -> records, to a recorder.

Everything a run does per frame is on this page. What surrounds it (folders, status,
signals) is the harness's; what an agent may know is the stream's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from longplay.errors import AgentError, LongplayError, RunCancelled
from longplay.recorder import Recorder
from longplay.stream import Frame, Stream
from longplay.tracks.streaming import StreamingTrack

# Seconds between two looks at the clock's business: progress, flush, heartbeat.
_TICK_S = 0.5


@dataclass(frozen=True)
class Progress:
    """Where a run is, for whoever watches."""

    frame: int
    frames_total: int
    game_id: str
    visit_idx: int
    visits_total: int
    cycle_idx: int
    last_return: float | None
    elapsed_s: float

    @property
    def fps(self) -> float | None:
        """Frames per second so far."""
        return self.frame / self.elapsed_s if self.elapsed_s > 0 else None


Observer = Callable[[Progress], None]


class StopRequest:
    """A flag that a signal handler sets and the loop polls."""

    requested = False


class Run:
    """One run under way."""

    def __init__(
        self,
        stream: Stream,
        track: StreamingTrack,
        recorder: Recorder,
        observer: Observer,
        stop: StopRequest,
    ) -> None:
        self._stream = stream
        self._track = track
        self._recorder = recorder
        self._observer = observer
        self._stop = stop
        self._frames_total = sum(visit.visit_frames for visit in stream.schedule)

    def play(self) -> None:
        """Plays to the end of the schedule.

        Raises:
            RunCancelled: Somebody asked the run to stop.
            RunFailed: The agent, the console or the disk failed.
        """
        stream, recorder = self._stream, self._recorder
        self._started_s = time.monotonic()
        self._next_tick_s = self._started_s
        while not stream.done:
            recorder.begin_visit(stream.visit, stream.console.actions)
            self._play_visit()
            recorder.end_visit(self._ask_metrics())
        recorder.sync()

    def _play_visit(self) -> None:
        stream, recorder = self._stream, self._recorder
        is_last_frame = False
        while not is_last_frame:
            frame = self._play_frame()
            recorder.write(frame)
            is_last_frame = frame.event.truncated
            if self._stop.requested:
                recorder.flush()
                raise RunCancelled(f"stopped before frame {stream.global_frame_idx}")
            if time.monotonic() >= self._next_tick_s:
                self._tick()

    def _play_frame(self) -> Frame:
        percept = self._stream.percept()
        try:
            answer = self._track.answer(percept)
        except LongplayError:
            raise
        except Exception as error:
            raise self._blame_agent(error) from error
        return self._stream.advance(answer)

    def _ask_metrics(self) -> dict[str, float]:
        try:
            return self._track.metrics()
        except LongplayError:
            raise
        except Exception as error:
            raise self._blame_agent(error) from error

    def _blame_agent(self, error: Exception) -> AgentError:
        return AgentError(
            f"the agent raised {type(error).__name__}: {error} at frame "
            f"{self._stream.global_frame_idx} of {self._stream.visit.game_id}"
        )

    def _tick(self) -> None:
        now_s = time.monotonic()
        self._next_tick_s = now_s + _TICK_S
        self._recorder.flush()
        visit = self._stream.visit
        self._observer(
            Progress(
                frame=self._stream.global_frame_idx,
                frames_total=self._frames_total,
                game_id=visit.game_id,
                visit_idx=visit.visit_idx,
                visits_total=len(self._stream.schedule),
                cycle_idx=visit.cycle_idx,
                last_return=self._recorder.last_return,
                elapsed_s=now_s - self._started_s,
            )
        )
