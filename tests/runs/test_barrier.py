"""The information barrier: what an agent gets, and what it can do with it.

A witness records the type and content of everything it gets in runs with every kind of
boundary, on the emulator and on the scripted console. Its notes are checked against the
run's own files and against the console, replayed from the log.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longplay
from longplay.console.ale import AleConsole
from longplay.console.base import Console, Observation
from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import RunConfig
from longplay.stream import map_actions
from playing import play_run

INFO_TYPES = {
    "lives": int,
    "action_space_n": int,
    "is_decision_frame": bool,
    "global_frame_idx": int,
    "default_action_idx": int,
    "prev_applied_action_idx": int,
    "has_prev_applied_action": bool,
}
FORBIDDEN_KEYS = {
    "game_id",
    "visit_idx",
    "cycle_idx",
    "visit_frame_idx",
    "frames_remaining",
    "visit_frames",
    "episode_id",
    "segment_id",
}
ROW_FILES = ("events.jsonl", "episodes.jsonl", "segments.jsonl")
KEPT_FRAMES = 120
AGENT_SEED_OF_RUN_SEED_0 = 336614359


def choose(frame_idx: int) -> int:
    """The actions of every agent here: a function of the frame only."""
    return frame_idx // 4 * 7 % 18


class ShowsLives(ScriptedConsole):
    """The scripted console, with the number of lives in a pixel."""

    def observation(self) -> Observation:
        frame = super().observation()
        frame[1, 0, 0] = self.lives()
        return frame


def make_scripted(**options: Any) -> Console:
    """A game is over after about ten frames; half the actions are missing."""
    return ShowsLives(life_frames=4, actions=range(0, 18, 2))


def crc(observation: Observation) -> int:
    return zlib.crc32(observation.tobytes())


@dataclass
class Frame:
    """The arguments of one frame, as they were at that moment."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    observation_kind: tuple[Any, ...]
    observation_crc: int
    shown_lives: int
    info: dict[str, Any]


@dataclass
class Witness:
    """An agent that records everything it gets, and keeps the objects."""

    built_with: tuple[Any, ...] = ()
    frames: list[Frame] = field(default_factory=list)

    def build(self, *args: Any, **kwargs: Any) -> Witness:
        self.built_with = (args, kwargs)
        return self

    def step(self, *args: Any, **kwargs: Any) -> int:
        observation, *_, info = args
        frame = Frame(
            args if len(self.frames) < KEPT_FRAMES else (None, *args[1:]),
            kwargs,
            (type(observation), observation.dtype, observation.shape),
            crc(observation),
            int(observation[1, 0, 0]),
            dict(info),
        )
        self.frames.append(frame)
        return choose(info["global_frame_idx"])


@dataclass(frozen=True)
class Testimony:
    """A witness's notes, and the run they are about."""

    __test__ = False

    witness: Witness
    run_dir: Path
    make_console: Callable[..., Console]

    @property
    def config(self) -> RunConfig:
        return longplay.read_run(self.run_dir).config

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [
            json.loads(line) for line in (self.run_dir / name).read_text().splitlines()
        ]

    def resets(self) -> set[int]:
        """The frames that come right after a console reset, 0 among them."""
        ends = (row["end_global_frame_idx"] for row in self.rows("segments.jsonl"))
        return {0} | {end + 1 for end in ends}


SETTINGS = {
    "scripted": {
        "games": ["pong", "breakout", "qbert"],
        "base_visit_frames": 45,
        "jitter_pct": 0.2,
        "num_cycles": 8,
        "decision_interval": 3,
        "delay": 2,
        "default_action_idx": 4,
    },
    "emulator": {
        "games": ["breakout", "kaboom"],
        "base_visit_frames": 900,
        "jitter_pct": 0.1,
        "num_cycles": 1,
    },
}
CONSOLES: dict[str, Callable[..., Console]] = {
    "scripted": make_scripted,
    "emulator": AleConsole,
}


def run_agent(agent: Any, kind: str, life_loss: bool, out: Path) -> Path:
    settings = {**SETTINGS[kind], "life_loss_termination": life_loss}
    with pytest.MonkeyPatch.context() as patch:
        if kind == "scripted":
            patch.setattr(AleConsole, "from_config", lambda config: make_scripted())
        result = play_run("stream-smoke-v1", agent, out=out, overrides=settings)
    assert result.report.is_valid
    return result.run_dir


@pytest.fixture(scope="module", params=[False, True], ids=["lives-free", "life-loss"])
def life_loss(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture(scope="module", params=list(SETTINGS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def testimony(
    kind: str, life_loss: bool, tmp_path_factory: pytest.TempPathFactory
) -> Testimony:
    witness = Witness()

    def build(*args: Any, **kwargs: Any) -> Witness:
        return witness.build(*args, **kwargs)

    out = tmp_path_factory.mktemp("witness") / "run"
    return Testimony(witness, run_agent(build, kind, life_loss, out), CONSOLES[kind])


def boundary_kinds(testimony: Testimony) -> set[str]:
    ended = {row["end_global_frame_idx"] for row in testimony.rows("segments.jsonl")}
    found = set()
    for row in testimony.rows("events.jsonl"):
        flags = (row["terminated"], row["truncated"])
        if flags == (True, False):
            is_reset = row["global_frame_idx"] in ended
            found.add("game over" if is_reset else "life lost")
        elif flags[1]:
            found.add("both flags" if flags[0] else "visit end")
    return found


def test_runs_have_every_kind_of_boundary(
    testimony: Testimony, kind: str, life_loss: bool
) -> None:
    expected = {"game over", "visit end"}
    expected |= {"life lost"} if life_loss else set()
    expected |= {"both flags"} if kind == "scripted" else set()
    assert boundary_kinds(testimony) == expected


def test_agent_is_built_with_the_number_of_actions_and_its_seed(
    testimony: Testimony,
) -> None:
    assert testimony.witness.built_with == ((18, AGENT_SEED_OF_RUN_SEED_0), {})


def test_every_frame_is_passed_to_the_agent_once(testimony: Testimony) -> None:
    seen = [frame.info["global_frame_idx"] for frame in testimony.witness.frames]
    assert seen == list(range(testimony.config.total_frames))


def test_step_gets_five_plain_arguments(testimony: Testimony) -> None:
    for frame in testimony.witness.frames:
        _, reward, terminated, truncated, info = frame.args
        assert frame.kwargs == {}
        assert frame.observation_kind == (np.ndarray, np.uint8, (210, 160, 3))
        assert type(reward) is float
        assert type(terminated) is bool
        assert type(truncated) is bool
        assert type(info) is dict


@pytest.mark.seed("000", "info-1", "info-2", "info-5..12", "versions-3")
def test_info_has_exactly_the_keys_of_the_contract(testimony: Testimony) -> None:
    for frame in testimony.witness.frames:
        assert {key: type(value) for key, value in frame.info.items()} == INFO_TYPES
        assert not FORBIDDEN_KEYS & set(frame.info)


@pytest.mark.seed("000", "info-5..12")
def test_no_argument_names_the_game(testimony: Testimony) -> None:
    for frame in testimony.witness.frames:
        assert not [value for value in frame.info.values() if isinstance(value, str)]


def test_reward_and_flags_are_those_of_the_frame_before(testimony: Testimony) -> None:
    given = [frame.args[1:4] for frame in testimony.witness.frames]
    logged = [
        (row["reward"], row["terminated"], row["truncated"])
        for row in testimony.rows("events.jsonl")
    ]
    assert given == [(0.0, False, False), *logged[:-1]]
    assert any(reward for reward, _, _ in given)


def test_info_agrees_with_the_log(testimony: Testimony) -> None:
    config = testimony.config
    for frame, row in zip(
        testimony.witness.frames, testimony.rows("events.jsonl"), strict=True
    ):
        assert frame.info["is_decision_frame"] == row["is_decision_frame"]
        assert frame.info["action_space_n"] == 18
        assert frame.info["default_action_idx"] == config.default_action_idx


def test_decision_frames_restart_after_each_reset(testimony: Testimony) -> None:
    interval, resets, since = testimony.config.decision_interval, testimony.resets(), 0
    for frame in testimony.witness.frames:
        since = 0 if frame.info["global_frame_idx"] in resets else since + 1
        assert frame.info["is_decision_frame"] == (since % interval == 0)


@pytest.mark.seed("000", "info-3", "info-4")
def test_previous_applied_action(testimony: Testimony) -> None:
    rows, resets = testimony.rows("events.jsonl"), testimony.resets()
    for idx, frame in enumerate(testimony.witness.frames):
        has_previous = idx not in resets
        expected = (
            rows[idx - 1]["applied_action_idx"]
            if has_previous
            else testimony.config.default_action_idx
        )
        assert frame.info["has_prev_applied_action"] is has_previous
        assert frame.info["prev_applied_action_idx"] == expected


def replay(testimony: Testimony) -> Iterator[tuple[int, int]]:
    """The picture and the lives before each frame, from the console."""
    config, resets = testimony.config, testimony.resets()
    console = testimony.make_console(
        sticky=config.sticky, full_action_space=config.full_action_space
    )
    actions: list[int] = []
    for row in testimony.rows("events.jsonl"):
        if row["visit_frame_idx"] == 0:
            seeds = config.emulator_seeds or ()
            console.start_visit(row["game_id"], seeds[row["visit_idx"]])
            actions = map_actions(console.actions, config.default_action_idx)
        elif row["global_frame_idx"] in resets:
            console.reset()
        yield crc(console.observation()), console.lives()
        console.step(actions[row["applied_action_idx"]])


def test_observation_and_lives_are_of_the_same_moment(testimony: Testimony) -> None:
    given = [
        (frame.observation_crc, frame.info["lives"])
        for frame in testimony.witness.frames
    ]
    assert given == list(replay(testimony))


@pytest.mark.parametrize("kind", ["scripted"], indirect=True, scope="module")
def test_lives_are_those_the_observation_shows(testimony: Testimony) -> None:
    shown = [frame.shown_lives for frame in testimony.witness.frames]
    assert shown == [frame.info["lives"] for frame in testimony.witness.frames]
    assert set(shown) == {1, 2}


def test_arguments_never_change_after_the_call(testimony: Testimony) -> None:
    for frame in testimony.witness.frames[:KEPT_FRAMES]:
        assert crc(frame.args[0]) == frame.observation_crc
    for frame in testimony.witness.frames:
        assert frame.args[4] == frame.info
    infos = {id(frame.args[4]) for frame in testimony.witness.frames}
    assert len(infos) == len(testimony.witness.frames)


# --- Agents that overwrite their arguments ----------------------------------------


class Vandal:
    """Answers as the witness does, and overwrites everything it ever got."""

    def __init__(self, num_actions: int, seed: int) -> None:
        self.kept: list[tuple[Observation, dict[str, Any]]] = []

    def step(
        self,
        obs_rgb: Observation,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> int:
        answer = choose(info["global_frame_idx"])
        self.kept = [*self.kept[-5:], (obs_rgb, info)]
        for observation, mapping in self.kept:
            observation[:] = 255
            for key in mapping:
                mapping[key] = -(10**9)
            mapping["game_id"] = "stolen"
        if len(self.kept) % 2:
            info.clear()
        return answer


class Hoarder(Vandal):
    """Resizes and reshapes its arguments in place."""

    def step(self, obs_rgb: Observation, *rest: Any) -> int:
        *_, info = rest
        answer = choose(info["global_frame_idx"])
        obs_rgb.sort(axis=0)
        obs_rgb.setflags(write=False)
        self.kept.append((obs_rgb[:1, :1].copy(), info))
        info["is_decision_frame"] = not info["is_decision_frame"]
        return answer


@pytest.mark.few(2)
@pytest.mark.parametrize("agent", [Vandal, Hoarder])
def test_agent_that_overwrites_its_arguments_does_not_change_the_run(
    agent: type, testimony: Testimony, kind: str, life_loss: bool, tmp_path: Path
) -> None:
    run_dir = run_agent(agent, kind, life_loss, tmp_path / "run")
    for name in ROW_FILES:
        written = (run_dir / name).read_bytes()
        assert written == (testimony.run_dir / name).read_bytes(), name
        assert written
