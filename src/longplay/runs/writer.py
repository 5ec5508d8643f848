"""The documents of a run: its request and config, its status, summary and result.

    writer = RunWriter.create(plan, request, run_dir)      request, status QUEUED
    writer.begin(frame, game_id)                           status RUNNING
    writer.complete(recorder, write_run_score)             summary, result, COMPLETED
    writer.stop(recorder, "FAILED", error, (frame, game))  summary, FAILED and why

A session writes these for an agent, `gym.recording` for a user's own loop. The rows are
the recorder's.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from longplay.agents.source.loading import LoadedAgent
from longplay.console.machines import machine_of
from longplay.contract.config import RunConfig
from longplay.contract.documents import RunState, RunSummary
from longplay.contract.files import hash_file, make_directory, write_document
from longplay.contract.layout import RUN_REQUEST, RunRequest
from longplay.contract.rundir import RunDirectory
from longplay.errors import LongplayError
from longplay.plan import RunPlan
from longplay.provenance import longplay_version, read_git_state
from longplay.runs.loop import Progress
from longplay.runs.options import DEFAULT_OPTIONS, RunOptions
from longplay.runs.recorder import Recorder
from longplay.runs.status import StatusWriter
from longplay.tracks.scores import compute_score
from longplay.validation import RunRows

# Writes the result of a complete run from its rows; returns the file.
ResultWriter = Callable[[Path, RunRows], Path]


def request_run(
    plan: RunPlan, agent: LoadedAgent, options: RunOptions = DEFAULT_OPTIONS
) -> RunRequest:
    """The request file's record of a planned run and its agent."""
    return RunRequest(
        trajectory_id=plan.trajectory_id,
        task_id=plan.task_id,
        suite=plan.suite_name,
        seed=plan.seed,
        config_given=plan.given,
        agent_reference=agent.spec,
        agent_files=agent.patterns,
        agent=agent.entry,
        agent_isolation=agent.isolation.to_record(),
        keep_agent=options.keep_agent,
        kept_agent_bytes=options.kept_agent_bytes,
    )


def complete_config(plan: RunPlan, agent: LoadedAgent) -> RunConfig:
    """The planned config, with agent, versions, ROMs and git state."""
    machine = machine_of(plan.config.games)
    roms = {game_id: machine.read_rom(game_id) for game_id in plan.config.games}
    return plan.config.model_copy(
        update={
            "rom_md5": {game_id: rom.md5 for game_id, rom in roms.items()},
            "rom_sha256": {game_id: rom.sha256 for game_id, rom in roms.items()},
            "agent": agent.entry,
            "agent_files": agent.agent_files,
            "agent_isolation": agent.isolation.to_record(),
            "versions": {
                "python": platform.python_version(),
                machine.name: machine.read_version(),
                "numpy": np.__version__,
                "longplay": longplay_version(),
            },
            "git": read_git_state(Path.cwd()),
        }
    )


def write_run_score(run_dir: Path, rows: RunRows) -> Path:
    """Scores a complete run; returns the path of score.json."""
    rows.require_whole()
    summary = RunDirectory(run_dir).summary
    path = run_dir / "score.json"
    play = rows.to_play(None if summary is None else summary.fps)
    write_document(path, compute_score(play))
    return path


def conclude_run(
    run_dir: Path, summary: RunSummary, write_result: ResultWriter, workers: int = 1
) -> RunRows:
    """Writes the result of a run, and the hashes of its row files and its result.

    Reads the rows, once; returns what was read.
    """
    rows = RunRows(run_dir, RunDirectory(run_dir).config, workers)
    result = write_result(run_dir, rows)
    hashes = {"rows": rows.digests, "score_sha256": hash_file(result)}
    write_document(run_dir / "run_summary.json", summary.model_copy(update=hashes))
    return rows


class RunWriter:
    """Writes the documents of one run."""

    def __init__(self, run_dir: Path, status: StatusWriter) -> None:
        self._run_dir = run_dir
        self._status = status

    @classmethod
    def create(
        cls, plan: RunPlan, request: RunRequest, run_dir: Path, retries: int = 0
    ) -> RunWriter:
        """Creates the folder of a run, with its request and status QUEUED."""
        make_directory(run_dir, exist_ok=True)
        write_document(run_dir / RUN_REQUEST, request)
        status = StatusWriter.create(run_dir, plan.total_frames, retries)
        return cls(run_dir, status)

    def begin(self, frame: int, game_id: str) -> None:
        """Marks the run as RUNNING, from a frame on."""
        self._status.enter("RUNNING", frame, game_id)

    def observe(self, progress: Progress) -> None:
        """Writes a heartbeat if one is due."""
        self._status.observe(progress)

    def complete(
        self,
        recorder: Recorder,
        write_result: ResultWriter,
        workers: int = 1,
        **in_summary: Any,
    ) -> RunRows:
        """Writes the summary and the result of a run that was played to its end.

        Args:
            recorder: Has written every row.
            write_result: Writes the result from the rows.
            workers: Processes that read the rows.
            **in_summary: Further fields of run_summary.json.

        Returns:
            The rows, which are read once.
        """
        summary = self._write_summary(recorder, **in_summary)
        rows = conclude_run(self._run_dir, summary, write_result, workers)
        self._status.enter("COMPLETED", summary.frames, fps=summary.fps)
        return rows

    def stop(
        self,
        recorder: Recorder | None,
        state: RunState,
        error: BaseException,
        place: tuple[int, str],
        **in_summary: Any,
    ) -> None:
        """Writes what can be written of a run that ended early.

        Args:
            recorder: None if no row was recorded.
            state: FAILED, CANCELLED or QUEUED.
            error: Why it ended.
            place: The frame and its game.
            **in_summary: Further fields of run_summary.json.
        """
        fps = None
        if recorder is not None:
            with contextlib.suppress(LongplayError):
                recorder.flush()
            with contextlib.suppress(LongplayError):
                fps = self._write_summary(recorder, **in_summary).fps
        self._status.enter(state, *place, error, fps)

    def _write_summary(self, recorder: Recorder, **more: Any) -> RunSummary:
        recorder.close()
        summary = recorder.summarise(tries=self._status.status.retries + 1)
        summary = summary.model_copy(update=more)
        write_document(self._run_dir / "run_summary.json", summary)
        return summary
