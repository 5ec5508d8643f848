"""The emulator: what it plays, and that bad input never reaches ale-py.

ale-py ends the process on most of the inputs refused here, so these tests let nothing
through: where it must not be touched, it is replaced by something that fails the test.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ale_py
import numpy as np
import pytest
from ale_py import roms

from longplay.console.ale import AleConsole, read_rom
from longplay.console.base import ACTION_NAMES, OBSERVATION_SHAPE
from longplay.console.games import GAMES, REFUSED_GAMES
from longplay.errors import ConfigError, ConsoleError, UnknownNameError

TWO_PLAYER_GAMES = ("combat", "joust", "maze_craze", "warlords")
OTHER_HEIGHTS = {
    "adventure": 250,
    "air_raid": 250,
    "carnival": 214,
    "journey_escape": 230,
    "keystone_kapers": 250,
    "king_kong": 250,
    "klax": 250,
    "laser_gates": 250,
    "mr_do": 250,
    "pacman": 250,
    "pooyan": 220,
    "sir_lancelot": 250,
    "space_war": 250,
}
# ale-py gives these two games no fire button, in its full set either.
WITHOUT_FIRE = {"lost_luggage", "skiing"}

PACKAGED_ROMS = Path(roms.__file__).parent


class Untouchable:
    """Replaces ale-py's emulator class where it must not be used."""

    def __getattr__(self, name: str) -> Any:
        pytest.fail(f"ale-py was touched: ALEInterface.{name}")

    def __call__(self, *args: object) -> Any:
        pytest.fail("ale-py was touched: an ALEInterface was made")


@pytest.fixture
def no_ale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ale_py, "ALEInterface", Untouchable())


@pytest.fixture
def rom_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty ALE_ROMS_DIR."""
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    return tmp_path


def make_console(**options: Any) -> AleConsole:
    return AleConsole(**{"sticky": 0.25, "full_action_space": True, **options})


def start(game_id: str, seed: int = 7, **options: Any) -> AleConsole:
    console = make_console(**options)
    console.start_visit(game_id, seed)
    return console


# --- What is refused before ale-py is touched ------------------------------------


@pytest.mark.parametrize(
    ("game_id", "message"),
    [
        ("tetriz", r"unknown game 'tetriz'; did you mean 'tetris'.*longplay games"),
        ("Pong", r"unknown game 'Pong'; did you mean 'pong'"),
        ("", "unknown game ''"),
        ("../roms/pong", "unknown game"),
        ("pong.bin", "unknown game"),
        ("ALE/Pong-v5", "unknown game"),
    ],
)
@pytest.mark.usefixtures("no_ale")
def test_unknown_game_is_refused(game_id: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        start(game_id)


@pytest.mark.parametrize("game_id", TWO_PLAYER_GAMES)
@pytest.mark.usefixtures("no_ale")
def test_unplayable_game_is_refused_with_the_reason(game_id: str) -> None:
    with pytest.raises(ConfigError, match=f"'{game_id}' cannot be .*for two players"):
        start(game_id)


@pytest.mark.parametrize(("game_id", "height"), OTHER_HEIGHTS.items())
@pytest.mark.usefixtures("no_ale")
def test_game_of_other_height_is_refused_with_the_reason(
    game_id: str, height: int
) -> None:
    with pytest.raises(ConfigError, match=rf"'{game_id}'.*{height} lines high.*210"):
        start(game_id)


def flip_a_bit(content: bytes) -> bytes:
    return content[:100] + bytes([content[100] ^ 1]) + content[101:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "one bit flipped": flip_a_bit,
    "cut": lambda content: content[:-1],
    "longer": lambda content: content + b"\0",
    "empty": lambda content: b"",
    "garbage": lambda content: b"\xff" * len(content),
    "another game": lambda content: (PACKAGED_ROMS / "breakout.bin").read_bytes(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.usefixtures("no_ale")
def test_damaged_rom_is_refused(
    damage: Callable[[bytes], bytes], rom_dir: Path
) -> None:
    sound = (PACKAGED_ROMS / "pong.bin").read_bytes()
    (rom_dir / "pong.bin").write_bytes(damage(sound))
    with pytest.raises(ConfigError, match=r"ROM of pong: expected MD5 \w{32}, found"):
        start("pong")


@pytest.mark.usefixtures("no_ale")
def test_missing_rom_is_refused(rom_dir: Path) -> None:
    with pytest.raises(ConfigError, match=r"ROM of pong.*No such file.*ALE_ROMS_DIR"):
        start("pong")


@pytest.mark.usefixtures("no_ale")
def test_folder_in_place_of_a_rom_is_refused(rom_dir: Path) -> None:
    (rom_dir / "pong.bin").mkdir()
    with pytest.raises(ConfigError, match=r"ROM of pong.*Is a directory"):
        start("pong")


@pytest.mark.usefixtures("no_ale")
def test_missing_rom_folder_is_refused(rom_dir: Path) -> None:
    rom_dir.rmdir()
    with pytest.raises(ConfigError, match=r"ROM of pong.*No such file"):
        start("pong")


def test_sound_rom_elsewhere_is_played(rom_dir: Path) -> None:
    (rom_dir / "pong.bin").write_bytes((PACKAGED_ROMS / "pong.bin").read_bytes())
    assert read_rom("pong").path == rom_dir / "pong.bin"
    assert start("pong").observation().any()


@pytest.mark.parametrize(
    "sticky", [1.5, 1.0, -0.1, float("nan"), float("inf"), float("-inf")]
)
@pytest.mark.usefixtures("no_ale")
def test_sticky_out_of_range_is_refused(sticky: float) -> None:
    with pytest.raises(ConfigError, match=r"sticky: expected .* \[0, 1\), found"):
        make_console(sticky=sticky)


@pytest.mark.parametrize("seed", [-1, 2**31, 2**32, 2**64, -(2**31)])
@pytest.mark.usefixtures("no_ale")
def test_emulator_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(ConfigError, match=f"emulator seed: .*found {seed}"):
        start("pong", seed=seed)


@pytest.mark.parametrize("seed", [0, 2**31 - 1])
def test_emulator_seed_at_the_ends_of_its_range_is_taken(seed: int) -> None:
    assert start("pong", seed=seed).actions


@pytest.mark.parametrize(
    "use",
    [
        lambda console: console.step(0),
        lambda console: console.reset(),
        lambda console: console.observation(),
        lambda console: console.lives(),
        lambda console: console.ram(),
    ],
    ids=["step", "reset", "observation", "lives", "ram"],
)
@pytest.mark.usefixtures("no_ale")
def test_every_call_fails_before_a_game_is_loaded(
    use: Callable[[AleConsole], object],
) -> None:
    with pytest.raises(ConsoleError, match="no game yet; call start_visit first"):
        use(make_console())


@pytest.mark.usefixtures("no_ale")
def test_refused_visit_leaves_a_console_without_a_game() -> None:
    console = make_console()
    with pytest.raises(ConfigError):
        console.start_visit("combat", 7)
    with pytest.raises(ConsoleError, match="no game yet"):
        console.step(0)


class Unplayable(ale_py.ALEInterface):
    """An emulator that loads games but must not be played."""

    def act(self, *args: object) -> Any:
        pytest.fail(f"ale-py was asked to act: {args}")


@pytest.mark.parametrize(
    "action", [18, -1, 40, 2**31, float("nan"), 0.5, None, "FIRE"], ids=repr
)
def test_action_out_of_range_is_refused(
    action: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ale_py, "ALEInterface", Unplayable)
    console = start("pong")
    with pytest.raises(ConsoleError, match=r"action: expected one of .*NOOP.*found"):
        console.step(action)


@pytest.mark.parametrize("action", [2, 5, 10, 17])
def test_action_that_the_minimal_set_lacks_is_refused(
    action: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ale_py, "ALEInterface", Unplayable)
    console = start("pong", full_action_space=False)
    with pytest.raises(ConsoleError, match=rf"\(0, 1, 3, 4, 11, 12\).*found {action}$"):
        console.step(action)


def test_the_guard_of_these_tests_would_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ale_py, "ALEInterface", Unplayable)
    console = start("pong")
    with pytest.raises(pytest.fail.Exception, match="asked to act"):
        console.step(0)
    monkeypatch.setattr(ale_py, "ALEInterface", Untouchable())
    with pytest.raises(pytest.fail.Exception, match="touched"):
        start("pong")


# --- The catalogue of games against the installed ale-py --------------------------


def test_every_rom_is_either_playable_or_refused() -> None:
    assert sorted([*GAMES, *REFUSED_GAMES]) == sorted(roms.get_all_rom_ids())
    assert set(REFUSED_GAMES) == {*TWO_PLAYER_GAMES, *OTHER_HEIGHTS}


@pytest.mark.few(10)
@pytest.mark.parametrize("game_id", sorted(GAMES))
def test_playable_game(game_id: str) -> None:
    console = start(game_id)
    buttons = 9 if game_id in WITHOUT_FIRE else 18
    assert len(console.actions) == buttons
    assert set(console.actions) <= set(range(18))
    console.step(console.actions[-1])
    assert console.observation().shape == OBSERVATION_SHAPE
    assert console.observation().dtype == np.uint8
    assert len(console.ram()) == 128


def test_other_heights_agree_with_ale_py() -> None:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    found = {}
    for game_id in OTHER_HEIGHTS:
        ale = ale_py.ALEInterface()
        ale.loadROM(roms.get_rom_path(game_id))
        found[game_id] = ale.getScreenDims()[0]
    assert found == OTHER_HEIGHTS


@pytest.mark.parametrize("game_id", TWO_PLAYER_GAMES)
def test_ale_py_still_ends_the_process_on_two_player_games(game_id: str) -> None:
    code = (
        "import ale_py; from ale_py import roms; ale = ale_py.ALEInterface();"
        f"ale.loadROM(roms.get_rom_path({game_id!r})); print('survived')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert b"survived" not in done.stdout


def test_action_names_are_those_of_ale_py() -> None:
    assert tuple(ale_py.Action(k).name for k in range(18)) == ACTION_NAMES


def test_actions_are_global_indices_in_the_games_own_order() -> None:
    assert start("pong").actions == tuple(range(18))
    minimal = start("pong", full_action_space=False).actions
    assert [ACTION_NAMES[action] for action in minimal] == [
        "NOOP",
        "FIRE",
        "RIGHT",
        "LEFT",
        "RIGHTFIRE",
        "LEFTFIRE",
    ]


# --- Play -------------------------------------------------------------------------


def play(console: AleConsole, frames: int) -> float:
    total = 0.0
    for i in range(frames):
        reward, is_over, _ = console.step((i // 4 * 7) % 18)
        total += reward
        if is_over:
            console.reset()
    return total


def test_golden_beam_rider() -> None:
    console = start("beam_rider", seed=2044266242)
    assert play(console, 2_000) == 88
    assert f"{zlib.crc32(console.ram()):08x}" == "d1a0c166"


def test_golden_asterix_in_timesteps_of_four() -> None:
    console = start("asterix", seed=2044266242, frame_skip=4)
    total, game_overs, emulator_frames = 0.0, 0, 0
    for i in range(1_000):
        reward, is_over, _ = console.step((i * 7) % 18)
        total += reward
        emulator_frames += console.emulator_frames
        if is_over:
            game_overs += 1
            console.reset()
    assert (total, game_overs, emulator_frames) == (1100, 3, 3_996)
    assert f"{zlib.crc32(console.ram()):08x}" == "b71a42fb"


@pytest.mark.parametrize("frame_skip", [0, -1, True])
@pytest.mark.usefixtures("no_ale")
def test_frame_skip_out_of_range_is_refused(frame_skip: int) -> None:
    with pytest.raises(ConfigError, match="frame_skip: expected at least 1, found"):
        make_console(frame_skip=frame_skip)


def test_single_frames_are_counted_too() -> None:
    console = start("breakout")
    console.step(0)
    assert console.emulator_frames == 1


def test_visit_reproduces_on_a_used_console() -> None:
    console = start("beam_rider", seed=2044266242)
    play(console, 500)
    first = bytes(console.ram())
    console.start_visit("pong", 1)
    play(console, 100)
    console.start_visit("beam_rider", 2044266242)
    play(console, 500)
    assert bytes(console.ram()) == first


def test_step_answers_plain_types() -> None:
    reward, is_over, lives = start("breakout").step(0)
    assert (type(reward), type(is_over), type(lives)) == (float, bool, int)
    assert (reward, is_over, lives) == (0.0, False, 5)


def test_observations_are_new_arrays() -> None:
    console = start("breakout")
    first, second = console.observation(), console.observation()
    assert not np.shares_memory(first, second)
    before = second.copy()
    first[:] = 255
    np.testing.assert_array_equal(second, before)
    np.testing.assert_array_equal(console.observation(), before)
    play(console, 50)
    np.testing.assert_array_equal(second, before)
    assert (first == 255).all()
    assert not np.array_equal(console.observation(), before)


def test_writing_to_observations_does_not_change_the_game() -> None:
    left, right = start("breakout"), start("breakout")
    for i in range(200):
        left.observation()[:] = i % 256
        assert left.step(i % 18) == right.step(i % 18)
        assert bytes(left.ram()) == bytes(right.ram())
    np.testing.assert_array_equal(left.observation(), right.observation())


@pytest.mark.seed("000", "schedule-5")
@pytest.mark.parametrize("frame_skip", [1, 4])
def test_truncation_of_the_emulator_ends_the_game(
    monkeypatch: pytest.MonkeyPatch, frame_skip: int
) -> None:
    """A frame cap, which longplay never sets, would end the game like a game over."""

    class Capped(ale_py.ALEInterface):
        def setInt(self, name: str, value: int) -> None:  # noqa: N802
            is_cap = name == "max_num_frames_per_episode"
            super().setInt(name, 40 if is_cap else value)

    monkeypatch.setattr(ale_py, "ALEInterface", Capped)
    console = start("pong", frame_skip=frame_skip)
    ends = [console.step(0)[1] for _ in range(40 // frame_skip)]
    assert ends == [False] * (40 // frame_skip - 1) + [True]
    assert console._ale.game_truncated()
