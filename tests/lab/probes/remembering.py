"""A suite whose games pay for one action each, and agents with a known memory."""

from __future__ import annotations

from pathlib import Path

from longplay.console.base import ConsoleStep, Observation, Rom
from longplay.console.machines import Machine
from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import RunConfig, ScoringDefaults
from longplay.suites import ControlSuite

GAMES = ("button_two", "button_three")


class ButtonConsole(ScriptedConsole):
    """1 point for the game's own button; the picture shows which game it is."""

    def start_visit(self, game_id: str, emulator_seed: int) -> None:
        self._number = GAMES.index(game_id)
        super().start_visit(game_id, emulator_seed)

    def step(self, action: int) -> ConsoleStep:
        _, is_over, lives = super().step(action)
        return float(action == 2 + self._number), is_over, lives

    def observation(self) -> Observation:
        frame = super().observation()
        frame[100, 80] = 50 * (1 + self._number)
        return frame


def make_console(config: RunConfig) -> ButtonConsole:
    return ButtonConsole(life_frames=30, frame_skip=1)


MACHINE = Machine(
    name="button_emulator",
    games=frozenset(GAMES),
    make_console=make_console,
    read_version=lambda: "1.0",
    read_rom=lambda game_id: Rom(Path(game_id), "a" * 32, "b" * 64),
)

SUITE = ControlSuite(
    suite_id="buttons-v1",
    purpose="each game has its own button",
    games=GAMES,
    num_cycles=4,
    base_visit_frames=120,
    frame_skip=1,
    scoring_defaults=ScoringDefaults(
        window_frames=10,
        bottom_k_frac=0.5,
        revisit_frames=5,
        final_score_weights=(0.5, 0.5),
    ),
)

# Presses the button of the game with the probability that it remembers it, by a number
# from the picture: its own generator would draw the same in all branches. It learns it
# wholly at the hundredth timestep of a visit, which no branch reaches, and forgets then
# the given share of what it knows of other games; or it forgets everything as soon as
# the picture shows another game.
AGENT = """
import json
import zlib
from pathlib import Path

class Agent:
    def __init__(self, num_actions, seed, loses=0.0, erases=False):
        self.loses, self.erases = loses, erases
        self.known, self.game, self.timesteps = {}, None, 0

    def step(self, obs_rgb, reward, terminated, truncated, info):
        game = str(int(obs_rgb[100, 80, 0]) // 50 - 1)
        if game != self.game:
            self.game, self.timesteps = game, 0
            if self.erases:
                self.known = {game: 0.0}
        self.timesteps += 1
        if self.timesteps == 100:
            kept = {g: x * (1 - self.loses) for g, x in self.known.items() if g != game}
            self.known = {**kept, game: 1.0}
        drawn = zlib.crc32(obs_rgb[0, :8, 0].tobytes()) / 2**32
        is_remembered = drawn < self.known.get(game, 0.0)
        return 2 + int(game) if is_remembered else 0

    def save(self, directory):
        state = [self.known, self.game, self.timesteps]
        (Path(directory) / "state.json").write_text(json.dumps(state))

    def load(self, directory):
        state = json.loads((Path(directory) / "state.json").read_text())
        self.known, self.game, self.timesteps = state
"""
