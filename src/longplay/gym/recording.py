"""A stream driven by the user's loop -> a run directory.

The files are those of `longplay run`, written by the same recorder. The directory is
created at the first step.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from time import monotonic

from longplay.agents.loading import LoadedAgent
from longplay.agents.protocol import StreamingAgent
from longplay.contract.files import write_document
from longplay.contract.fingerprint import agent_id
from longplay.contract.records import AgentEntry, EventRow, RunSummary
from longplay.errors import (
    AgentLoadError,
    LongplayError,
    OutputError,
    RunCancelled,
    RunFailed,
)
from longplay.plan import RunPlan
from longplay.runs.loop import Progress
from longplay.runs.recorder import Recorder
from longplay.runs.session import (
    announce_run,
    complete_config,
    conclude_run,
    request_run,
    write_run_score,
)
from longplay.runs.status import HEARTBEAT_S
from longplay.stream import Stream


class Recording:
    """Records one run."""

    def __init__(
        self, plan: RunPlan, stream: Stream, run_dir: Path, agent_name: str
    ) -> None:
        if run_dir.exists():
            raise OutputError(
                f"{run_dir}: expected a new folder, found a run of the same seed; "
                "record to another folder, or reset with another seed"
            )
        self._plan, self._stream, self._run_dir = plan, stream, run_dir
        agent = _describe_agent(agent_name)
        config = complete_config(plan, agent)
        self._status = announce_run(plan, request_run(plan, agent), run_dir, 0)
        write_document(run_dir / "config.json", config)
        self._recorder = Recorder.create(run_dir)
        self._started_s = monotonic()
        self._next_heartbeat_s = self._started_s + HEARTBEAT_S
        self._status.enter("RUNNING", 0, stream.visit.game_id)
        self._is_visit_open = False
        self._is_complete = False

    def write(self, event: EventRow) -> None:
        """Records the frame that the stream just played."""
        recorder, stream = self._recorder, self._stream
        if not self._is_visit_open:
            recorder.begin_visit(stream.visit, stream.console.actions)
            self._is_visit_open = True
        recorder.write_frame(event, stream)
        if event.truncated:
            recorder.end_visit({})
            self._is_visit_open = False
        if stream.done:
            self._complete()
        elif monotonic() >= self._next_heartbeat_s:
            self._beat()

    def _beat(self) -> None:
        self._next_heartbeat_s = monotonic() + HEARTBEAT_S
        self._recorder.flush()
        visit, config = self._stream.visit, self._plan.config
        self._status.observe(
            Progress(
                frame=self._stream.global_frame_idx,
                frames_total=config.total_frames,
                game_id=visit.game_id,
                visit_idx=visit.visit_idx,
                visits_total=len(config.played_schedule),
                cycle_idx=visit.cycle_idx,
                last_return=self._recorder.last_return,
                elapsed_s=monotonic() - self._started_s,
            )
        )

    def _complete(self) -> None:
        self._recorder.sync()
        summary = self._write_summary()
        conclude_run(self._run_dir, summary, write_run_score)
        self._status.enter("COMPLETED", summary.frames, fps=summary.fps)
        self._is_complete = True

    def _write_summary(self) -> RunSummary:
        self._recorder.close()
        summary = self._recorder.summarise()
        write_document(self._run_dir / "run_summary.json", summary)
        return summary

    def stop(self, error: RunFailed | None = None) -> None:
        """Ends the run early: FAILED with an error, CANCELLED without one."""
        if self._is_complete:
            return
        frame, game_id = self._stream.global_frame_idx, self._stream.visit.game_id
        with contextlib.suppress(LongplayError):
            self._recorder.flush()
        with contextlib.suppress(LongplayError):
            self._write_summary()
        if error is None:
            cancelled = RunCancelled(f"stopped before frame {frame}")
            self._status.enter("CANCELLED", frame, game_id, cancelled)
        else:
            self._status.enter("FAILED", frame, game_id, error)


def _describe_agent(name: str) -> LoadedAgent:
    """Describes an agent that only the user's loop can build."""

    def refuse(*args: object, **kwargs: object) -> StreamingAgent:
        raise AgentLoadError(f"{name} runs in its own loop; it cannot be started here")

    config = {"_type": name, "args": {}}
    entry = AgentEntry(config=config, agent_id=agent_id(config))
    return LoadedAgent(name, name, entry, refuse, "a loop of its own")
