"""Run directory -> verification level, determined by replay or re-execution.

    claimed        not verified
    replayed       replaying the logged decisions gives every logged row, the memory
                   digests and the chain; and validation finds nothing
    re-executed    in addition, the agent makes the same decisions again, in a sandbox
                   from which it cannot read the log; without a sandbox the level is
                   "re-executed (unconfined)"

The log is replayed before any code of the agent runs. A difference under another
emulator or ROM than the run's proves nothing, so there is no verdict. The verdict is
written to verification.json with the hashes of the verified files, so that a later
change to them is detected.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from longplay.agents.isolation.levels import Isolation
from longplay.console.machines import find_machine, machine_of
from longplay.contract.config import GLOBAL_ACTION_SET, RunConfig, visit_spans
from longplay.contract.digests import BLOCK_FRAMES
from longplay.contract.documents import Difference, ProofLevel, VerificationRecord
from longplay.contract.files import write_document
from longplay.contract.rundir import ROW_FILES, RunDirectory, find_run, has_evidence
from longplay.errors import (
    CannotVerifyError,
    ConfigError,
    ConsoleError,
    DocumentError,
    IncompleteRunError,
    RowDifference,
)
from longplay.provenance import longplay_version
from longplay.runs.checked_rows import LONGEST_ROW_BYTES
from longplay.runs.loop import Observer
from longplay.runs.recorder import utc_now
from longplay.runs.session import ignore_progress
from longplay.tracks.catalogue import track_of
from longplay.validation import Report, validate_run
from longplay.verify.reexecution import load_same_agent, reexecute_run
from longplay.verify.replay import (
    ReplayObserver,
    RowIds,
    VisitOutcome,
    VisitTask,
    ignore_replay,
    index_lines,
    plan_replay,
    replay_visits,
)

FILE_NAME = "verification.json"


@dataclass(frozen=True)
class Verification:
    """The result of verifying a run.

    Attributes:
        run_dir: The run.
        method: Whether its log was replayed, or its agent re-executed.
        frames: Number of frames replayed.
        visits: The visits replayed; all of them unless some were selected.
        difference: The first row or block that differs.
        report: The validation report; None if only some visits were selected.
        isolation: How a re-executed agent was isolated.
        sha256: Hashes of the verified files before the agent ran; None without one.
    """

    run_dir: Path
    method: Literal["replay", "re-execution"]
    frames: int
    visits: tuple[int, ...]
    difference: Difference | None
    report: Report | None
    isolation: Isolation | None = None
    sha256: dict[str, str] | None = None

    @property
    def level(self) -> ProofLevel:
        """The level of trust that follows from it."""
        if not self.passed:
            return "claimed"
        if self.isolation is None:
            return "replayed"
        is_confined = self.isolation.level == "sandbox"
        return "re-executed" if is_confined else "re-executed (unconfined)"

    @property
    def passed(self) -> bool:
        """Whether every row was reproduced, and validation found nothing."""
        is_valid = self.report is None or self.report.is_valid
        return self.difference is None and is_valid

    @property
    def is_whole(self) -> bool:
        """Whether the whole run was verified."""
        return self.report is not None

    def describe_failure(self) -> str:
        """Explains in one line why it did not pass."""
        if self.difference is not None:
            return self.describe_difference()
        shown = self.report.findings.shown if self.report else []
        return f"validation found: {shown[0]}" if shown else "nothing was found"

    def describe_difference(self) -> str:
        """The first difference, in the track's word for a frame; "" without one."""
        noun = track_of(RunDirectory(self.run_dir).config).frame_noun
        return "" if self.difference is None else self.difference.describe(noun)

    def to_record(self) -> VerificationRecord:
        """The record of a verdict on a whole run, for verification.json."""
        run = RunDirectory(self.run_dir)
        isolation = self.isolation
        return VerificationRecord(
            level=self.level,
            agent_isolation=None if isolation is None else isolation.to_record(),
            method=self.method,
            passed=self.passed,
            first_difference=self.difference,
            findings=self._count_findings(),
            frames=self.frames,
            sha256=self.sha256 or run.hash_verified_files(),
            versions=_read_versions(run.config),
        )

    def _count_findings(self) -> dict[str, int]:
        counts = self.report.findings.counts if self.report else {}
        return {str(kind): count for kind, count in counts.items()}

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain JSON values."""
        return {
            "run_dir": str(self.run_dir),
            "passed": self.passed,
            "method": self.method,
            "level": self.level,
            "frames": self.frames,
            "visits": list(self.visits),
            "first_difference": self.difference
            and self.difference.model_dump(mode="json"),
            "validation": self.report and self.report.to_json(),
        }


def verify_run(
    directory: str | Path,
    *,
    workers: int = 1,
    visits: Sequence[int] = (),
    observer: ReplayObserver = ignore_replay,
    origin: Path | None = None,
) -> Verification:
    """Replays the log of a run, and validates the run.

    Args:
        directory: A run directory, or an experiment with one run.
        workers: Number of replay processes. More than one are spawned, so the calling
            script needs an `if __name__ == "__main__"`.
        visits: Replay only these visits; the others are not checked.
        observer: Receives the progress.
        origin: Of a probe: the run directory that it is a probe of; by default the one
            that it lies beside.

    Raises:
        NotARunError: The folder contains no run, or several.
        IncompleteRunError: The run is not complete.
        DocumentError: A file that replay needs is missing or broken.
        CannotVerifyError: The run was made by another tool, or it differs and was
            made with another emulator or ROM.
    """
    run_dir = find_run(Path(directory))
    config = read_replayable(run_dir)
    tasks = _pick_visits(plan_replay(run_dir, config), visits)
    outcomes = replay_visits(tasks, workers, observer)
    found = [outcome.difference for outcome in outcomes if outcome.difference]
    if not visits:
        found += _find_gaps(outcomes)
    difference = _first_of(found, config)
    _refuse_other_emulator(config, difference)
    return Verification(
        run_dir=run_dir,
        method="replay",
        frames=sum(task.frames for task in tasks),
        visits=tuple(task.visit_idx for task in tasks),
        difference=difference,
        report=None
        if visits
        else validate_run(run_dir, workers=workers, origin=origin),
    )


def reexecute(
    directory: str | Path,
    agent: str | None = None,
    *,
    isolation: Isolation | None = None,
    workers: int = 1,
    observer: Observer = ignore_progress,
    replay_observer: ReplayObserver = ignore_replay,
    origin: Path | None = None,
) -> Verification:
    """Verifies a run by replay, then runs its agent again.

    The agent runs only if the replay passes; otherwise the result is the replay's.

    Args:
        directory: A run directory, or an experiment with one run.
        agent: An agent spec, as for `run`; built-in agents need none.
        isolation: How the agent is isolated; by default in a sandbox.
        workers: Number of processes for replay and validation; the agent runs in one.
        observer: Receives the progress of the agent.
        replay_observer: Receives the progress of the replay.
        origin: As for `verify_run`; it has kept the state of the probe.

    Raises:
        AgentLoadError: The agent cannot be loaded, or is not the run's agent.
        AgentError: The agent raised, or its process died.
        ConfigError: This machine has no sandbox, or the agent could read the run.
        LongplayError: As `verify_run`.
    """
    isolation = isolation or Isolation("sandbox")
    isolation.check_available()
    replayed = verify_run(
        directory, workers=workers, observer=replay_observer, origin=origin
    )
    if not replayed.passed:
        return replayed
    run_dir = replayed.run_dir
    run = RunDirectory(run_dir)
    sha256 = run.hash_verified_files()
    loaded = load_same_agent(run_dir, run.config, agent, isolation)
    try:
        found = reexecute_run(run_dir, run.config, loaded, observer, origin)
    except ConsoleError as error:
        raise CannotVerifyError(f"cannot be replayed here: {error}") from error
    difference = _first_of([found] if found else [], run.config)
    _refuse_other_emulator(run.config, difference)
    return replace(
        replayed,
        method="re-execution",
        difference=difference,
        isolation=isolation,
        sha256=sha256,
    )


def write_verification(verification: Verification) -> VerificationRecord:
    """Writes the verdict on a whole run to its verification.json."""
    moment = {"verified_utc": utc_now()}
    record = verification.to_record().model_copy(update=moment)
    write_document(verification.run_dir / FILE_NAME, record)
    return record


# --- Which runs can be verified -------------------------------------------------


def read_replayable(run_dir: Path) -> RunConfig:
    """The config of a complete longplay run that can be replayed.

    Validation checks the config against its suite; this refuses only a run whose
    replay would not lead to a verdict.
    """
    run = RunDirectory(run_dir)
    config = read_playable(run)
    _check_complete(run)
    return config


def read_playable(run: RunDirectory) -> RunConfig:
    """The config of a longplay run, complete or not, that can be replayed here."""
    config = run.config
    if not config.is_longplay:
        raise CannotVerifyError(
            f"{run.path}: expected a run made by longplay, found one made by another "
            "tool: it does not record the emulator seeds, so it cannot be replayed"
        )
    check_playable(config)
    return config


def check_playable(config: RunConfig) -> None:
    """Refuses a config from which no stream can be built."""
    seeds = config.emulator_seeds or ()
    checks = {
        "emulator_seeds": (
            len(seeds) == len(config.schedule),
            f"{len(config.schedule)} seeds, one for each visit",
        ),
        "default_action_idx": (
            config.default_action_idx < len(GLOBAL_ACTION_SET),
            f"an action from 0 … {len(GLOBAL_ACTION_SET) - 1}",
        ),
        "schedule": (
            [visit.visit_idx for visit in config.schedule]
            == list(range(len(config.schedule))),
            "visits in order, counted from 0",
        ),
    }
    for name, (is_sound, expected) in checks.items():
        if not is_sound:
            raise DocumentError(f"config.json {name}: expected {expected}")
    for game_id in {visit.game_id for visit in config.schedule}:
        try:
            find_machine(game_id).read_rom(game_id)
        except ConfigError as error:
            raise CannotVerifyError(f"cannot be replayed here: {error}") from error
    try:
        track_of(config).make_driver(config)
    except (ConfigError, DocumentError) as error:
        raise CannotVerifyError(f"cannot be replayed here: {error}") from error


def _check_complete(run: RunDirectory) -> None:
    total = run.config.total_frames
    state = run.status.state if run.status is not None else "COMPLETED"
    for name in ("events.jsonl", "digests.jsonl", "run_summary.json"):
        if not (run.path / name).is_file() and state == "COMPLETED":
            raise DocumentError(f"{name}: missing in {run.path}")
    if state == "COMPLETED" and not has_evidence(run.summary):
        raise DocumentError(
            f"{run.path}: no evidence: run_summary.json has no chain_head, rows or "
            "score_sha256 to verify; the run can only be claimed"
        )
    frames, events = 0, run.path / "events.jsonl"
    if events.is_file() and events.stat().st_size > total * LONGEST_ROW_BYTES:
        raise DocumentError(
            f"{events.name}: expected {total:,} rows, found {events.stat().st_size:,} "
            "bytes, which are too many for that"
        )
    if events.is_file():
        frames = index_lines(events, ()).line_count
    if frames < total or state != "COMPLETED":
        raise IncompleteRunError(
            f"{run.path}: the run is not complete: it has {min(frames, total):,} of "
            f"{total:,} {track_of(run.config).frame_noun}s and its state is {state}; "
            "finish it first"
        )


def _pick_visits(tasks: list[VisitTask], visits: Sequence[int]) -> list[VisitTask]:
    unknown = [visit for visit in visits if not 0 <= visit < len(tasks)]
    if unknown:
        raise ConfigError(f"--visit: expected 0 … {len(tasks) - 1}, found {unknown[0]}")
    return [task for task in tasks if not visits or task.visit_idx in visits]


# --- Differences ----------------------------------------------------------------


def _find_gaps(outcomes: Sequence[VisitOutcome]) -> list[RowDifference]:
    """Visits whose ids do not continue those of the visit before."""
    found = []
    expected = RowIds(0, 0)
    for outcome in outcomes:
        for name in RowIds._fields:
            logged, due = getattr(outcome.first_ids, name), getattr(expected, name)
            if logged != due and outcome.difference is None:
                frame = outcome.first_frame
                found.append(
                    RowDifference(
                        ROW_FILES[0], frame + 1, frame, name, str(logged), str(due)
                    )
                )
        expected = outcome.next_ids
    return found


def _first_of(found: Sequence[RowDifference], config: RunConfig) -> Difference | None:
    """The difference with the lowest frame, with its visit and game."""
    if not found:
        return None
    first = min(found, key=lambda difference: difference.frame)
    visit, span = next(
        (visit, span)
        for visit, span in zip(
            config.played_schedule, visit_spans(config.played_schedule), strict=True
        )
        if first.frame in span
    )
    first_frame = first.frame
    if first.file == "digests.jsonl":  # it covers all frames since the row before
        first_frame -= span.index(first.frame) % BLOCK_FRAMES
    return Difference(
        visit_idx=visit.visit_idx,
        game_id=visit.game_id,
        first_frame_idx=first_frame,
        last_frame_idx=first.frame,
        file=first.file,
        line=first.line,
        field=first.field,
        logged=first.logged,
        replayed=first.found,
    )


def _refuse_other_emulator(config: RunConfig, difference: Difference | None) -> None:
    """Refuses a verdict if the emulator or a ROM is not the run's own.

    A broken chain is a verdict anyway: it depends on bytes, not on the emulator.
    """
    if difference is None or difference.field == "chain":
        return
    others = compare_emulators(config)
    if others:
        raise CannotVerifyError(
            f"cannot verify here: {'; '.join(others)}. With the versions installed "
            f"here the run differs at {difference}. Install the versions it was made "
            "with, and verify again"
        )


def compare_emulators(config: RunConfig) -> list[str]:
    """Describes how emulator and ROMs differ from those a run was made with."""
    others = []
    machine = machine_of(config.games)
    made_with = (config.versions or {}).get(machine.name, "an unnamed version")
    if made_with != machine.read_version():
        package = machine.name.replace("_", "-")
        others.append(
            f"the run was made with {package} {made_with}, found "
            f"{machine.read_version()} here"
        )
    hashes = config.rom_sha256 or {}
    for game_id in dict.fromkeys(visit.game_id for visit in config.schedule):
        found = machine.read_rom(game_id).sha256
        if hashes.get(game_id) != found:
            others.append(
                f"the run was made with the ROM {hashes.get(game_id)} of {game_id}, "
                f"found {found} here"
            )
    return others


def _read_versions(config: RunConfig) -> dict[str, str]:
    """The versions that this verification uses."""
    machine = find_machine(config.schedule[0].game_id)
    return {
        "python": platform.python_version(),
        machine.name: machine.read_version(),
        "numpy": np.__version__,
        "longplay": longplay_version(),
    }
