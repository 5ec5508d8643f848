"""Run directory -> is it true? Judged by playing it again.

    claimed        its maker says so
    replayed       the logged decisions, played again, give every logged row, the
                   memory digests and the chain; and validation finds nothing
    re-executed    the agent itself decides all of it again

A difference under another emulator or ROM than the run's proves nothing, and is no
verdict. The verdict is kept in verification.json with the hashes of the files judged,
so that a later change to them shows.
"""

from __future__ import annotations

import platform
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import numpy as np

from longplay.console.machines import find_machine, machine_of
from longplay.contract.digests import BLOCK_FRAMES
from longplay.contract.files import write_document
from longplay.contract.records import (
    CONTRACT_VERSIONS,
    GLOBAL_ACTION_SET,
    Difference,
    RunConfig,
    VerificationRecord,
)
from longplay.contract.rundir import ROW_FILES, RunDirectory, find_run
from longplay.errors import (
    CannotVerifyError,
    ConfigError,
    ConsoleError,
    DocumentError,
    IncompleteRunError,
    RowDifference,
)
from longplay.provenance import longplay_version
from longplay.runs.loop import Observer
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
    """What playing a run again showed.

    Attributes:
        run_dir: The run.
        method: Whether its log was fed to the emulator, or its agent decided again.
        frames: Frames played again.
        visits: The visits that were; all of them unless some were asked for.
        difference: The first row or block that came out otherwise.
        report: What validation found; None if only some visits were asked for.
    """

    run_dir: Path
    method: Literal["replay", "re-execution"]
    frames: int
    visits: tuple[int, ...]
    difference: Difference | None
    report: Report | None

    @property
    def passed(self) -> bool:
        """Whether everything came out as logged, and validation found nothing."""
        is_valid = self.report is None or self.report.is_valid
        return self.difference is None and is_valid

    @property
    def is_whole(self) -> bool:
        """Whether the whole run was judged."""
        return self.report is not None

    def describe_failure(self) -> str:
        """Says in one line why it did not pass."""
        if self.difference is not None:
            return str(self.difference)
        shown = self.report.findings.shown if self.report else []
        return f"validation found: {shown[0]}" if shown else "nothing was found"

    def to_record(self) -> VerificationRecord:
        """How the verdict on a whole run is kept."""
        run = RunDirectory(self.run_dir)
        level = "replayed" if self.method == "replay" else "re-executed"
        return VerificationRecord(
            level=level if self.passed else "claimed",  # type: ignore[arg-type]
            method=self.method,
            passed=self.passed,
            first_difference=self.difference,
            findings=self._count_findings(),
            frames=self.frames,
            sha256=run.hash_verified_files(),
            versions=_read_versions(run.config),
        )

    def _count_findings(self) -> dict[str, int]:
        counts = self.report.findings.counts if self.report else {}
        return {str(kind): count for kind, count in counts.items()}

    def to_json(self) -> dict[str, Any]:
        """The verdict for machines."""
        return {
            "run_dir": str(self.run_dir),
            "passed": self.passed,
            "method": self.method,
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
) -> Verification:
    """Plays the log of a run again, and validates the run.

    Args:
        directory: A run directory, or an experiment with one run.
        workers: Processes that play. More than one are spawned, so a script that
            asks for them needs an `if __name__ == "__main__"`.
        visits: Some visits only; the rest is then not looked at.
        observer: Told how far it is.

    Raises:
        NotARunError: The folder holds no run, or several.
        IncompleteRunError: The run has not ended.
        DocumentError: A file without which nothing can be played is missing or broken.
        CannotVerifyError: It is not a run of longplay's, or it differs and was made
            with another emulator or ROM.
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
        report=None if visits else validate_run(run_dir, workers=workers),
    )


def reexecute(
    directory: str | Path,
    agent: str | None = None,
    *,
    workers: int = 1,
    observer: Observer = ignore_progress,
) -> Verification:
    """Lets the agent of a run decide it again, and validates the run.

    Args:
        directory: A run directory, or an experiment with one run.
        agent: Where the agent is, as for `run`; longplay's own need no reference.
        workers: Processes that validate; an agent lives in one.
        observer: Told how far it is.

    Raises:
        AgentLoadError: The agent cannot be loaded, or is not the one of the run.
        AgentError: The agent raised.
        LongplayError: As `verify_run`.
    """
    run_dir = find_run(Path(directory))
    config = read_replayable(run_dir)
    loaded = load_same_agent(config, agent)
    try:
        found = reexecute_run(run_dir, config, loaded, observer)
    except ConsoleError as error:
        raise CannotVerifyError(f"cannot be played here: {error}") from error
    difference = _first_of([found] if found else [], config)
    _refuse_other_emulator(config, difference)
    return Verification(
        run_dir=run_dir,
        method="re-execution",
        frames=config.total_frames,
        visits=tuple(visit.visit_idx for visit in config.played_schedule),
        difference=difference,
        report=validate_run(run_dir, workers=workers),
    )


def write_verification(verification: Verification) -> VerificationRecord:
    """Keeps the verdict on a whole run beside it."""
    record = verification.to_record()
    write_document(verification.run_dir / FILE_NAME, record)
    return record


# --- What can be judged ---------------------------------------------------------


def read_replayable(run_dir: Path) -> RunConfig:
    """The config of a complete run of longplay's own, sound enough to be played.

    Whether it says what its suite says is validation's to judge; here only what would
    end in anything but an answer is refused.
    """
    run = RunDirectory(run_dir)
    config = run.config
    if not config.is_longplay:
        raise CannotVerifyError(
            f"{run_dir}: expected a run of longplay's, found another tool's: it does "
            "not say how its emulator was seeded, so it cannot be played again"
        )
    check_playable(config)
    _check_complete(run)
    return config


def check_playable(config: RunConfig) -> None:
    """Refuses a config that no stream can be made of."""
    seeds = config.emulator_seeds or ()
    checks = {
        "benchmark_contract_version": (
            config.benchmark_contract_version in CONTRACT_VERSIONS,
            f"one of {', '.join(CONTRACT_VERSIONS)}",
        ),
        "emulator_seeds": (
            len(seeds) == len(config.schedule),
            f"{len(config.schedule)} seeds, one for each visit",
        ),
        "default_action_idx": (
            config.default_action_idx < len(GLOBAL_ACTION_SET),
            f"an action, 0 … {len(GLOBAL_ACTION_SET) - 1}",
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
            raise CannotVerifyError(f"cannot be played here: {error}") from error
    try:
        track_of(config).make_driver(config)
    except (ConfigError, DocumentError) as error:
        raise CannotVerifyError(f"cannot be played here: {error}") from error


def _check_complete(run: RunDirectory) -> None:
    total = run.config.total_frames
    state = run.status.state if run.status is not None else "COMPLETED"
    for name in ("events.jsonl", "digests.jsonl", "run_summary.json"):
        if not (run.path / name).is_file() and state == "COMPLETED":
            raise DocumentError(f"{name}: missing in {run.path}")
    frames = 0
    if (run.path / "events.jsonl").is_file():
        frames = index_lines(run.path / "events.jsonl", ()).line_count
    if frames < total or state != "COMPLETED":
        raise IncompleteRunError(
            f"{run.path}: the run is not complete: it has {min(frames, total):,} of "
            f"{total:,} frames and its state is {state}; play it to its end first"
        )


def _pick_visits(tasks: list[VisitTask], visits: Sequence[int]) -> list[VisitTask]:
    unknown = [visit for visit in visits if not 0 <= visit < len(tasks)]
    if unknown:
        raise ConfigError(f"--visit: expected 0 … {len(tasks) - 1}, found {unknown[0]}")
    return [task for task in tasks if not visits or task.visit_idx in visits]


# --- What was found -------------------------------------------------------------


def _find_gaps(outcomes: Sequence[VisitOutcome]) -> list[RowDifference]:
    """Visits whose ids do not go on where those of the last one ended."""
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
    """The difference with the lowest frame, placed in the run."""
    if not found:
        return None
    first = min(found, key=lambda difference: difference.frame)
    ends = list(accumulate(visit.visit_frames for visit in config.played_schedule))
    visit = config.played_schedule[bisect_right(ends, first.frame)]
    first_frame = first.frame
    if first.file == "digests.jsonl":  # it speaks of all frames since the row before
        visit_start = ends[visit.visit_idx] - visit.visit_frames
        first_frame -= (first.frame - visit_start) % BLOCK_FRAMES
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
    """A difference is a verdict only where the emulator is the run's own.

    A broken chain is one anywhere: it is about bytes, not about the emulator.
    """
    if difference is None or difference.field == "chain":
        return
    others = compare_emulators(config)
    if others:
        raise CannotVerifyError(
            f"cannot verify here: {'; '.join(others)}. Under what is installed here "
            f"the run differs at {difference}. Install what it was made with, and "
            "verify again"
        )


def compare_emulators(config: RunConfig) -> list[str]:
    """What of the emulator and the ROMs is not as it was in a run, both named."""
    others = []
    machine = machine_of(config.games)
    made_with = (config.versions or {}).get(machine.name, "an unnamed version")
    if made_with != machine.read_version():
        package = machine.name.replace("_", "-")
        others.append(
            f"the run was made with {package} {made_with}, here is "
            f"{machine.read_version()}"
        )
    hashes = config.rom_sha256 or {}
    for game_id in dict.fromkeys(visit.game_id for visit in config.schedule):
        found = machine.read_rom(game_id).sha256
        if hashes.get(game_id) != found:
            others.append(
                f"the run was made with the ROM {hashes.get(game_id)} of {game_id}, "
                f"here is {found}"
            )
    return others


def _read_versions(config: RunConfig) -> dict[str, str]:
    """The versions that judge."""
    machine = find_machine(config.schedule[0].game_id)
    return {
        "python": platform.python_version(),
        machine.name: machine.read_version(),
        "numpy": np.__version__,
        "longplay": longplay_version(),
    }
