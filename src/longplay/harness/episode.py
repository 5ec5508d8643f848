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
from pydantic import ValidationError

from longplay.agents.base import LoadedAgent
from longplay.console.ale import ALE_VERSION, AleConsole, read_rom
from longplay.contract.files import (
    DiskReserve,
    describe_invalid,
    make_directory,
    write_document,
)
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
from longplay.evallog.records import UsageSummary
from longplay.harness.status import StatusWriter
from longplay.plan import RunPlan, plan_run
from longplay.recorder import Recorder
from longplay.runner import Observer, Progress, Run, StopRequest
from longplay.scoring.scores import score_run, write_score
from longplay.seeds import agent_seed
from longplay.stream import Stream
from longplay.tracks.control import ControlTrack
from longplay.tracks.streaming import StreamingTrack

_TRACKS = {"streaming": StreamingTrack, "control": ControlTrack}


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
        self._config = complete_config(plan, agent.entry)
        with self._output.capture():
            track = _TRACKS[plan.suite.track]
            self._track = track(agent.build(agent_seed(plan.seed)))
        self._recorder: Recorder | None = None
        self._stream: Stream | None = None

    def run(self, retries: int = 0) -> None:
        """Plays and scores the run, and leaves a run directory behind.

        Args:
            retries: How many tries there were before this one.

        Raises:
            RunCancelled: Ctrl-C.
            RunFailed: The agent, the console or the disk failed.
        """
        described = EpisodeConfig.make(self._plan, self._agent)
        status = announce_run(described, self._run_dir, retries)
        self._output.keep_in(self._run_dir)
        with DiskReserve(self._run_dir) as reserve:
            try:
                reserve.take()
                summary = self._record(status)
                reserve.release()
                # Before the state says that all is there.
                write_score(self._run_dir, score_run(self._run_dir))
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
        self._recorder = Recorder(self._run_dir)
        with _stop_on_interrupt() as stop, self._output.capture():
            self._stream = self._make_stream()
            status.enter("RUNNING", 0, self._config.schedule[0].game_id)
            run = Run(self._stream, self._track, self._recorder, watch, stop)
            run.play()
            usage = run.ask(lambda: _check_usage(self._track.usage()))
            run.ask(self._track.close)
        return self._close_files(self._recorder, usage)

    def _record_failure(self, status: StatusWriter, error: BaseException) -> None:
        """Saves what can be saved; the error that came first is the one that counts."""
        frame, game_id = 0, None
        if self._stream is not None:
            frame, game_id = self._stream.global_frame_idx, self._stream.visit.game_id
        usage = None
        with contextlib.suppress(Exception, SystemExit), self._output.capture():
            usage = _check_usage(self._track.usage())
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


def complete_config(plan: RunPlan, agent: AgentEntry) -> RunConfig:
    """The planned config, with agent, versions, ROMs and git state."""
    roms = {game_id: read_rom(game_id) for game_id in plan.config.games}
    return plan.config.model_copy(
        update={
            "rom_md5": {game_id: rom.md5 for game_id, rom in roms.items()},
            "rom_sha256": {game_id: rom.sha256 for game_id, rom in roms.items()},
            "agent": agent,
            "versions": {
                "python": platform.python_version(),
                "ale_py": ALE_VERSION,
                "numpy": np.__version__,
                "longplay": longplay_version(),
            },
            "git": read_git_state(Path.cwd()),
        }
    )


def announce_run(episode: EpisodeConfig, run_dir: Path, retries: int) -> StatusWriter:
    """Makes a run's folder and says that it waits.

    Before the agent is even loaded, so that one that hangs there shows.
    """
    make_directory(run_dir, exist_ok=True)
    write_document(run_dir / "episode_config.json", episode)
    frames_total = episode.make_plan().config.total_frames
    return StatusWriter(run_dir, frames_total, retries)


def _check_usage(given: dict[str, Any] | None) -> dict[str, Any] | None:
    """Refuses at once what no record could hold."""
    try:
        UsageSummary.from_summary_stats(given)
    except ValidationError as error:
        raise AgentError(f"usage(): {describe_invalid(error)}") from error
    return given


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
