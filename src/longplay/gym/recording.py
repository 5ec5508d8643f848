"""A stream driven by the user's loop -> a run of an experiment directory.

The files are those of `longplay run`, written by the same recorder. They are created at
the first step; every stream with another seed adds a run to the experiment.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from time import monotonic

from longplay.agents.protocol import StreamingAgent
from longplay.agents.source.loading import LoadedAgent
from longplay.contract.config import AgentEntry
from longplay.contract.documents import RunSummary
from longplay.contract.files import make_directory, write_document
from longplay.contract.fingerprint import agent_id
from longplay.contract.layout import (
    is_experiment,
    run_dir_of,
)
from longplay.contract.rows import EventRow
from longplay.errors import (
    AgentLoadError,
    LongplayError,
    OutputError,
    RunCancelled,
    RunFailed,
)
from longplay.experiments.experiment import Experiment, read_plans
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

# Seconds to wait for other environments that record to the same folder.
_WAIT_S = 60.0


class RecordedExperiment:
    """The experiment directory of an environment: a run for each recorded stream."""

    def __init__(self, directory: Path, agent_name: str) -> None:
        self._directory = directory
        self._agent = _describe_agent(agent_name)

    def begin(self, plan: RunPlan, stream: Stream) -> Recording:
        """Adds a run to the experiment and starts to record it.

        Raises:
            OutputError: The folder has this run already.
            ConfigError: The folder has another experiment.
        """
        run_dir = run_dir_of(self._directory, plan.trajectory_id)
        if run_dir.exists():
            raise OutputError(
                f"{run_dir}: expected a new folder, found a run of the same seed; "
                "record to another folder, or reset with another seed"
            )
        make_directory(self._directory, exist_ok=True)
        experiment = Experiment((plan,), self._agent, self._directory)
        # Several environments may record to one folder.
        with experiment.lock(_WAIT_S):
            experiment.check_same()
            experiment.plans = (*self._read_plans(plan), plan)
            experiment.write_plan()
        return Recording(experiment, plan, stream)

    def _read_plans(self, new: RunPlan) -> list[RunPlan]:
        """The runs that the experiment has already."""
        if not is_experiment(self._directory):
            return []
        plans = read_plans(self._directory)
        return [plan for plan in plans if plan.seed != new.seed]


class Recording:
    """Records one run."""

    def __init__(self, experiment: Experiment, plan: RunPlan, stream: Stream) -> None:
        self._experiment = experiment
        self._plan, self._stream = plan, stream
        self._run_dir = run_dir = experiment.run_dir(plan)
        agent = experiment.agent
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
        self._conclude()

    def _conclude(self) -> None:
        """Brings the records of the experiment up to date."""
        with self._experiment.lock(_WAIT_S):
            self._experiment.plans = read_plans(self._experiment.directory)
            self._experiment.conclude()

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
        with contextlib.suppress(LongplayError):
            self._conclude()


def _describe_agent(name: str) -> LoadedAgent:
    """Describes an agent that only the user's loop can build."""

    def refuse(*args: object, **kwargs: object) -> StreamingAgent:
        raise AgentLoadError(f"{name} runs in its own loop; it cannot be started here")

    config = {"_type": name, "args": {}}
    entry = AgentEntry(config=config, agent_id=agent_id(config))
    return LoadedAgent(name, name, entry, refuse, "a loop of its own")
