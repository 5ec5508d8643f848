"""The information barrier of the control track: pixels, a reward, two flags.

As in `test_barrier`, a witness records everything it gets over whole runs, on the
emulator and on the scripted console, and its notes are checked against the run's own
files and against the console, replayed from the log.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longplay
from longplay.console.ale import AleConsole
from longplay.console.scripted import ScriptedConsole
from longplay.contract.rundir import ROW_FILES
from playing import play_run

WITNESS = """
import zlib

inits, calls = [], []

def init(*args, **kwargs):
    inits.append((args, kwargs))
    return 0

def step(state, previous_observation, observation, reward, info):
    crcs = zlib.crc32(previous_observation.tobytes()), zlib.crc32(observation.tobytes())
    calls.append((previous_observation, observation, reward, info, dict(info), crcs))
    if len(calls) > 150:
        calls[-150] = (None, None, *calls[-150][2:])
    return state + 1, state // 2 * 7 % 18
"""
VANDAL = """
kept = []

def init(observation_shape, num_actions):
    return 0

def step(state, previous_observation, observation, reward, info):
    kept.append(observation)
    for array in (*kept[-4:], previous_observation):
        array[:] = 255
    info.update(terminated=None, truncated=None, game_id="stolen")
    return state + 1, state // 2 * 7 % 18
"""


def make_scripted(frame_skip: int, **options: Any) -> ScriptedConsole:
    """A game is over after about ten frames; half the actions are missing."""
    return ScriptedConsole(
        life_frames=5, actions=range(0, 18, 2), frame_skip=frame_skip
    )


CONSOLES: dict[str, Any] = {"scripted": make_scripted, "emulator": AleConsole}
SETTINGS: dict[str, dict[str, Any]] = {
    "scripted": {"games": ["pong", "breakout", "qbert"], "base_visit_frames": 90},
    "emulator": {"games": ["breakout", "asterix"], "base_visit_frames": 300},
}


def run_source(source: str, name: str, kind: str, folder: Path) -> Path:
    path = folder / f"{name}.py"
    path.write_text(source)
    with pytest.MonkeyPatch.context() as patch:
        if kind == "scripted":
            patch.setattr(
                AleConsole,
                "from_config",
                lambda config: make_scripted(config.frame_skip),
            )
        result = play_run(
            "control-smoke-v1", str(path), out=folder / "run", overrides=SETTINGS[kind]
        )
    assert result.report.is_valid
    return result.run_dir


@dataclass(frozen=True)
class Testimony:
    """A witness's notes, and the run they are about."""

    __test__ = False

    inits: list[Any]
    calls: list[Any]
    run_dir: Path
    kind: str

    @property
    def rows(self) -> dict[str, Any]:
        return longplay.read_run(self.run_dir).events.numpy()


@pytest.fixture(scope="module", params=list(SETTINGS))
def testimony(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Testimony:
    kind = request.param
    folder = tmp_path_factory.mktemp("witness")
    run_dir = run_source(WITNESS, f"witness_{kind}", kind, folder)
    module: Any = sys.modules[f"longplay_agent_witness_{kind}"]
    return Testimony(module.inits, module.calls, run_dir, kind)


def test_runs_have_every_kind_of_boundary(testimony: Testimony) -> None:
    rows = testimony.rows
    assert (rows["terminated"] & ~rows["truncated"]).any()
    assert rows["truncated"].sum() == len(SETTINGS[testimony.kind]["games"])
    assert (rows["emulator_frames"] < 4).any()


@pytest.mark.seed("003", "control-1")
def test_init_is_called_once_with_shape_and_actions(testimony: Testimony) -> None:
    assert testimony.inits == [(((210, 160, 3), 18), {})]


@pytest.mark.seed("003", "control-2")
def test_every_timestep_is_a_call(testimony: Testimony) -> None:
    assert len(testimony.calls) == len(testimony.rows["reward"])


@pytest.mark.seed("003", "control-4..7")
def test_state_is_passed_on_and_its_action_is_taken(testimony: Testimony) -> None:
    """The witness counts its calls in its state, and chooses by the count."""
    actions = [count // 2 * 7 % 18 for count in range(len(testimony.calls))]
    assert testimony.rows["applied_action_idx"].tolist() == actions


@pytest.mark.seed("003", "control-2")
def test_step_gets_plain_values_that_do_not_name_the_game(testimony: Testimony) -> None:
    for _, observation, reward, info, _, _ in testimony.calls:
        if observation is not None:
            kind = (type(observation), observation.dtype, observation.shape)
            assert kind == (np.ndarray, np.uint8, (210, 160, 3))
        assert type(reward) is float
        assert set(info) == {"terminated", "truncated"}
        assert {type(value) for value in info.values()} == {bool}


@pytest.mark.seed("003", "intro-3")
def test_reward_and_flags_are_those_of_the_timestep_before(
    testimony: Testimony,
) -> None:
    rows = testimony.rows
    given = [(c[2], c[4]["terminated"], c[4]["truncated"]) for c in testimony.calls]
    names = ("reward", "terminated", "truncated")
    logged = list(zip(*(rows[name].tolist() for name in names), strict=True))
    assert given == [(0.0, False, False), *logged[:-1]]
    assert {reward for reward, _, _ in given} >= {0.0, 1.0}


def replay(testimony: Testimony) -> Iterator[int]:
    """The CRC of the console's pixels before each timestep, frame by frame."""
    config = longplay.read_run(testimony.run_dir).config
    options = {"sticky": config.sticky, "full_action_space": True}
    console = CONSOLES[testimony.kind](frame_skip=1, **options)
    columns = testimony.rows
    names = ("game_id", "visit_idx", "applied_action_idx", "emulator_frames")
    was_over, last_visit = False, -1
    for row in zip(*(columns[name].tolist() for name in names), strict=True):
        game_id, visit_idx, action, frames = row
        if visit_idx != last_visit:
            console.start_visit(game_id, (config.emulator_seeds or ())[visit_idx])
        elif was_over:
            console.reset()
        yield zlib.crc32(console.observation().tobytes())
        for _ in range(frames):
            _, was_over, _ = console.step(action if action in console.actions else 0)
        last_visit = visit_idx


@pytest.mark.seed("003", "intro-2", "intro-3")
def test_observations_are_those_of_the_console(testimony: Testimony) -> None:
    shown = list(replay(testimony))
    assert [call[5][1] for call in testimony.calls] == shown
    assert [call[5][0] for call in testimony.calls] == [shown[0], *shown[:-1]]


def test_arguments_never_change_after_the_call(testimony: Testimony) -> None:
    for _, observation, _, info, noted, crcs in testimony.calls:
        assert info == noted
        if observation is not None:
            assert zlib.crc32(observation.tobytes()) == crcs[1]


def test_agent_that_overwrites_its_arguments_does_not_change_the_run(
    testimony: Testimony, tmp_path: Path
) -> None:
    kind = testimony.kind
    run_dir = run_source(VANDAL, f"vandal_{kind}", kind, tmp_path)
    for name in ROW_FILES:
        written = (run_dir / name).read_bytes()
        assert written == (testimony.run_dir / name).read_bytes(), name
        assert written
