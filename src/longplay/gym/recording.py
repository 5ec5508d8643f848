"""A stream driven by the user's loop -> a run of an experiment directory.

The files are those of `longplay run`, written by the same recorder. They are created at
the first step; every stream with another seed adds a run to the experiment. Where the
loop can go back to a frame, so can its recorded run: `resuming` replays what it keeps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

from longplay.agents.metrics import MeanMetrics, check_metrics
from longplay.agents.protocol import StreamingAgent
from longplay.agents.source.loading import LoadedAgent, make_entry
from longplay.contract.confidential import check_no_secrets
from longplay.contract.documents import RunState
from longplay.contract.files import make_directory, shorten, write_document
from longplay.contract.layout import is_experiment, run_dir_of
from longplay.contract.rows import EventRow
from longplay.errors import (
    AgentLoadError,
    ConfigError,
    LongplayError,
    OutputError,
    ResumeError,
    RunCancelled,
    RunFailed,
)
from longplay.experiments.experiment import Experiment, read_plans
from longplay.gym.resuming import check_resumable, replay_rows
from longplay.plan import RunPlan
from longplay.runs.loop import Progress
from longplay.runs.metric_rows import WINDOW_DECISIONS, check_names
from longplay.runs.recorder import Recorder
from longplay.runs.status import HEARTBEAT_S, view_run
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

    def __init__(self, directory: Path, agent: str | Mapping[str, Any]) -> None:
        self._directory = directory
        self._agent = _describe_agent(agent)

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
                "record to another folder, reset with another seed, or continue the "
                'run with reset(seed=..., options={"resume": frame})'
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

    def resume(self, plan: RunPlan, stream: Stream, frame: int) -> Recording | None:
        """Continues a stopped run before one of its frames.

        Args:
            plan: The run.
            stream: Its stream, new; it is played up to the frame.
            frame: Number of frames to keep; more than the run has keep all of it.

        Returns:
            None if the run is complete, or nothing was recorded and nothing is kept.

        Raises:
            ResumeError: The run cannot be continued there; nothing was changed.
            ConfigError: The folder has another experiment.
        """
        experiment = Experiment((plan,), self._agent, self._directory)
        run_dir = experiment.run_dir(plan)
        if not run_dir.exists():
            if frame == 0:
                return None
            raise ResumeError(
                f"resume: expected a recorded run in {run_dir}, found none; "
                "without this option, reset begins one"
            )
        experiment.check_same(("config_given", "agent"))
        frame = min(frame, plan.total_frames)
        view, config = view_run(plan, run_dir), complete_config(plan, self._agent)
        check_resumable(view, config, frame)
        state = replay_rows(view, stream, frame)
        if view.state == "COMPLETED":
            return None
        with experiment.lock(_WAIT_S):
            # Another process may have begun to continue it meanwhile.
            check_resumable(view_run(plan, run_dir), config, frame)
            experiment = replace(experiment, plans=read_plans(self._directory))
            request = request_run(plan, self._agent)
            writer = RunWriter.create(plan, request, run_dir, view.retries)
            writer.begin(frame, stream.visit.game_id)
        recorder = Recorder.restore(run_dir, state)
        recording = Recording(experiment, plan, stream, writer, recorder)
        if stream.done:  # stopped between its last frame and its score
            recording.complete()
        return recording

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
        self._first_frame = stream.global_frame_idx
        self._is_visit_open = False
        self._is_complete = False
        # What the loop logged since the last row of metrics, and in this visit.
        self._window, self._visit = MeanMetrics(), MeanMetrics()
        self._decisions = 0

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
            self._decisions = recorder.visit_decisions
        recorder.write_frame(event, stream)
        self._write_metrics(event)
        if event.truncated:
            recorder.end_visit(self._visit.take())
            self._is_visit_open = False
        if stream.done:
            self.complete()
        elif monotonic() >= self._next_heartbeat_s:
            self._beat()

    def log(self, metrics: Mapping[str, float]) -> None:
        """Takes metrics of the loop, which are recorded as means.

        Raises:
            AgentError: A value is not a number, or a name is reserved.
        """
        if not self._is_complete:
            check_names(check_metrics("log", metrics))
            self._window.add(metrics)
            self._visit.add(metrics)

    def _write_metrics(self, event: EventRow) -> None:
        """Writes a row every 1,000 decisions of a visit, and at its end."""
        self._decisions += event.is_decision_frame
        is_full = event.is_decision_frame and not self._decisions % WINDOW_DECISIONS
        if is_full or event.truncated:
            self._recorder.metric_rows.write(event, self._window.take())

    def sync(self) -> None:
        """Waits until every row is on the disk."""
        if not self._is_complete:
            self._recorder.flush()
            self._recorder.sync()

    def complete(self) -> None:
        """Scores the run after its last frame."""
        self._recorder.sync()
        self._writer.complete(self._recorder, write_run_score)
        self._is_complete = True
        self._conclude()

    def _beat(self) -> None:
        self._next_heartbeat_s = monotonic() + HEARTBEAT_S
        self._recorder.flush()
        progress = Progress.measure(
            self._stream,
            self._recorder,
            self._plan.total_frames,
            self._first_frame,
            monotonic() - self._started_s,
        )
        self._writer.observe(progress)

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


def _describe_agent(given: str | Mapping[str, Any]) -> LoadedAgent:
    """Describes an agent that only the user's loop can build.

    Raises:
        ConfigError: It is neither a name nor a name with arguments, or an argument
            looks like a password.
        AgentLoadError: The arguments are not plain JSON.
    """
    parts: dict[str, Any] = {"name": given} if isinstance(given, str) else dict(given)
    name, args = parts.pop("name", None), parts.pop("args", {})
    if parts or not isinstance(name, str) or not name or not isinstance(args, Mapping):
        raise ConfigError(
            'agent: expected a name or {"name": ..., "args": {...}}, found '
            f"{shorten(given)}"
        )

    def refuse(*args: object, **kwargs: object) -> StreamingAgent:
        raise AgentLoadError(f"{name} runs in its own loop; it cannot be started here")

    config = {"_type": name, "args": dict(args)}
    check_no_secrets(config, "agent")
    return LoadedAgent(name, name, make_entry(config), refuse, "a loop of its own")
