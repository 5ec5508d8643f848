"""A run that is stopped at any moment resumes, bit-identical to an uninterrupted run.

The process is killed at random moments (also while it saves, checkpoints, truncates or
loads), asked to stop, or its disk fails; its files are truncated. After every fault the
run must not count as complete; after the last try it must show no trace of the faults.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scenarios import SCENARIOS, Reference, Stopped

from kill_counts import KillCounts
from killing import PLACES, Fault, find_run_dir, read_result, read_status
from longplay.contract.rundir import ROW_FILES
from longplay.experiments.experiment import view_runs

KILLS_PER_TRIAL = 4


@pytest.fixture
def check_unfinished(invoke: Callable[..., Any]) -> Callable[..., None]:
    def check_unfinished(out: Path, reference: Reference, why: object) -> None:
        """No command takes an incomplete run for complete."""
        if not (out / "experiment_config.json").exists():
            return
        (view,) = view_runs(out)
        if view.state == "COMPLETED":  # the fault came after the run
            assert read_result(view.run_dir) == reference.result, why
            return
        if view.run_dir.exists():
            assert invoke("validate", view.run_dir).exit_code != 0, why
            assert invoke("score", view.run_dir).exit_code != 0, why
        shown = invoke("status", out, "--json").json
        assert [run["state"] for run in shown] == [view.state]

    return check_unfinished


@pytest.fixture
def check_finished(invoke: Callable[..., Any]) -> Callable[..., None]:
    def check_finished(out: Path, reference: Reference, why: object) -> None:
        """The run is the same as one that was never stopped."""
        run_dir = find_run_dir(out)
        assert run_dir is not None
        result = read_result(run_dir)
        for name, expected in reference.result.items():
            assert result[name] == expected, (name, why)
        answer = invoke("validate", run_dir)
        assert answer.exit_code == 0, (answer.stdout, why)
        assert not (run_dir / "checkpoint").exists(), why
        assert not (run_dir / ".reserve").exists(), why

    return check_finished


# --- killed -----------------------------------------------------------------------


def choose_fault(
    rng: random.Random, reference: Reference, tries: int, isolation: str = "none"
) -> Fault:
    """A fault in the rest of the run; truncations and loads need a resumed run."""
    if isolation != "none" and rng.random() < 0.3:
        frame = rng.randint(1, max(1, reference.counts["frame"] // (tries + 1)))
        return Fault("frame", frame, is_at_agent=True)
    place = rng.choice([p for p in PLACES if p in reference.counts])
    if tries and rng.random() < 0.25:
        place = rng.choice(("ftruncate", "load"))
    most = reference.counts.get(place, 4 if place == "ftruncate" else 1)
    return Fault(place, rng.randint(1, max(1, most // (tries + 1))))


def kill_and_resume(
    reference: Reference,
    out: Path,
    seed: str,
    check_unfinished: Callable[..., None],
    isolation: str = "none",
) -> list[Fault]:
    """Plays a run to its end despite the faults; returns those that killed it."""
    rng = random.Random(seed)
    faults: list[Fault] = []
    level = ("--isolate", isolation)
    for tries in range(KILLS_PER_TRIAL):
        fault = choose_fault(rng, reference, tries, isolation)
        ended = reference.scenario.run(out, *level, fault=fault)
        if ended.exit_code == 0:
            return faults
        faults.append(fault)
        expected = 1 if fault.is_at_agent else -signal.SIGKILL
        assert ended.exit_code == expected, (seed, faults, ended.output)
        check_unfinished(out, reference, (seed, faults))
    ended = reference.scenario.run(out, *level)
    assert ended.exit_code == 0, (seed, faults, ended.output)
    return faults


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "kills"),
    [("functional", 2), ("every frame", 4), ("control", 4), ("replayed", 2)],
)
def test_killed_run_ends_with_the_same_bytes(
    name: str,
    kills: int,
    reference_of: Callable[[str], Reference],
    tmp_path: Path,
    check_unfinished: Callable[..., None],
    check_finished: Callable[..., None],
) -> None:
    reference, killed, trial = reference_of(name), 0, 0
    while killed < kills:
        out, seed = tmp_path / str(trial), f"{name} {trial}"
        faults = kill_and_resume(reference, out, seed, check_unfinished)
        check_finished(out, reference, (seed, faults))
        killed, trial = killed + len(faults), trial + 1


# Level -> kills; a thousand with those of Ray's workers and of probes.
_DUE = {"none": 400, "process": 270, "sandbox": 270}


@pytest.mark.kills
@pytest.mark.exhaustive
@pytest.mark.parametrize("level", _DUE)
def test_hundreds_of_kills(
    level: str,
    reference_of: Callable[[str], Reference],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    check_unfinished: Callable[..., None],
    check_finished: Callable[..., None],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    counts, names = KillCounts(f"run, {level}"), list(SCENARIOS)
    for trial in counts.trials(_DUE[level]):
        name = names[trial % len(names)]
        reference, out = reference_of(name), tmp_path / "out"
        seed = f"{level} {name} {trial}"
        faults = kill_and_resume(reference, out, seed, check_unfinished, level)
        check_finished(out, reference, (seed, faults))
        at_agents = sum(fault.is_at_agent for fault in faults)
        counts.add(trial, len(faults), max(len(faults) - 1, 0), at_agents)
        shutil.rmtree(out)


@pytest.mark.exhaustive
def test_scenarios_have_every_kind_of_boundary(
    reference_of: Callable[[str], Reference],
) -> None:
    """(Game over or a lost life, console reset, end of the visit) of every end."""
    found = set()
    for name in SCENARIOS:
        rows = reference_of(name).result
        resets = {
            json.loads(line)["end_global_frame_idx"]
            for line in rows["segments.jsonl"].splitlines()
        }
        for event in map(json.loads, rows["events.jsonl"].splitlines()):
            flags = event["terminated"], event["truncated"]
            if any(flags):
                found.add((flags[0], event["global_frame_idx"] in resets, flags[1]))
    assert found >= {
        (True, True, False),  # game over
        (True, False, False),  # a lost life
        (False, True, True),  # the visit's end
    }


# --- asked to stop ----------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "fault",
    [
        Fault("frame", 1),
        Fault("frame", 130),
        Fault("os_write", 1),
        Fault("os_fsync", 16),
        Fault("os_replace", 12),
        Fault("save", 2),
    ],
    ids=lambda fault: f"{fault.place} {fault.n}",
)
@pytest.mark.parametrize(
    ("name", "exit_code", "state"),
    [
        ("SIGTERM", 75, "QUEUED"),
        pytest.param("SIGUSR1", 75, "QUEUED", marks=pytest.mark.exhaustive),
        ("SIGINT", 130, "CANCELLED"),
    ],
)
def test_run_that_is_asked_to_stop_says_so_and_resumes(
    name: str,
    exit_code: int,
    state: str,
    fault: Fault,
    reference_of: Callable[[str], Reference],
    tmp_path: Path,
    check_unfinished: Callable[..., None],
    check_finished: Callable[..., None],
) -> None:
    reference, out = reference_of("rare"), tmp_path / "out"
    fault = replace(fault, signal=getattr(signal, name))
    ended = reference.scenario.run(out, fault=fault)
    assert ended.exit_code == exit_code, ended.output
    if (run_dir := find_run_dir(out)) is not None:  # else it had not started
        assert read_status(run_dir)["state"] == state
    check_unfinished(out, reference, fault)
    ended = reference.scenario.run(out)
    assert ended.exit_code == 0, ended.output
    check_finished(out, reference, fault)


def test_run_that_is_stopped_loses_no_frame(
    reference_of: Callable[[str], Reference], tmp_path: Path
) -> None:
    reference, out = reference_of("control"), tmp_path / "out"
    played = 0
    for n in (20, 40, 10_000):
        fault = Fault("frame", n, signal.SIGTERM)
        ended = reference.scenario.run(out, fault=fault)
        # It stops at the next read of the clock, and resumes from there.
        played += ended.counts["frame"]
    assert ended.exit_code == 0
    assert played == reference.counts["frame"]


# --- truncated files --------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("file", ROW_FILES)
def test_file_truncated_at_a_random_byte_is_restored(
    file: str,
    side: str,
    stopped: Stopped,
    check_unfinished: Callable[..., None],
    check_finished: Callable[..., None],
) -> None:
    reference, path = stopped.reference, stopped.run_dir / file
    at, end = stopped.kept_bytes[file], path.stat().st_size
    rng = random.Random(f"{file} {side}")
    size = rng.randrange(at) if side == "before" else rng.randrange(at, end)
    os.truncate(path, size)
    check_unfinished(stopped.out, reference, (file, size))
    ended = reference.scenario.run(stopped.out)
    assert ended.exit_code == 0, (size, ended.output)
    # Before the checkpoint everything is replayed, after it only the later frames.
    is_replayed = ended.counts["frame"] == reference.counts["frame"]
    assert is_replayed == (side == "before")
    check_finished(stopped.out, reference, (file, size))


# --- a disk that fails ------------------------------------------------------------

ERRORS = {"full disk": errno.ENOSPC, "I/O error": errno.EIO}
CALLS = ("os_write", "os_fsync", "os_replace")


@pytest.mark.exhaustive
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("error", ERRORS)
def test_run_completes_on_a_disk_that_fails_later_in_every_try(
    error: str,
    call: str,
    reference_of: Callable[[str], Reference],
    tmp_path: Path,
    check_unfinished: Callable[..., None],
    check_finished: Callable[..., None],
) -> None:
    """Every try fails one call later than the last, and resumes from there."""
    reference, out = reference_of("tiny"), tmp_path / "out"
    for n in itertools.count(1):
        fault = Fault(call, n, error=ERRORS[error])
        ended = reference.scenario.run(out, fault=fault)
        if ended.exit_code == 0:
            break
        assert ended.exit_code == 1, (fault, ended.output)
        assert os.strerror(ERRORS[error]) in ended.words, fault
        check_unfinished(out, reference, fault)
    assert n > 5
    check_finished(out, reference, error)


@pytest.mark.exhaustive
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("error", ERRORS)
def test_run_resumes_after_a_failure_at_every_call(
    error: str,
    call: str,
    reference_of: Callable[[str], Reference],
    tmp_path: Path,
    check_unfinished: Callable[..., None],
    check_finished: Callable[..., None],
) -> None:
    reference = reference_of("tiny")
    for n in range(1, reference.counts[call] + 1):
        fault, out = Fault(call, n, error=ERRORS[error]), tmp_path / str(n)
        ended = reference.scenario.run(out, fault=fault)
        assert ended.exit_code == 1, (fault, ended.output)
        assert os.strerror(ERRORS[error]) in ended.words, fault
        check_unfinished(out, reference, fault)
        ended = reference.scenario.run(out)
        assert ended.exit_code == 0, (fault, ended.output)
        check_finished(out, reference, fault)
