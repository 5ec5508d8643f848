"""A track, a suite and a console as another package would define them.

`tests/test_plugins.py` installs this module as a package; importing it adds nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from longplay.agents.source.loading import LoadedAgent
from longplay.console.base import Rom
from longplay.console.machines import Machine
from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import RunConfig, ScoringDefaults
from longplay.contract.documents import Score
from longplay.contract.registry import ContractVersion
from longplay.contract.rows import TimestepRow
from longplay.scoring.play import Play
from longplay.scoring.streaming import compute_score as compute_streaming_score
from longplay.suites import ControlSuite
from longplay.tracks.base import Explanation, Track

# --- a console: two games, and no ROMs ------------------------------------------


def make_toy_console(config: RunConfig) -> ScriptedConsole:
    return ScriptedConsole(life_frames=9, frame_skip=config.frame_skip or 1)


TOY_MACHINE = Machine(
    name="toy_emulator",
    games=frozenset({"toy_one", "toy_two"}),
    make_console=make_toy_console,
    read_version=lambda: "1.0",
    read_rom=lambda game_id: Rom(Path(game_id), "a" * 32, "b" * 64),
)


# --- a track: the agent's action is also a guess of a bit of the memory ---------


class GuessRow(TimestepRow, gc=False):
    """A timestep, with the bit that the agent had to guess."""

    bit: int


class GuessScore(Score):
    """v1's keys, and the number of timesteps with a reward."""

    HEADLINE: ClassVar[str] = "rewarded"

    rewarded: int


class GuessDriver:
    row_type = GuessRow

    def start_visit(self, visit: Any, console: Any) -> None:
        self._ram = console.ram

    def decide(self, answer: Any, is_first: bool) -> int:
        self._bit = self._ram()[0] % 2
        return int(answer)

    def finish_frame(self, reward: float) -> tuple[int]:
        return (self._bit,)

    def skip(self, is_first: bool) -> None:
        """Does nothing: there is no state."""


def compute_guess_score(play: Play) -> GuessScore:
    score = compute_streaming_score(play).model_dump()
    return GuessScore(**score, rewarded=len(play.rewards.frames))


def explain_guesses(play: Play, game_id: str) -> Explanation:
    rows = [
        {"visit": p.visit.visit_idx, "timesteps": p.span.length}
        for p in play.visits_of(game_id)
    ]
    headings = {"visit": "visit", "timesteps": "timesteps"}
    return Explanation(rows, headings, "rewarded = all rewards")


GUESSING = Track(
    name="guessing",
    contract=ContractVersion(
        "guessing-v1", ("track", "frame_skip", "reward"), GuessRow, GuessScore
    ),
    info_keys=("is_decision_frame", "global_frame_idx"),
    build_agent=LoadedAgent.build,
    make_driver=lambda config: GuessDriver(),
    frame_noun="timestep",
    compute_score=compute_guess_score,
    score_columns={"rewarded": "rewarded", "final": "final_score"},
    scored_on="every reward",
    explain_game=explain_guesses,
    typical_suite="control-v1",
)


class GuessSuite(ControlSuite):
    track: ClassVar[str] = "guessing"


GUESS_SUITE = GuessSuite(
    suite_id="guessing-toy-v1",
    purpose="a suite of another package",
    games=("toy_one", "toy_two"),
    base_visit_frames=300,
    scoring_defaults=ScoringDefaults(
        window_frames=100,
        bottom_k_frac=0.5,
        revisit_frames=50,
        final_score_weights=(0.5, 0.5),
    ),
)

AGENT = """
class Agent:
    def __init__(self, num_actions, seed):
        pass

    def step(self, obs_rgb, reward, terminated, truncated, info):
        assert info.keys() == {"is_decision_frame", "global_frame_idx"}
        assert obs_rgb.shape == (210, 160, 3)
        return info["global_frame_idx"] % 18
"""
