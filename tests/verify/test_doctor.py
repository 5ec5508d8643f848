"""The doctor finds differences, and explains them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from doctor_traces import make_traces
from longplay.console.ale import AleConsole
from longplay.contract.files import read_document
from longplay.suites import SUITES
from longplay.verify import doctor
from longplay.verify.doctor import (
    Diagnosis,
    GameTrace,
    Traces,
    choose_action,
    diagnose,
    list_suite_games,
    trace_game,
)

SHIPPED = Path(doctor.__file__).parent / "data" / "traces.json"


@pytest.fixture(scope="module")
def shipped() -> Traces:
    return read_document(SHIPPED, Traces)


@pytest.fixture
def one_game(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Diagnosis]:
    """Diagnoses this machine with Beam Rider only, and modified traces."""

    def one_game(folder: Path, **changes: Any) -> Diagnosis:
        traces = read_document(SHIPPED, Traces).model_copy(update=changes)
        monkeypatch.setattr(doctor, "read_document", lambda path, model: traces)
        monkeypatch.setattr(doctor, "list_suite_games", lambda: ["beam_rider"])
        return diagnose(folder)

    return one_game


def _state_of(diagnosis: Diagnosis, name: str) -> tuple[str, str]:
    symptoms = (*diagnosis.machine, *diagnosis.games)
    (found,) = [symptom for symptom in symptoms if symptom.name == name]
    return found.state, found.meaning


def test_every_game_of_the_suites_has_a_trace(shipped: Traces) -> None:
    games = {game for suite in SUITES.values() for game in suite.games}
    assert shipped.games.keys() == games == set(list_suite_games())
    assert {len(trace.ram_crc32) for trace in shipped.games.values()} == {20}


def test_this_machine_is_healthy_where_the_traces_were_made(shipped: Traces) -> None:
    for game_id in ("asterix", "pong", "up_n_down"):
        assert trace_game(game_id) == shipped.games[game_id]


@pytest.mark.exhaustive
def test_every_shipped_trace_reproduces(shipped: Traces) -> None:
    assert make_traces().games == shipped.games


def test_trace_is_the_golden_one(shipped: Traces) -> None:
    """The same actions by bare steps: reward 88, last memory CRC-32 d1a0c166."""
    console = AleConsole(sticky=0.25, full_action_space=True)
    console.start_visit("beam_rider", 2044266242)
    reward_sum, rolled = 0.0, 0
    for frame in range(2000):
        reward, game_over, _ = console.step(frame // 4 * 7 % 18)
        assert not game_over
        reward_sum += reward
        rolled = crc32(console.ram(), rolled)
    assert (reward_sum, crc32(console.ram())) == (88.0, 0xD1A0C166)
    trace = shipped.games["beam_rider"]
    assert trace.reward_sums[-1] == 88.0
    assert trace.ram_crc32[-1] == f"{rolled:08x}"


def test_fixed_actions_use_all_of_them() -> None:
    actions = [choose_action(frame) for frame in range(2000)]
    assert set(actions) == set(range(18))
    assert actions[:12] == [0, 0, 0, 0, 7, 7, 7, 7, 14, 14, 14, 14]


def test_healthy_machine(one_game: Callable[..., Diagnosis], tmp_path: Path) -> None:
    diagnosis = one_game(tmp_path)
    assert diagnosis.is_healthy
    assert {symptom.state for symptom in diagnosis.games} == {"ok"}


@pytest.mark.parametrize(
    ("package", "state"), [("ale_py", "differs"), ("numpy", "note"), ("python", "note")]
)
def test_different_version_is_reported(
    one_game: Callable[..., Diagnosis], tmp_path: Path, package: str, state: str
) -> None:
    versions = {**read_document(SHIPPED, Traces).versions, package: "0.0.1"}
    diagnosis = one_game(tmp_path, versions=versions)
    name = {"ale_py": "ale-py", "python": "Python"}.get(package, package)
    found, meaning = _state_of(diagnosis, name)
    assert found == state
    assert meaning
    assert diagnosis.is_healthy == (state == "note")


def _spoil(trace: GameTrace, **changes: Any) -> dict[str, GameTrace]:
    return {"beam_rider": trace.model_copy(update=changes)}


def test_different_memory_is_reported_with_its_frames(
    one_game: Callable[..., Diagnosis], tmp_path: Path, shipped: Traces
) -> None:
    trace = shipped.games["beam_rider"]
    memory = (*trace.ram_crc32[:7], "00000000", *trace.ram_crc32[8:])
    diagnosis = one_game(tmp_path, games=_spoil(trace, ram_crc32=memory))
    state, meaning = _state_of(diagnosis, "beam_rider")
    assert state == "differs"
    assert "memory differ from frames 700 … 799" in meaning
    assert not diagnosis.is_healthy


def test_different_rewards_are_reported(
    one_game: Callable[..., Diagnosis], tmp_path: Path, shipped: Traces
) -> None:
    trace = shipped.games["beam_rider"]
    sums = (*trace.reward_sums[:-1], 44.0)
    diagnosis = one_game(tmp_path, games=_spoil(trace, reward_sums=sums))
    assert (
        "rewards differ from frames 1900 … 1999"
        in _state_of(diagnosis, "beam_rider")[1]
    )


def test_different_rom_is_reported(
    one_game: Callable[..., Diagnosis], tmp_path: Path, shipped: Traces
) -> None:
    games = _spoil(shipped.games["beam_rider"], rom_sha256="0" * 64)
    state, meaning = _state_of(one_game(tmp_path, games=games), "beam_rider")
    assert state == "differs"
    assert "a different ROM" in meaning


def test_missing_rom_is_reported(
    one_game: Callable[..., Diagnosis], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    state, meaning = _state_of(one_game(tmp_path), "beam_rider")
    assert state == "differs"
    assert "cannot read" in meaning


def test_game_without_a_trace_is_reported(
    one_game: Callable[..., Diagnosis], tmp_path: Path
) -> None:
    state, meaning = _state_of(one_game(tmp_path, games={}), "beam_rider")
    assert state == "differs"
    assert meaning == "this longplay has no trace of the game to compare with"


def test_different_draws_of_the_schedule_are_reported(
    one_game: Callable[..., Diagnosis], tmp_path: Path
) -> None:
    diagnosis = one_game(tmp_path, schedule_hash="0" * 64)
    assert _state_of(diagnosis, "schedule")[0] == "differs"


def test_full_disk_is_reported(
    one_game: Callable[..., Diagnosis], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = doctor.shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: usage)
    state, meaning = _state_of(one_game(tmp_path), "free disk")
    assert state == "differs"
    assert "does not fit" in meaning


def test_command_prints_a_table_of_80_columns(
    invoke: Callable[..., Any],
    one_game: Callable[..., Diagnosis],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    one_game(tmp_path)
    answer = invoke("doctor")
    assert answer.exit_code == 0
    assert "healthy: 1 games" in answer.stdout
    assert max(map(len, answer.stdout.splitlines())) <= 80
    assert invoke("doctor", "--json").json["healthy"] is True
    one_game(tmp_path, games={})
    answer = invoke("doctor")
    assert answer.exit_code == 1
    assert "not healthy: 1 of 1 games" in answer.stdout
