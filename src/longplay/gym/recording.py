"""A stream driven by the user's loop -> a run of an experiment directory.

The files are those of `longplay run`, written by the same recorder. They are created at
the first step; every stream with another seed adds a run to the experiment.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from time import monotonic

from longplay.agents.protocol import StreamingAgent
from longplay.agents.source.loading import LoadedAgent
from longplay.contract.config import AgentEntry
from longplay.contract.documents import RunState
from longplay.contract.files import make_directory, write_document
from longplay.contract.fingerprint import agent_id
from longplay.contract.layout import is_experiment, run_dir_of
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
from longplay.runs.status import HEARTBEAT_S
from longplay.runs.writer import (
    RunWriter,
    complete_config,
    request_run,
    write_run_score,
)
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
            experiment.check_same(("config_given", "agent"))
            plans = (*self._read_plans(plan), plan)
            experiment = replace(experiment, plans=plans)
            experiment.write_plan()
        return Recording.start(experiment, plan, stream)

    def _read_plans(self, new: RunPlan) -> list[RunPlan]:
        """The runs that the experiment has already."""
        if not is_experiment(self._directory):
            return []
        plans = read_plans(self._directory)
        return [plan for plan in plans if plan.seed != new.seed]


class Recording:
    """Records one run."""

    def __init__(
        self,
        experiment: Experiment,
        plan: RunPlan,
        stream: Stream,
        writer: RunWriter,
        recorder: Recorder,
    ) -> None:
        self._experiment = experiment
        self._plan, self._stream = plan, stream
        self._writer, self._recorder = writer, recorder
        self._started_s = monotonic()
        self._next_heartbeat_s = self._started_s + HEARTBEAT_S
        self._is_visit_open = False
        self._is_complete = False

    @classmethod
    def start(cls, experiment: Experiment, plan: RunPlan, stream: Stream) -> Recording:
        """Creates the files of the run."""
        run_dir, agent = experiment.run_dir(plan), experiment.agent
        config = complete_config(plan, agent)
        writer = RunWriter.create(plan, request_run(plan, agent), run_dir)
        write_document(run_dir / "config.json", config)
        recorder = Recorder.create(run_dir)
        writer.begin(0, stream.visit.game_id)
        return cls(experiment, plan, stream, writer, recorder)

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
            recorder.sync()
            self._writer.complete(recorder, write_run_score)
            self._is_complete = True
            self._conclude()
        elif monotonic() >= self._next_heartbeat_s:
            self._beat()

    def _beat(self) -> None:
        self._next_heartbeat_s = monotonic() + HEARTBEAT_S
        self._recorder.flush()
        visit, config = self._stream.visit, self._plan.config
        self._writer.observe(
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

    def stop(self, error: RunFailed | None = None) -> None:
        """Ends the run early: FAILED with an error, CANCELLED without one."""
        if self._is_complete:
            return
        frame, game_id = self._stream.global_frame_idx, self._stream.visit.game_id
        if error is None:
            reason: LongplayError = RunCancelled(f"stopped before frame {frame}")
        else:
            reason = error
        state: RunState = "CANCELLED" if error is None else "FAILED"
        self._writer.stop(self._recorder, state, reason, (frame, game_id))
        with contextlib.suppress(LongplayError):
            self._conclude()

    def _conclude(self) -> None:
        """Brings the records of the experiment up to date."""
        with self._experiment.lock(_WAIT_S):
            plans = read_plans(self._experiment.directory)
            replace(self._experiment, plans=plans).conclude()


def _describe_agent(name: str) -> LoadedAgent:
    """Describes an agent that only the user's loop can build."""

    def refuse(*args: object, **kwargs: object) -> StreamingAgent:
        raise AgentLoadError(f"{name} runs in its own loop; it cannot be started here")

    config = {"_type": name, "args": {}}
    entry = AgentEntry(config=config, agent_id=agent_id(config))
    return LoadedAgent(name, name, entry, refuse, "a loop of its own")
