"""One run, from an empty folder to a record that says how it ended.

However it ends, what was recorded is readable and status.json tells the state:
COMPLETED, FAILED with the error, or CANCELLED.
"""

from __future__ import annotations

import contextlib
import platform
import signal
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from longplay.agents.base import LoadedAgent
from longplay.console.ale import ALE_VERSION, AleConsole, read_rom
from longplay.contract.files import DiskReserve, make_directory, write_document
from longplay.contract.records import (
    AgentEntry,
    ConfigGiven,
    Document,
    RunConfig,
    RunState,
    RunSummary,
)
from longplay.contract.version import SCHEMA_VERSION
from longplay.errors import AgentError, LongplayError, RunCancelled
from longplay.evallog.provenance import longplay_version, read_git_state
from longplay.harness.status import StatusWriter
from longplay.plan import RunPlan, plan_run
from longplay.recorder import Recorder
from longplay.runner import Observer, Progress, Run, StopRequest
from longplay.seeds import agent_seed
from longplay.stream import Stream
from longplay.tracks.control import ControlTrack
from longplay.tracks.streaming import StreamingTrack

# Track -> what shows its agent the frames.
TRACKS = {"streaming": StreamingTrack, "control": ControlTrack}


def ignore_progress(progress: Progress) -> None:
    """The observer of a run that nobody watches."""


class EpisodeConfig(Document):
    """episode_config.json: what was asked for, enough to ask again."""

    schema_version: int = SCHEMA_VERSION
    trajectory_id: str
    task_id: str
    suite: str
    seed: int
    config_given: ConfigGiven
    agent_reference: str
    agent: AgentEntry

    @classmethod
    def make(cls, plan: RunPlan, agent: LoadedAgent) -> EpisodeConfig:
        """Writes down a planned run of an agent."""
        return cls(
            trajectory_id=plan.trajectory_id,
            task_id=plan.task_id,
            suite=plan.suite_name,
            seed=plan.seed,
            config_given=plan.given,
            agent_reference=agent.reference,
            agent=agent.entry,
        )

    def make_plan(self) -> RunPlan:
        """The run, planned again."""
        given = self.config_given
        return plan_run(given.suite, self.seed, given.overrides)


class Episode:
    """One run of one agent: a plan, and the folder it is recorded in.

    Making one builds the agent and reads the ROMs, so that whatever cannot be run is
    refused before anything is written.
    """

    def __init__(
        self,
        plan: RunPlan,
        agent: LoadedAgent,
        run_dir: Path,
        observer: Observer = ignore_progress,
    ) -> None:
        self._plan = plan
        self._agent = agent
        self._run_dir = run_dir
        self._observer = observer
        self._output = agent.output
        self._config = self._complete_config()
        with self._output.capture():
            track = TRACKS[plan.suite.track]
            self._track = track(agent.build(agent_seed(plan.seed)))
        self._recorder: Recorder | None = None
        self._stream: Stream | None = None

    def run(self, retries: int = 0) -> None:
        """Plays the run and leaves a run directory behind, without its score.

        Args:
            retries: How many tries there were before this one.

        Raises:
            RunCancelled: Ctrl-C.
            RunFailed: The agent, the console or the disk failed.
        """
        make_directory(self._run_dir)
        self._output.keep_in(self._run_dir)
        status = StatusWriter(self._run_dir, self._config.total_frames, retries)
        with DiskReserve(self._run_dir) as reserve:
            try:
                reserve.take()
                summary = self._record(status)
                status.enter("COMPLETED", summary.frames, fps=summary.fps)
            except BaseException as error:
                reserve.release()
                self._record_failure(status, error)
                if isinstance(error, KeyboardInterrupt):
                    raise RunCancelled("interrupted") from error
                raise

    def _record(self, status: StatusWriter) -> RunSummary:
        def watch(progress: Progress) -> None:
            status.observe(progress)
            self._output.save()
            with self._output.release():
                self._observer(progress)

        write_document(self._run_dir / "config.json", self._config)
        write_document(
            self._run_dir / "episode_config.json",
            EpisodeConfig.make(self._plan, self._agent),
        )
        self._recorder = Recorder.create(self._run_dir)
        with _stop_on_interrupt() as stop, self._output.capture():
            self._stream = self._make_stream()
            status.enter("RUNNING", 0, self._config.schedule[0].game_id)
            run = Run(self._stream, self._track, self._recorder, watch, stop)
            run.play()
            usage = run.ask(self._track.usage)
        return self._close_files(self._recorder, usage)

    def _record_failure(self, status: StatusWriter, error: BaseException) -> None:
        """Saves what can be saved; the error that came first is the one that counts."""
        frame, game_id = 0, None
        if self._stream is not None:
            frame, game_id = self._stream.global_frame_idx, self._stream.visit.game_id
        usage = None
        with contextlib.suppress(Exception, SystemExit), self._output.capture():
            usage = self._track.usage()
        with contextlib.suppress(Exception, SystemExit), self._output.capture():
            self._track.close()
        if isinstance(error, AgentError) and error.__cause__ is not None:
            self._output.write("".join(traceback.format_exception(error.__cause__)))
        if self._recorder is not None:
            with contextlib.suppress(LongplayError):
                self._recorder.flush()
            with contextlib.suppress(LongplayError):
                self._close_files(self._recorder, usage)
        status.enter(_state_after(error), frame, game_id, error)

    def _close_files(
        self, recorder: Recorder, usage: dict[str, Any] | None
    ) -> RunSummary:
        recorder.close()
        summary = recorder.summarise(usage)
        write_document(self._run_dir / "run_summary.json", summary)
        self._output.finish()
        return summary

    def _make_stream(self) -> Stream:
        config = self._config
        console = AleConsole(
            sticky=config.sticky,
            full_action_space=config.full_action_space,
            frame_skip=config.frame_skip or 1,
        )
        return Stream.from_config(config, console)

    def _complete_config(self) -> RunConfig:
        """The planned config, with agent, versions, ROMs and git state."""
        roms = {game_id: read_rom(game_id) for game_id in self._plan.config.games}
        return self._plan.config.model_copy(
            update={
                "rom_md5": {game_id: rom.md5 for game_id, rom in roms.items()},
                "rom_sha256": {game_id: rom.sha256 for game_id, rom in roms.items()},
                "agent": self._agent.entry,
                "versions": {
                    "python": platform.python_version(),
                    "ale_py": ALE_VERSION,
                    "numpy": np.__version__,
                    "longplay": longplay_version(),
                },
                "git": read_git_state(Path.cwd()),
            }
        )


def record_unbuilt(
    plan: RunPlan,
    agent: LoadedAgent,
    run_dir: Path,
    error: LongplayError,
    retries: int,
) -> None:
    """Leaves a FAILED run behind, for an agent that could not even be built."""
    make_directory(run_dir)
    write_document(run_dir / "episode_config.json", EpisodeConfig.make(plan, agent))
    status = StatusWriter(run_dir, plan.config.total_frames, retries)
    status.enter("FAILED", 0, plan.config.schedule[0].game_id, error)


def _state_after(error: BaseException) -> RunState:
    if isinstance(error, (RunCancelled, KeyboardInterrupt)):
        return "CANCELLED"
    return "FAILED"


@contextlib.contextmanager
def _stop_on_interrupt() -> Iterator[StopRequest]:
    """Turns the first Ctrl-C into a request; the second one interrupts for real."""
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # signals reach the main thread only
        return

    def request_stop(number: int, frame: FrameType | None) -> None:
        stop.requested = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    previous = signal.signal(signal.SIGINT, request_stop)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)
