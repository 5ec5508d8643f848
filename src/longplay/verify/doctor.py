"""Checks that this machine's emulator behaves like the one the scores were made with.

For every game of the suites longplay ships a trace: 2,000 fixed actions on a fixed
emulator seed, with the sum of rewards and a rolling CRC-32 of the memory recorded every
100 frames. The doctor plays the same actions here. It also checks everything else that
affects scores: versions, ROMs, the random draws of the schedule, and free disk space.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from longplay.console.ale import ALE_VERSION, AleConsole, read_rom
from longplay.contract.config import GLOBAL_ACTION_SET, ScheduledVisit
from longplay.contract.documents import SCHEMA_VERSION, Document
from longplay.contract.files import read_document
from longplay.errors import ConfigError
from longplay.plan import plan_run
from longplay.stream import Mechanics, Stream
from longplay.suites import SUITES

TRACES = Path(__file__).parent / "data" / "traces.json"
_FRAMES = 2_000
_NOTE_EVERY = 100
_EMULATOR_SEED = 2044266242
_STICKY = 0.25
# The suite whose schedule is drawn again, and the one that must fit on the disk.
SCHEDULE_SUITE = "stream-8x3-v1"
_DISK_SUITE = "stream-3x2-v1"

State = Literal["ok", "note", "differs"]


class GameTrace(Document):
    """The rewards and memory of a game on the fixed actions."""

    rom_sha256: str
    reward_sums: tuple[float, ...]
    ram_crc32: tuple[str, ...]


class Traces(Document):
    """data/traces.json: the traces of all suites' games, from one emulator version."""

    schema_version: int = SCHEMA_VERSION
    versions: dict[str, str]
    schedule_hash: str
    games: dict[str, GameTrace]


@dataclass(frozen=True)
class Symptom:
    """The result of one check.

    Attributes:
        name: What was checked.
        state: `ok`; `note` if it differs without affecting scores; `differs`.
        found: The value on this machine.
        expected: The value the scores were made with.
        meaning: The consequence; empty if the state is `ok`.
    """

    name: str
    state: State
    found: str
    expected: str
    meaning: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """The results of all checks: of the machine, then of each game."""

    machine: tuple[Symptom, ...]
    games: tuple[Symptom, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether nothing differs."""
        return all(s.state != "differs" for s in (*self.machine, *self.games))

    def to_json(self) -> dict[str, Any]:
        """The diagnosis as plain JSON values."""
        return {
            "healthy": self.is_healthy,
            "machine": [asdict(symptom) for symptom in self.machine],
            "games": [asdict(symptom) for symptom in self.games],
        }


def list_suite_games() -> list[str]:
    """Every game of any suite, by name."""
    return sorted({game for suite in SUITES.values() for game in suite.games})


def _watch_nothing(game_id: str) -> None:
    pass


def diagnose(folder: Path, watch: Callable[[str], None] = _watch_nothing) -> Diagnosis:
    """Runs all checks.

    Args:
        folder: Where runs would be written.
        watch: Called with each game before it is played.
    """
    traces = read_document(TRACES, Traces)
    games = []
    for game_id in list_suite_games():
        watch(game_id)
        games.append(_examine_game(game_id, traces.games.get(game_id)))
    return Diagnosis(tuple(_examine_machine(traces, folder)), tuple(games))


# --- The machine ----------------------------------------------------------------


def _examine_machine(traces: Traces, folder: Path) -> Iterator[Symptom]:
    versions: tuple[tuple[str, str, State, str], ...] = (
        (
            "Python",
            platform.python_version(),
            "note",
            "scores do not depend on it; an agent may",
        ),
        (
            "ale-py",
            ALE_VERSION,
            "differs",
            "this version may emulate differently; see the games below",
        ),
        (
            "numpy",
            np.__version__,
            "note",
            "agents may draw different numbers; see the schedule below for suites",
        ),
    )
    for name, found, state, meaning in versions:
        made_with = traces.versions[name.lower().replace("-", "_")]
        yield _compare(name, found, made_with, meaning, state)
    yield _examine_schedule(traces.schedule_hash)
    yield _examine_disk(folder)


def _compare(
    name: str, found: str, expected: str, meaning: str, state: State = "differs"
) -> Symptom:
    if found == expected:
        return Symptom(name, "ok", found, expected)
    return Symptom(name, state, found, expected, meaning)


def _examine_schedule(expected: str) -> Symptom:
    found = plan_run(SCHEDULE_SUITE).config.benchmark_contract_hash
    meaning = "schedules are drawn differently here: runs are not comparable"
    return _compare("schedule", found[:16], expected[:16], meaning)


def _examine_disk(folder: Path) -> Symptom:
    free = shutil.disk_usage(folder).free
    needed = plan_run(_DISK_SUITE).expected_bytes
    is_enough = free >= needed
    return Symptom(
        "free disk",
        "ok" if is_enough else "differs",
        f"{free / 1e9:,.1f} GB",
        f"{needed / 1e9:,.1f} GB",
        "" if is_enough else f"a run of {_DISK_SUITE} does not fit",
    )


# --- The games ------------------------------------------------------------------


def _examine_game(game_id: str, expected: GameTrace | None) -> Symptom:
    try:
        found = trace_game(game_id)
    except ConfigError as error:
        return Symptom(game_id, "differs", "no ROM", "a ROM", str(error))
    if expected is None:
        meaning = "this longplay has no trace of the game to compare with"
        return Symptom(game_id, "differs", _describe(found), "a trace", meaning)
    meaning = _explain(found, expected)
    state: State = "differs" if meaning else "ok"
    return Symptom(game_id, state, _describe(found), _describe(expected), meaning)


def _describe(trace: GameTrace) -> str:
    return f"{trace.reward_sums[-1]:g} {trace.ram_crc32[-1]}"


def _explain(found: GameTrace, expected: GameTrace) -> str:
    """Explains how a game's trace differs; empty if it does not."""
    pairs = zip(
        zip(found.reward_sums, found.ram_crc32, strict=True),
        zip(expected.reward_sums, expected.ram_crc32, strict=True),
        strict=False,
    )
    for position, (here, there) in enumerate(pairs):
        if here != there:
            first = position * _NOTE_EVERY
            what = "rewards" if here[0] != there[0] else "memory"
            return (
                f"{what} differ from frames {first} … {first + _NOTE_EVERY - 1} on: "
                "its scores are not comparable"
            )
    if found.rom_sha256 != expected.rom_sha256:
        return "a different ROM file, whose trace is the same"
    return ""


def trace_game(game_id: str) -> GameTrace:
    """Plays the fixed actions on a game."""
    rom = read_rom(game_id)
    visit = ScheduledVisit(
        visit_idx=0, cycle_idx=0, game_id=game_id, visit_frames=_FRAMES
    )
    console = AleConsole(sticky=_STICKY, full_action_space=True)
    stream = Stream([visit], [_EMULATOR_SEED], console, Mechanics())
    reward_sum, reward_sums, memory = 0.0, [], []
    for frame in range(_FRAMES):
        reward_sum += stream.advance(choose_action(frame)).reward
        if (frame + 1) % _NOTE_EVERY == 0:
            reward_sums.append(reward_sum)
            memory.append(f"{stream.ram_crc32:08x}")
    return GameTrace(
        rom_sha256=rom.sha256,
        reward_sums=tuple(reward_sums),
        ram_crc32=tuple(memory),
    )


def choose_action(frame: int) -> int:
    """The fixed actions: all of them in turn, each held for four frames."""
    return frame // 4 * 7 % len(GLOBAL_ACTION_SET)
