"""Game -> the machine that plays it; the one place that builds consoles.

Every game belongs to one machine, so the games of a run determine its machine. ALE is
imported only when a console is built or a ROM is read, so that run directories can be
read where it is not installed. `add_machine` registers another machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longplay.console.base import Console, Rom
from longplay.console.games import GAMES, check_game
from longplay.contract.config import RunConfig
from longplay.errors import ConfigError


@dataclass(frozen=True)
class Machine:
    """A kind of console.

    Attributes:
        name: Key of its emulator's version in a run's config.json.
        games: The games it can play.
        make_console: Builds the console of a run.
        read_version: Returns the version of its emulator.
        read_rom: Finds a game's ROM and checks its hash.
    """

    name: str
    games: frozenset[str]
    make_console: Callable[[RunConfig], Console]
    read_version: Callable[[], str]
    read_rom: Callable[[str], Rom]


def _make_ale(config: RunConfig) -> Console:
    from longplay.console.ale import AleConsole

    return AleConsole.from_config(config)


def _read_ale_version() -> str:
    from longplay.console.ale import ALE_VERSION

    return ALE_VERSION


def _read_ale_rom(game_id: str) -> Rom:
    from longplay.console.ale import read_rom

    return read_rom(game_id)


ALE = Machine("ale_py", GAMES, _make_ale, _read_ale_version, _read_ale_rom)

_machines: list[Machine] = [ALE]


def add_machine(machine: Machine) -> None:
    """Registers another machine and its games.

    Raises:
        ConfigError: One of its games belongs to another machine.
    """
    for known in _machines:
        if shared := sorted(known.games & machine.games):
            raise ConfigError(
                f"machine {machine.name}: the game {shared[0]!r} already belongs to "
                f"{known.name}"
            )
    _machines.append(machine)


def remove_machine(machine: Machine) -> None:
    """Undoes `add_machine`."""
    _machines.remove(machine)


def find_machine(game_id: str) -> Machine:
    """The machine that plays a game.

    Raises:
        ConfigError: The game cannot be played, or the name is unknown.
    """
    for machine in _machines:
        if game_id in machine.games:
            return machine
    check_game(game_id)
    raise AssertionError(f"{game_id} is in the list of games but has no machine")


def machine_of(games: Sequence[str]) -> Machine:
    """The machine that plays all games of a run.

    Raises:
        ConfigError: They belong to several machines, or one cannot be played.
    """
    machines = {game_id: find_machine(game_id) for game_id in games}
    machine = machines[games[0]]
    for game_id, other in machines.items():
        if other is not machine:
            raise ConfigError(
                f"games: {games[0]!r} is played on {machine.name}, {game_id!r} on "
                f"{other.name}; a run has one machine"
            )
    return machine


def make_console(config: RunConfig) -> Console:
    """The console of a run."""
    return machine_of(config.games).make_console(config)
