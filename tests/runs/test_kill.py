"""Whatever stops a run, and whenever: it goes on, to the bytes it would have had.

The process is killed at random moments (also while it saves, checkpoints, cuts files
back or loads), asked to stop, or its disk fails; its files are cut. After every blow
nobody calls the run complete; after the last try, nobody can tell that there was one.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from killing import PLACES, Blow, find_run_dir, read_result, read_status
from scenarios import SCENARIOS, Reference, Stopped

from longplay.contract.rundir import ROW_FILES
from longplay.experiments.experiment import view_runs

KILLS_PER_TRIAL = 4


@pytest.fixture
def check_unfinished(invoke: Callable[..., Any]) -> Callable[..., None]:
    def check_unfinished(out: Path, reference: Reference, why: object) -> None:
        """Nobody takes a run for complete that is not."""
        if not (out / "experiment_config.json").exists():
            return
        (view,) = view_runs(out)
        if view.state == "COMPLETED":  # what was struck came after the run
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
        """Nobody can tell that the run was ever stopped."""
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


def choose_blow(rng: random.Random, reference: Reference, tries: int) -> Blow:
    """Somewhere in what is still to be played; cuts and loads come with resuming."""
    place = rng.choice([p for p in PLACES if p in reference.comings])
    if tries and rng.random() < 0.25:
        place = rng.choice(("ftruncate", "load"))
    most = reference.comings.get(place, 4 if place == "ftruncate" else 1)
    return Blow(place, rng.randint(1, max(1, most // (tries + 1))))


def kill_and_resume(
    reference: Reference, out: Path, seed: str, check_unfinished: Callable[..., None]
) -> list[Blow]:
    """Plays a run to its end in spite of it all; what has killed it on the way."""
    rng = random.Random(seed)
    blows: list[Blow] = []
    for tries in range(KILLS_PER_TRIAL):
        blow = choose_blow(rng, reference, tries)
        ended = reference.scenario.run(out, blow=blow)
        if ended.exit_code == 0:
            return blows
        blows.append(blow)
        assert ended.exit_code == -signal.SIGKILL, (seed, blows, ended.output)
        check_unfinished(out, reference, (seed, blows))
    ended = reference.scenario.run(out)
    assert ended.exit_code == 0, (seed, blows, ended.output)
    return blows


@pytest.mark.parametrize(
    ("name", "kills"),
    [("every frame", 4), ("control", 4), ("functional", 4), ("replayed", 4)],
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
        blows = kill_and_resume(reference, out, seed, check_unfinished)
        check_finished(out, reference, (seed, blows))
        killed, trial = killed + len(blows), trial + 1


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_run_ends_with_the_same_bytes_at_many_moments(
    name: str,
    reference_of: Callable[[str], Reference],
    tmp_path: Path,
    check_unfinished: Callable[..., None],
    check_finished: Callable[..., None],
) -> None:
    test_killed_run_ends_with_the_same_bytes(
        name, 30, reference_of, tmp_path, check_unfinished, check_finished
    )


# --- asked to stop ----------------------------------------------------------------


@pytest.mark.parametrize(
    "blow",
    [
        Blow("frame", 1),
        Blow("frame", 130),
        Blow("os_write", 1),
        Blow("os_fsync", 16),
        Blow("os_replace", 12),
        Blow("save", 2),
    ],
    ids=lambda blow: f"{blow.place} {blow.n}",
)
@pytest.mark.parametrize(
    ("name", "exit_code", "state"),
    [
        ("SIGTERM", 75, "QUEUED"),
        ("SIGUSR1", 75, "QUEUED"),
        ("SIGINT", 130, "CANCELLED"),
    ],
)
def test_run_that_is_asked_to_stop_says_so_and_goes_on(
    name: str,
    exit_code: int,
    state: str,
    blow: Blow,
    reference_of: Callable[[str], Reference],
    tmp_path: Path,
    check_unfinished: Callable[..., None],
    check_finished: Callable[..., None],
) -> None:
    reference, out = reference_of("rare"), tmp_path / "out"
    blow = replace(blow, signal=getattr(signal, name))
    ended = reference.scenario.run(out, blow=blow)
    assert ended.exit_code == exit_code, ended.output
    if (run_dir := find_run_dir(out)) is not None:  # else it had not begun
        assert read_status(run_dir)["state"] == state
    check_unfinished(out, reference, blow)
    ended = reference.scenario.run(out)
    assert ended.exit_code == 0, ended.output
    check_finished(out, reference, blow)


def test_run_that_is_stopped_loses_no_frame(
    reference_of: Callable[[str], Reference], tmp_path: Path
) -> None:
    reference, out = reference_of("control"), tmp_path / "out"
    played = 0
    for n in (20, 40, 10_000):
        blow = Blow("frame", n, signal.SIGTERM)
        ended = reference.scenario.run(out, blow=blow)
        # It stops at the next look at the clock, and goes on from there.
        played += ended.comings["frame"]
    assert ended.exit_code == 0
    assert played == reference.comings["frame"]


# --- files cut --------------------------------------------------------------------


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("file", ROW_FILES)
def test_file_cut_at_a_random_byte_is_made_whole(
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
    # Before the checkpoint everything is played again, after it only what is new.
    is_replayed = ended.comings["frame"] == reference.comings["frame"]
    assert is_replayed == (side == "before")
    check_finished(stopped.out, reference, (file, size))


# --- a disk that fails ------------------------------------------------------------

ERRORS = {"full disk": errno.ENOSPC, "I/O error": errno.EIO}
CALLS = ("os_write", "os_fsync", "os_replace")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("error", ERRORS)
def test_run_gets_through_a_disk_that_fails_ever_later(
    error: str,
    call: str,
    reference_of: Callable[[str], Reference],
    tmp_path: Path,
    check_unfinished: Callable[..., None],
    check_finished: Callable[..., None],
) -> None:
    """Every try fails at one call more than the last, and goes on from there."""
    reference, out = reference_of("tiny"), tmp_path / "out"
    for n in itertools.count(1):
        blow = Blow(call, n, error=ERRORS[error])
        ended = reference.scenario.run(out, blow=blow)
        if ended.exit_code == 0:
            break
        assert ended.exit_code == 1, (blow, ended.output)
        assert os.strerror(ERRORS[error]) in ended.words, blow
        check_unfinished(out, reference, blow)
    assert n > 5
    check_finished(out, reference, error)


@pytest.mark.exhaustive
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("error", ERRORS)
def test_run_goes_on_after_a_failure_at_every_call(
    error: str,
    call: str,
    reference_of: Callable[[str], Reference],
    tmp_path: Path,
    check_unfinished: Callable[..., None],
    check_finished: Callable[..., None],
) -> None:
    reference = reference_of("tiny")
    for n in range(1, reference.comings[call] + 1):
        blow, out = Blow(call, n, error=ERRORS[error]), tmp_path / str(n)
        ended = reference.scenario.run(out, blow=blow)
        assert ended.exit_code == 1, (blow, ended.output)
        assert os.strerror(ERRORS[error]) in ended.words, blow
        check_unfinished(out, reference, blow)
        ended = reference.scenario.run(out)
        assert ended.exit_code == 0, (blow, ended.output)
        check_finished(out, reference, blow)
