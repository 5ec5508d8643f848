"""The prediction track: which policy plays, what the agent gets, and when."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from longplay.agents.functional import FunctionalAgent
from longplay.console.scripted import ScriptedConsole
from longplay.contract.rows import EventRow
from longplay.errors import AgentError, ConfigError, ConsoleError, DocumentError
from longplay.plan import plan_run
from longplay.reference.driver import ReferenceDriver
from longplay.reference.guide import (
    Guidance,
    Guide,
    LiveGuide,
    RecordedGuide,
    open_guides,
)
from longplay.reference.library import load_reference
from longplay.reference.ram import pair_ram
from longplay.stream import Mechanics, Stream
from longplay.tracks.prediction import PREDICTION
from made_up_references import GAMES, make_schedule, record_streams

TIMESTEPS = 60
SEED = 5


def make_stream(
    timesteps: int = TIMESTEPS, guides: dict[int, Guide] | None = None
) -> Stream:
    """Three games on the scripted console, game overs in each."""
    schedule = make_schedule(timesteps)
    console = ScriptedConsole(life_frames=9, frame_skip=4)
    driver = ReferenceDriver(guides or open_guides(schedule, SEED))
    return Stream(schedule, (3, 4, 5), console, Mechanics(reward="sign"), driver)


def make_module(step: Any, init: Any = lambda observation_shape: 0) -> ModuleType:
    module = ModuleType("functions")
    module.init, module.step = init, step  # type: ignore[attr-defined]
    return module


def play(stream: Stream, step: Any) -> list[Any]:
    track = PREDICTION.join(FunctionalAgent(make_module(step), None, 0))
    rows: list[EventRow] = []
    while not stream.done:
        rows.append(stream.advance(track.answer(stream.percept())))
    return rows


def predict_calls(state: int, previous: Any, observation: Any, reward: float) -> Any:
    return state + 1, state / 8


# --- the policy plays -----------------------------------------------------------


@pytest.mark.seed("003", "prediction-4", "prediction-6", "prediction-7")
def test_rows_have_the_prediction_and_the_value_of_the_same_observation(
    references: Path,
) -> None:
    rows = play(make_stream(), predict_calls)
    assert [row.prediction for row in rows] == [k / 8 for k in range(3 * TIMESTEPS)]
    console, index = ScriptedConsole(life_frames=9, frame_skip=4), 0
    for game, seed in zip(GAMES, (3, 4, 5), strict=True):
        values = load_reference(game).values
        console.start_visit(game, seed)
        before = None
        for row in rows[index : index + TIMESTEPS]:
            now = bytes(console.ram())
            assert row.target == values.evaluate(pair_ram(now, before))
            _, is_over, _ = console.step(row.applied_action_idx)
            before = None if is_over else now
            if is_over:
                console.reset()
        index += TIMESTEPS
    assert len({row.target for row in rows}) > TIMESTEPS
    assert sum(row.terminated for row in rows) > 6


@pytest.mark.seed("003", "prediction-8")
def test_predictions_do_not_affect_the_game(references: Path) -> None:
    first, second = (
        play(make_stream(), lambda *seen, value=value: (0, value)) for value in (0, -9)
    )
    for left, right in zip(first, second, strict=True):
        left.prediction = right.prediction
    assert first == second


def test_recorded_streams_give_the_rows_of_live_policies(references: Path) -> None:
    live = play(make_stream(), predict_calls)
    record_streams(references, SEED, make_stream())
    schedule = make_schedule(TIMESTEPS)
    guides = open_guides(schedule, SEED)
    assert {type(guide) for guide in guides.values()} == {RecordedGuide}
    assert play(make_stream(guides=guides), predict_calls) == live


@pytest.mark.parametrize(
    ("timesteps", "seed", "kind"),
    [
        (TIMESTEPS - 20, SEED, RecordedGuide),
        (TIMESTEPS + 1, SEED, LiveGuide),
        (TIMESTEPS, SEED + 1, LiveGuide),
    ],
)
def test_a_recording_is_used_for_the_visits_it_covers(
    references: Path, timesteps: int, seed: int, kind: type
) -> None:
    record_streams(references, SEED, make_stream())
    guides = open_guides(make_schedule(timesteps), seed)
    assert {type(guide) for guide in guides.values()} == {kind}


def test_a_game_outside_the_recording_is_played_live(references: Path) -> None:
    record_streams(references, SEED, make_stream())
    guides = open_guides(make_schedule(TIMESTEPS, GAMES[::-1]), SEED)
    kinds = [type(guide) for guide in guides.values()]
    assert kinds == [LiveGuide, RecordedGuide, LiveGuide]


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_restored_stream_continues_as_before(
    references: Path, is_recorded: bool
) -> None:
    if is_recorded:
        record_streams(references, SEED, make_stream())
    rows = play(make_stream(), predict_calls)
    stopped, at = make_stream(), TIMESTEPS + 37
    for row in rows[:at]:
        stopped.advance(row.prediction)
    resumed = make_stream()
    applied = [row.applied_action_idx for row in rows[TIMESTEPS:at]]
    resumed.restore(stopped.snapshot(), applied)
    assert [resumed.advance(row.prediction) for row in rows[at:]] == rows[at:]


# --- what the agent gets --------------------------------------------------------


class WatchedGuide:
    """Records when it is called; the agent must not see its values."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    def decide(self, ram: memoryview, is_first: bool) -> Guidance:
        self._log.append("target")
        return Guidance(3, 0.5)

    def skip(self, ram: memoryview, is_first: bool) -> None: ...

    def check_reward(self, reward: float) -> None: ...


def test_the_target_is_computed_after_the_prediction_is_read() -> None:
    log: list[str] = []

    class Answer:
        def __float__(self) -> float:
            log.append("prediction")
            return 0.25

    guides: dict[int, Guide] = {k: WatchedGuide(log) for k in range(3)}
    play(make_stream(5, guides), lambda *seen: (0, Answer()))
    assert log == ["prediction", "target"] * 15


@pytest.mark.seed("003", "prediction-2", "prediction-9")
def test_the_agent_sees_only_pixels_and_reward(references: Path) -> None:
    seen: list[tuple[Any, ...]] = []

    def step(state: int, *given: Any) -> Any:
        seen.append(given)
        return state, 0.0

    rows = play(make_stream(), step)
    assert {len(given) for given in seen} == {3}
    assert seen[0][0] is seen[0][1]
    assert all(b[0] is a[1] for a, b in itertools.pairwise(seen))
    assert [reward for *_, reward in seen] == [0.0, *(row.reward for row in rows[:-1])]


def test_info_is_the_two_flags_of_the_transition(references: Path) -> None:
    infos: list[dict[str, Any]] = []

    def step(state: int, previous: Any, now: Any, reward: float, info: Any) -> Any:
        infos.append(info)
        return state, 0.0

    rows = play(make_stream(), step)
    expected = [{"terminated": r.terminated, "truncated": r.truncated} for r in rows]
    assert infos == [{"terminated": False, "truncated": False}, *expected[:-1]]


@pytest.mark.seed("003", "prediction-1", "prediction-3")
def test_init_gets_only_the_shape() -> None:
    def init(*given: Any) -> None:
        assert given == ((210, 160, 3),)

    FunctionalAgent(make_module(predict_calls, init), None, 0)


# --- refusals -------------------------------------------------------------------


@pytest.mark.seed("003", "prediction-5")
@pytest.mark.parametrize(
    "answer",
    [
        *(float("nan"), float("inf"), 1e16, True, "1.0", None, 1j),
        *(np.zeros(2), [0.0], np.bool_(False), np.float32("nan")),
    ],
    ids=repr,
)
def test_an_answer_that_is_not_a_number_is_refused(
    references: Path, answer: object
) -> None:
    stream = make_stream()
    stream.advance(1)
    with pytest.raises(
        AgentError, match=r"not a valid prediction.* at timestep 1 of pong"
    ):
        stream.advance(answer)
    assert stream.global_frame_idx == 1


@pytest.mark.seed("003", "prediction-5")
@pytest.mark.parametrize("answer", [2, np.float32(2), np.array(2.0), np.int8(2)])
def test_numbers_of_all_libraries_are_accepted(
    references: Path, answer: object
) -> None:
    assert make_stream().advance(answer).prediction == 2.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("sticky", 0.0), ("frame_skip", 5), ("reward", "raw"), ("discount", 0.9)),
        *(("delay", 1), ("num_cycles", 2), ("full_action_space", False)),
        *(("min_visit_frames", 900), ("scoring_defaults.window_frames", 7)),
    ],
)
def test_overrides_that_make_the_reference_wrong_are_refused(
    references: Path, name: str, value: Any
) -> None:
    with pytest.raises(ConfigError, match=f"{name}: cannot be changed in prediction"):
        plan_run("prediction-v1", 0, {name: value})


def test_games_and_visit_length_can_be_chosen(references: Path) -> None:
    chosen = {"games": ["qbert", "pong"], "base_visit_frames": 70, "sticky": 0.25}
    plan = plan_run("prediction-v1", 0, chosen)
    visits = [(v.game_id, v.visit_frames) for v in plan.config.schedule]
    assert visits == [("qbert", 70), ("pong", 70)]


def test_a_game_without_a_reference_is_refused(references: Path) -> None:
    with pytest.raises(ConfigError, match="'up_n_down' has no reference; expected"):
        plan_run("prediction-v1", 0, {"games": ["pong", "up_n_down"]})


def test_the_hash_follows_from_the_references_of_the_games(references: Path) -> None:
    before = plan_run("prediction-smoke-v1").config
    facts = references / "breakout.json"
    facts.write_text(
        facts.read_text().replace('"exploration": 0.1', '"exploration": 0')
    )
    after = plan_run("prediction-smoke-v1").config
    assert after.reference_sha256 != before.reference_sha256
    assert after.benchmark_contract_hash != before.benchmark_contract_hash


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("pong.safetensors", b"x", "expected SHA-256"),
        ("pong.safetensors", None, "cannot be read"),
        ("pong.json", b"{", "pong.json"),
        ("pong.streams.json", b"{", "pong.streams.json"),
        ("pong.streams.json", None, "pong.streams.json: cannot be read"),
        ("pong.streams.safetensors", b"x", "expected SHA-256"),
        ("pong.streams.safetensors", None, "cannot be read"),
    ],
)
def test_a_damaged_or_missing_file_is_named(
    references: Path, file: str, damage: bytes | None, message: str
) -> None:
    if "streams" in file:
        record_streams(references, SEED, make_stream())
    if damage is None:
        (references / file).unlink()
    else:
        (references / file).write_bytes(damage)
    with pytest.raises(DocumentError, match=message):
        open_guides(make_schedule(TIMESTEPS), SEED)


def test_a_recording_of_another_reference_is_refused(references: Path) -> None:
    record_streams(references, SEED, make_stream())
    facts = references / "pong.json"
    facts.write_text(
        facts.read_text().replace('"exploration": 0.1', '"exploration": 0')
    )
    with pytest.raises(DocumentError, match=r"pong\.streams\.json reference_sha256"):
        open_guides(make_schedule(TIMESTEPS), SEED)


def test_a_different_emulator_than_the_recorded_one_is_noticed(
    references: Path,
) -> None:
    record_streams(references, SEED, make_stream())
    guides = open_guides(make_schedule(TIMESTEPS), SEED)
    stream = make_stream(guides=guides)
    stream._emulator_seeds = (30, 40, 50)
    with pytest.raises(ConsoleError, match=r"visit 0 of pong, timestep .* recorded"):
        play(stream, predict_calls)
